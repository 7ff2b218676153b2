//! What is published keeps what its manifests say.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("examples has a parent")
        .to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Of the lock file, with every feature.
fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .features(cargo_metadata::CargoOpt::AllFeatures)
        .other_options(["--locked".to_owned()])
        .exec()
        .expect("Cargo.lock fits the manifests")
}

/// The packages that may be published.
fn published(metadata: &Metadata) -> Vec<&Package> {
    let packages = metadata.workspace_packages();
    packages
        .into_iter()
        .filter(|package| package.publish.as_ref().is_none_or(|registries| !registries.is_empty()))
        .collect()
}

/// What users compile together with these packages.
fn compiled<'m>(metadata: &'m Metadata, packages: &[&'m Package]) -> BTreeSet<&'m PackageId> {
    let resolve = metadata.resolve.as_ref().expect("it was asked for");
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let mut found = BTreeSet::new();
    let mut next: VecDeque<_> = packages.iter().map(|package| &package.id).collect();
    while let Some(id) = next.pop_front() {
        if found.insert(id) {
            let used = nodes[id].deps.iter().filter(|dependency| {
                let kinds = &dependency.dep_kinds;
                kinds.iter().any(|kind| kind.kind != DependencyKind::Development)
            });
            next.extend(used.map(|dependency| &dependency.pkg));
        }
    }
    found
}

#[test]
fn no_dependency_needs_a_newer_rust_than_is_promised() {
    let metadata = metadata();
    let published = published(&metadata);
    let promised = published[0].rust_version.as_ref().expect("rust-version is set");
    let promise = format!("Rust {}.{} or newer", promised.major, promised.minor);
    assert!(read("README.md").contains(&promise), "README.md lacks: {promise}");
    let compiled = compiled(&metadata, &published);
    assert!(compiled.len() > 50, "{} packages", compiled.len());
    let newer: Vec<String> = compiled
        .into_iter()
        .map(|id| &metadata[id])
        .filter(|package| package.rust_version.as_ref().is_some_and(|needed| needed > promised))
        .map(|package| format!("{} {} needs {:?}", package.name, package.version, package.rust_version))
        .collect();
    assert!(newer.is_empty(), "newer than {promised}: {newer:#?}");
}

#[test]
fn what_is_published_is_described() {
    let metadata = metadata();
    let published = published(&metadata);
    let names: BTreeSet<_> = published.iter().map(|package| package.name.as_str()).collect();
    let expected = ["leasehold", "leasehold-cli", "leasehold-derive", "leasehold-web"];
    assert_eq!(names, BTreeSet::from(expected));
    let changes = read("CHANGELOG.md");
    for package in published {
        let name = &package.name;
        assert!(
            package.description.as_ref().is_some_and(|text| text.len() > 20),
            "{name}"
        );
        assert_eq!(package.license.as_deref(), Some("MIT OR Apache-2.0"), "{name}");
        assert!(package.repository.is_some() && package.readme.is_some(), "{name}");
        assert!((1..=5).contains(&package.keywords.len()), "{name}");
        assert!(!package.categories.is_empty(), "{name}");
        let has_library = package.targets.iter().any(|target| target.is_lib());
        let for_docs_rs = package.metadata.pointer("/docs/rs").is_some();
        assert!(!has_library || for_docs_rs, "{name} lacks metadata for docs.rs");
        let heading = format!("## {}", package.version);
        assert!(
            changes.contains(&heading) || changes.contains("## Unreleased"),
            "{name}"
        );
        // Together, or a user gets one that does not fit another.
        for dependency in &package.dependencies {
            if names.contains(dependency.name.as_str()) && dependency.kind != DependencyKind::Development {
                assert_eq!(dependency.req.to_string(), format!("={}", package.version), "{name}");
            }
        }
    }
}

#[test]
fn every_example_is_in_the_index() {
    let index = read("examples/README.md");
    let metadata = metadata();
    let examples = metadata.workspace_packages().into_iter().filter(|package| {
        package
            .manifest_path
            .starts_with(metadata.workspace_root.join("examples"))
    });
    let mut count = 0;
    for target in examples
        .flat_map(|package| &package.targets)
        .filter(|target| target.is_bin())
    {
        count += 1;
        assert!(
            index.contains(&format!("[{}](", target.name)),
            "{} is not in the index",
            target.name
        );
    }
    assert!(count >= 15, "{count} examples");
}

/// The manifest that a new program gets names what the template is tested with.
#[test]
fn a_program_from_the_template_has_the_dependencies_that_were_tested() {
    let generated = read("template/Cargo.toml.liquid").replace("{{project-name}}", "mine");
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/main.rs"), "fn main() {}").unwrap();
    fs::write(folder.path().join("Cargo.toml"), generated).unwrap();
    let generated = MetadataCommand::new()
        .manifest_path(folder.path().join("Cargo.toml"))
        .no_deps()
        .exec()
        .unwrap();
    let metadata = metadata();
    let tested = metadata.workspace_packages();
    let tested = tested
        .iter()
        .find(|package| package.name == "leasehold-template")
        .unwrap();
    let needs = |package: &Package| -> BTreeSet<String> {
        let needs = package.dependencies.iter().map(|dependency| {
            let mut features = dependency.features.clone();
            features.sort_unstable();
            // Those of the workspace pin the library and take nothing that they do not name.
            let req = match dependency.name.as_str() {
                "leasehold" => format!("^{}.{}", tested.version.major, tested.version.minor),
                _ => dependency.req.to_string(),
            };
            features.retain(|feature| feature != "32-column-tables");
            format!("{} {req} {:?} {features:?}", dependency.name, dependency.kind)
        });
        needs.collect()
    };
    assert_eq!(needs(&generated.packages[0]), needs(tested));
    assert_eq!(generated.packages[0].rust_version, tested.rust_version);
    assert_eq!(generated.packages[0].edition, tested.edition);
}
