//! What goes into the objects as it is given. The API server would refuse it there, by a path that is in no MiniCluster.

use super::text::{is_label_key, is_label_value, is_subdomain, non_empty, quantity};
use super::violations::Violations;
use crate::crd::{MiniClusterSpec, Pod};
use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

const KEY: &str = "is no key of Kubernetes: write name or domain/name, of letters, digits, '-', '_' and '.', each part of at most 63 characters";
const VALUE: &str = "is no value of a label: use at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit";

/// Labels that the Job controller gives its pods, beside those of [`JOB_DOMAIN`].
const JOB_LABELS: [&str; 2] = ["job-name", "controller-uid"];
const JOB_DOMAIN: &str = "batch.kubernetes.io/";

pub(super) fn passed_on(spec: &MiniClusterSpec, faults: &mut Violations) {
    let pod = &spec.pod;
    labels("spec.jobLabels", &spec.job_labels, faults);
    labels("spec.pod.labels", &pod.labels, faults);
    labels("spec.pod.nodeSelector", &pod.node_selector, faults);
    for key in pod.labels.keys() {
        let is_free = !key.starts_with(JOB_DOMAIN) && !JOB_LABELS.contains(&key.as_str());
        faults.require(is_free, format!("spec.pod.labels[{key}]"), || {
            "is the Job controller's own label: remove it, or use another key".to_owned()
        });
    }
    let topology =
        spec.scheduling.topology.as_ref().map(|it| ("spec.scheduling.topology".to_owned(), it));
    let annotations =
        pod.annotations.keys().map(|key| (format!("spec.pod.annotations[{key}]"), key));
    for (path, key) in annotations.chain(topology) {
        faults.require(is_label_key(key), path, || format!("{key:?} {KEY}"));
    }
    for (key, values) in &pod.node_affinity {
        let path = format!("spec.pod.nodeAffinity[{key}]");
        faults.require(!values.is_empty(), &path, || "empty: give at least one value".to_owned());
        let values = values.iter().map(|value| (key.clone(), value.clone()));
        values.for_each(|(key, value)| label(&path, &key, &value, faults));
    }
    for (index, it) in pod.tolerations.iter().enumerate() {
        toleration(&format!("spec.pod.tolerations[{index}]"), it, faults);
    }
    for (field, name) in [
        ("serviceAccountName", &pod.service_account_name),
        ("runtimeClassName", &pod.runtime_class_name),
    ] {
        let name = non_empty(name.as_ref());
        faults.require(name.is_none_or(is_subdomain), format!("spec.pod.{field}"), || {
            format!(
                "{:?} is no name of an object: use lower-case letters, digits, '-' and '.'",
                name.unwrap_or_default()
            )
        });
    }
    dns(pod, faults);
    all_resources(spec, faults);
}

fn labels(path: &str, labels: &BTreeMap<String, String>, faults: &mut Violations) {
    for (key, value) in labels {
        label(&format!("{path}[{key}]"), key, value, faults);
    }
}

fn label(path: &str, key: &str, value: &str, faults: &mut Violations) {
    faults.require(is_label_key(key), path, || format!("{key:?} {KEY}"));
    faults.require(is_label_value(value), path, || format!("{value:?} {VALUE}"));
}

/// `ValidateTolerations` of Kubernetes.
fn toleration(path: &str, given: &Toleration, faults: &mut Violations) {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (key, operator, effect) = (text(&given.key), text(&given.operator), text(&given.effect));
    let exists = operator == "Exists";
    if !key.is_empty() {
        label(&format!("{path}.key"), &key, "", faults);
    }
    faults.require(exists || !key.is_empty(), format!("{path}.operator"), || {
        "must be Exists where there is no key: give a key, or Exists".to_owned()
    });
    faults.require(
        ["", "Equal", "Exists"].contains(&&*operator),
        format!("{path}.operator"),
        || format!("{operator:?} is not possible: use Equal or Exists"),
    );
    let value = text(&given.value);
    faults.require(!exists || value.is_empty(), format!("{path}.value"), || {
        "goes with operator Equal: remove it, or the operator Exists".to_owned()
    });
    faults
        .require(is_label_value(&value), format!("{path}.value"), || format!("{value:?} {VALUE}"));
    let effects = ["", "NoSchedule", "PreferNoSchedule", "NoExecute"];
    faults.require(effects.contains(&&*effect), format!("{path}.effect"), || {
        format!("{effect:?} is not possible: use NoSchedule, PreferNoSchedule or NoExecute")
    });
    let is_timed = given.toleration_seconds.is_some();
    faults.require(!is_timed || effect == "NoExecute", format!("{path}.tolerationSeconds"), || {
        "goes with the effect NoExecute: remove it, or set the effect".to_owned()
    });
}

fn dns(pod: &Pod, faults: &mut Violations) {
    let overlay = pod.overlay.as_ref();
    let has_servers = overlay.is_some_and(|it| !it["dnsConfig"]["nameservers"].is_null());
    let fits = pod.dns_policy.as_deref() != Some("None") || has_servers;
    faults.require(fits, "spec.pod.dnsPolicy", || {
        "None needs name servers: give them in pod.overlay.dnsConfig, or use another policy"
            .to_owned()
    });
}

fn all_resources(spec: &MiniClusterSpec, faults: &mut Violations) {
    amounts("spec.pod.resources", &spec.pod.resources, faults);
    let of_view = spec.flux.container.resources.as_ref();
    let mut all = vec![("spec.flux.container".to_owned(), of_view)];
    for (list, containers) in [("containers", &spec.containers), ("services", &spec.services)] {
        let containers = containers.iter().enumerate();
        all.extend(
            containers.map(|(index, it)| (format!("spec.{list}[{index}]"), it.resources.as_ref())),
        );
    }
    for (path, resources) in all {
        if let Some(resources) = resources {
            requirements(&format!("{path}.resources"), resources, faults);
        }
    }
}

fn requirements(path: &str, given: &ResourceRequirements, faults: &mut Violations) {
    let (limits, requests) = (given.limits.clone(), given.requests.clone());
    let (limits, requests) = (limits.unwrap_or_default(), requests.unwrap_or_default());
    amounts(&format!("{path}.limits"), &limits, faults);
    amounts(&format!("{path}.requests"), &requests, faults);
    for (name, request) in &requests {
        let (request, limit) =
            (quantity(&request.0), limits.get(name).and_then(|it| quantity(&it.0)));
        let is_device = name.contains('/') || name.starts_with("hugepages-");
        let fits = match (request, limit) {
            (Some(request), Some(limit)) if is_device => request.total_cmp(&limit).is_eq(),
            (Some(request), Some(limit)) => request <= limit,
            (Some(_), None) => !is_device,
            (None, _) => true,
        };
        faults.require(fits, format!("{path}.requests[{name}]"), || {
            let relation =
                if is_device { "must be the same as" } else { "must not be greater than" };
            format!("{relation} limits[{name}]: change one of them")
        });
    }
}

/// Names of resources and their amounts.
fn amounts(path: &str, resources: &BTreeMap<String, Quantity>, faults: &mut Violations) {
    for (name, amount) in resources {
        let path = format!("{path}[{name}]");
        let is_common = ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str());
        let fits = is_label_key(name)
            && (is_common || name.contains('/') || name.starts_with("hugepages-"));
        faults.require(fits, &path, || {
            format!("{name:?} is no resource: use cpu, memory, ephemeral-storage, hugepages-<size> or domain/name")
        });
        let is_whole =
            !name.contains('/') || quantity(&amount.0).is_none_or(|it| it.fract() == 0.0);
        faults.require(quantity(&amount.0).is_some() && is_whole, &path, || {
            format!("{:?} is no quantity of it: write e.g. 2, 500m or 64Gi, and devices in whole numbers", amount.0)
        });
    }
}
