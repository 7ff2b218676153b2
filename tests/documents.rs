//! What the project's documents say of its files.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Every document of the project, but for what builds leave behind.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            documents(&path, found)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

/// The targets of the links in a document, code left out.
fn links(document: &str) -> Vec<&str> {
    let prose = document.split("\n```").step_by(2);
    let targets = prose.flat_map(|part| part.split("](").skip(1));
    targets.filter_map(|rest| Some(rest.split_once(')')?.0)).collect()
}

/// The name under which a heading can be linked to.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(kept)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn leads_somewhere(from: &Path, link: &str) -> bool {
    if link.starts_with("https://") {
        return true;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() {
        from.to_owned()
    } else {
        from.with_file_name(file)
    };
    if heading.is_empty() {
        return target.exists();
    }
    let text = fs::read_to_string(target).unwrap_or_default();
    text.lines()
        .filter(|line| line.starts_with('#'))
        .any(|line| anchor(line) == heading)
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    documents(root, &mut found).unwrap();
    let mut dead = Vec::new();
    let mut checked = 0;
    for document in &found {
        let text = fs::read_to_string(document).unwrap();
        for link in links(&text) {
            checked += 1;
            if !leads_somewhere(document, link) {
                dead.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
    assert!(checked > 50, "{checked} links in {} documents", found.len());
}

#[test]
fn a_dead_link_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("a.md");
    let text =
        "# One thing, and another\n[a](a.md) [b](b.md#c)\n```\nlinks[0](1)\n```\n[c](#one-thing-and-another) [d](#d)\n";
    fs::write(&document, text).unwrap();
    let links = links(text);
    assert_eq!(links, ["a.md", "b.md#c", "#one-thing-and-another", "#d"]);
    let dead: Vec<_> = links
        .into_iter()
        .filter(|link| !leads_somewhere(&document, link))
        .collect();
    assert_eq!(dead, ["b.md#c", "#d"]);
}
