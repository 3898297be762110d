//! Kubernetes accepts the objects that an accepted specification becomes, however agent and view are installed.

use crate::support::{LEAD, documents};
use flux_api::cluster::Cluster;
use flux_api::objects::{agent_config, build};
use flux_contract::{AgentConfig, Install};
use flux_testkit::any_spec::{accepted, any_spec, settings};
use flux_testkit::samples::images;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// True for 1 to `most` characters that `edge` allows, or `inner` ones in between.
fn consists(text: &str, most: usize, edge: fn(char) -> bool, inner: &str) -> bool {
    (1..=most).contains(&text.len())
        && text.starts_with(edge)
        && text.ends_with(edge)
        && text.chars().all(|c| edge(c) || inner.contains(c))
}

fn is_dns_label(text: &str) -> bool {
    consists(text, 63, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), "-")
}

fn is_value(text: &str) -> bool {
    text.is_empty() || consists(text, 63, |c| c.is_ascii_alphanumeric(), "-_.")
}

fn is_key(text: &str) -> bool {
    let (domain, name) = text.split_once('/').unwrap_or(("a", text));
    domain.split('.').all(is_dns_label) && !name.is_empty() && is_value(name)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn twice<'all>(values: impl Iterator<Item = &'all Value>) -> Option<String> {
    let mut seen = BTreeSet::new();
    values.map(ToString::to_string).find(|value| !seen.insert(value.clone()))
}

/// The entries of labels, annotations or a selector of nodes that Kubernetes refuses.
fn of_labels(map: &Value, values_count: bool) -> Vec<String> {
    let entries = map.as_object().into_iter().flatten();
    let wrong =
        entries.filter(|(key, value)| !is_key(key) || (values_count && !is_value(text(value))));
    wrong.map(|(key, value)| format!("{key}: {value}")).collect()
}

fn of_pod(pod: &Value) -> Vec<String> {
    let containers = || list(&pod["containers"]).iter().chain(list(&pod["initContainers"]));
    let volumes = list(&pod["volumes"]);
    let named = containers().chain(volumes).filter(|it| !is_dns_label(text(&it["name"])));
    let mut wrong: Vec<String> = named.map(|it| format!("name {}", it["name"])).collect();
    wrong.extend(twice(containers().map(|it| &it["name"])));
    wrong.extend(twice(volumes.iter().map(|it| &it["name"])));
    wrong.extend(of_labels(&pod["nodeSelector"], true));
    for container in containers() {
        let image = text(&container["image"]);
        let has_image = !image.is_empty() && image.trim() == image;
        wrong.extend((!has_image).then(|| format!("image {image:?}")));
        let mounts = list(&container["volumeMounts"]);
        wrong.extend(twice(mounts.iter().map(|it| &it["mountPath"])));
        let has_volume = |it: &&Value| volumes.iter().any(|volume| volume["name"] == it["name"]);
        wrong.extend(mounts.iter().filter(|it| !has_volume(it)).map(|it| format!("mount {it}")));
        let variables = list(&container["env"]).iter().map(|it| text(&it["name"]));
        let bad = variables.filter(|it| it.is_empty() || it.contains('=') || !it.is_ascii());
        wrong.extend(bad.map(|name| format!("variable {name:?}")));
        for kind in ["limits", "requests"] {
            for (name, amount) in container["resources"][kind].as_object().into_iter().flatten() {
                let is_number =
                    text(amount).starts_with(|c: char| c.is_ascii_digit() || "+.".contains(c));
                let fits = is_key(name) && is_number && !text(amount).contains(' ');
                wrong.extend((!fits).then(|| format!("{kind} {name}: {amount}")));
            }
        }
    }
    if !is_dns_label(text(&pod["subdomain"])) {
        wrong.push(format!("subdomain {}", pod["subdomain"]));
    }
    wrong
}

/// The parts of `document` that Kubernetes refuses.
fn refused(document: &Value) -> Vec<String> {
    let (metadata, spec) = (&document["metadata"], &document["spec"]);
    let mut wrong = of_labels(&metadata["labels"], true);
    wrong.extend(of_labels(&metadata["annotations"], false));
    match text(&document["kind"]) {
        "Service" => {
            let name = text(&metadata["name"]);
            let fits = is_dns_label(name) && !name.starts_with(|c: char| c.is_ascii_digit());
            wrong.extend((!fits).then(|| format!("Service {name:?}")));
            wrong.extend(twice(list(&spec["ports"]).iter().map(|it| &it["port"])));
        }
        "Job" => {
            wrong.extend(of_labels(&spec["template"]["metadata"]["labels"], true));
            wrong.extend(of_labels(&spec["template"]["metadata"]["annotations"], false));
            wrong.extend(of_pod(&spec["template"]["spec"]));
        }
        "Pod" => wrong.extend(of_pod(spec)),
        _ => {}
    }
    wrong
}

fn all_refused(cluster: &Cluster) -> Vec<String> {
    let config = AgentConfig { install: Install::Image, ..agent_config(cluster, Some(LEAD)) };
    let mounted = build(cluster, &config, &images(), 1).unwrap().job;
    documents(cluster).iter().chain([&json!(mounted)]).flat_map(refused).collect()
}

proptest! {
    #![proptest_config(settings(256))]

    #[test]
    fn no_accepted_specification_becomes_an_object_that_kubernetes_refuses(spec in any_spec()) {
        if let Some(cluster) = accepted(&spec) {
            prop_assert_eq!(all_refused(&cluster), Vec::<String>::new());
        }
    }
}
