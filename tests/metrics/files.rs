//! The dashboard and the alert rules, against the library's list of metrics.

use std::collections::BTreeSet;
use std::fs;

use leasehold::metrics::{METRICS, MetricType};
use serde_json::Value;

fn file(name: &str) -> String {
    fs::read_to_string(format!("{}/../ops/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Every text in it.
fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

/// The names of metrics in a query. What Prometheus makes of a histogram counts as that.
fn names(query: &str) -> Vec<&str> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics = words.filter(|word| word.starts_with("leasehold_"));
    metrics
        .map(|word| {
            let histogram = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| word.strip_suffix(end));
            match histogram {
                Some(name) => {
                    let is_one = |metric: &&leasehold::metrics::Metric| metric.name == name;
                    let metric = METRICS.iter().find(is_one);
                    assert_eq!(
                        metric.map(|metric| metric.metric_type),
                        Some(MetricType::Histogram),
                        "{word}"
                    );
                    name
                }
                None => word,
            }
        })
        .collect()
}

fn dashboard() -> Value {
    serde_json::from_str(&file("grafana/leasehold.json")).unwrap()
}

fn rules() -> Vec<Value> {
    let file: Value = serde_yaml_ng::from_str(&file("prometheus/alerts.yml")).unwrap();
    let groups = file["groups"].as_array().unwrap();
    groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

#[test]
fn dashboard_and_alerts_name_the_metrics_that_there_are_and_all_of_them() {
    let known: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(known.len(), METRICS.len());
    let (dashboard, rules) = (dashboard(), Value::Array(rules()));
    let mut found = Vec::new();
    texts(&dashboard["panels"], &mut found);
    texts(&dashboard["templating"], &mut found);
    let shown: BTreeSet<&str> = found.iter().flat_map(|text| names(text)).collect();
    assert_eq!(shown, known, "the dashboard shows each");
    let mut found = Vec::new();
    texts(&rules, &mut found);
    let alerted: BTreeSet<&str> = found.iter().flat_map(|text| names(text)).collect();
    assert!(alerted.is_subset(&known), "{alerted:?}");
    assert!(alerted.len() >= 10, "{alerted:?}");
}

/// A label that a metric does not have matches nothing, and says nothing.
#[test]
fn alerts_and_panels_ask_for_labels_that_the_metrics_have() {
    let (dashboard, rules) = (dashboard(), Value::Array(rules()));
    let mut found = Vec::new();
    texts(&dashboard["panels"], &mut found);
    texts(&rules, &mut found);
    let mut asked = 0;
    for query in found.iter().filter(|text| !names(text).is_empty()) {
        let grouped = query.split(" by (").skip(1).filter_map(|rest| rest.split_once(')'));
        for (labels, rest) in grouped {
            let name = names(rest)[0];
            let metric = METRICS.iter().find(|metric| metric.name == name).unwrap();
            for label in labels.split(',').map(str::trim).filter(|label| *label != "le") {
                asked += 1;
                assert!(metric.labels.contains(&label), "{label} of {name} in {query}");
            }
        }
    }
    assert!(asked > 20, "{asked}");
}

#[test]
fn each_alert_says_what_happened_and_what_to_do_and_the_guide_lists_it() {
    let guide = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/metrics.md")).unwrap();
    let rules = rules();
    let mut alerts = BTreeSet::new();
    for rule in &rules {
        let alert = rule["alert"].as_str().unwrap();
        assert!(alerts.insert(alert), "{alert} twice");
        assert!(guide.contains(&format!("| `{alert}` |")), "{alert} is not in the guide");
        assert!(!names(rule["expr"].as_str().unwrap()).is_empty(), "{alert}");
        let severity = rule["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("warning" | "critical")), "{alert}");
        for annotation in ["summary", "action"] {
            let text = rule["annotations"][annotation].as_str().unwrap_or_default();
            assert!(text.len() > 20 && text.ends_with('.'), "{alert}: {annotation}: {text}");
        }
    }
    assert_eq!(
        guide.matches("| `Leasehold").count(),
        alerts.len(),
        "the guide lists others"
    );
}

#[test]
fn the_table_of_the_module_is_the_list() {
    let source = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../queue/src/metrics.rs")).unwrap();
    let rows = source.lines().filter_map(|line| line.strip_prefix("//! | `leasehold_"));
    let rows: Vec<String> = rows
        .map(|row| format!("leasehold_{}", row.split('`').next().unwrap_or_default()))
        .collect();
    let listed: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(rows, listed);
}
