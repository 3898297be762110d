//! Checks values that are passed on unchanged: the API server would report them by paths of the objects.

use super::text::{is_label_key, is_label_value, is_subdomain, non_empty, quantity};
use super::violations::Violations;
use crate::crd::MiniClusterSpec;
use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

const KEY: &str = "is no key of Kubernetes: write name or domain/name, of letters, digits, '-', '_' and '.', each part of at most 63 characters";
const VALUE: &str = "has an invalid label value: use at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit";
const NAME: &str = "is no name of an object: use lower-case letters, digits, '-' and '.'";
const RESOURCE: &str = "is no known resource, or has an invalid quantity: write cpu, memory, ephemeral-storage, hugepages-<size> or domain/device, and e.g. 2, 500m or 64Gi; devices in whole numbers";
const JOBS_OWN: &str = "is the Job controller's own label: remove it, or use another key";

/// Whether the field at a path is valid, and the message if it is not.
type Check = (bool, String, &'static str);

pub(super) fn passed_on(spec: &MiniClusterSpec, faults: &mut Violations) {
    let pod = &spec.pod;
    let mut checks: Vec<Check> = Vec::new();
    for (path, labels) in [
        ("spec.jobLabels", &spec.job_labels),
        ("spec.pod.labels", &pod.labels),
        ("spec.pod.nodeSelector", &pod.node_selector),
    ] {
        checks.extend(labels.iter().flat_map(|(key, value)| label(path, key, value)));
    }
    checks.extend(pod.labels.keys().map(|key| {
        let of_job = ["job-name", "controller-uid"].contains(&key.as_str());
        let is_free = !of_job && !key.starts_with("batch.kubernetes.io/");
        (is_free, format!("spec.pod.labels[{key}]"), JOBS_OWN)
    }));
    for (key, values) in &pod.node_affinity {
        let path = "spec.pod.nodeAffinity";
        checks.push((!values.is_empty(), format!("{path}[{key}]"), "has no value: give one"));
        checks.extend(values.iter().flat_map(|value| label(path, key, value)));
    }
    let annotations = pod.annotations.keys();
    checks.extend(annotations.flat_map(|key| label("spec.pod.annotations", key, "")));
    let topology = spec.scheduling.topology.as_deref();
    let fits = topology.is_none_or(is_label_key);
    checks.push((fits, "spec.scheduling.topology".to_owned(), KEY));
    for (index, it) in pod.tolerations.iter().enumerate() {
        checks.extend(toleration(&format!("spec.pod.tolerations[{index}]"), it));
    }
    let is_name = |name: &Option<String>| non_empty(name.as_ref()).is_none_or(is_subdomain);
    let servers = pod.overlay.as_ref().map(|overlay| &overlay["dnsConfig"]["nameservers"]);
    let has_servers = servers.is_some_and(|servers| !servers.is_null());
    let resolves = pod.dns_policy.as_deref() != Some("None") || has_servers;
    checks.extend([
        (is_name(&pod.service_account_name), "spec.pod.serviceAccountName".to_owned(), NAME),
        (is_name(&pod.runtime_class_name), "spec.pod.runtimeClassName".to_owned(), NAME),
        (
            resolves,
            "spec.pod.dnsPolicy".to_owned(),
            "None needs name servers: give them in pod.overlay.dnsConfig, or use another policy",
        ),
    ]);
    checks.extend(resources(spec));
    for (holds, path, message) in checks {
        faults.require(holds, path, || message.to_owned());
    }
}

fn label(path: &str, key: &str, value: &str) -> [Check; 2] {
    let path = format!("{path}[{key}]");
    [(is_label_key(key), path.clone(), KEY), (is_label_value(value), path, VALUE)]
}

/// The checks of `ValidateTolerations` in Kubernetes.
fn toleration(path: &str, given: &Toleration) -> Vec<Check> {
    let [key, operator, value, effect] = [&given.key, &given.operator, &given.value, &given.effect]
        .map(|it| it.as_deref().unwrap_or_default());
    let (exists, is_timed) = (operator == "Exists", given.toleration_seconds.is_some());
    let effects = ["", "NoSchedule", "PreferNoSchedule", "NoExecute"];
    let checks = [
        (key.is_empty() || is_label_key(key), "key", KEY),
        (
            exists || !key.is_empty(),
            "key",
            "is needed unless the operator is Exists: give one, or Exists",
        ),
        (
            ["", "Equal", "Exists", "Gt", "Lt"].contains(&operator),
            "operator",
            "is not possible: use Equal or Exists",
        ),
        (
            !exists || value.is_empty(),
            "value",
            "needs the operator Equal: remove it, or the operator Exists",
        ),
        (is_label_value(value), "value", VALUE),
        (
            effects.contains(&effect),
            "effect",
            "is not possible: use NoSchedule, PreferNoSchedule or NoExecute",
        ),
        (
            !is_timed || effect == "NoExecute",
            "tolerationSeconds",
            "needs the effect NoExecute: remove it, or set that effect",
        ),
    ];
    checks.map(|(holds, field, message)| (holds, format!("{path}.{field}"), message)).into()
}

fn resources(spec: &MiniClusterSpec) -> Vec<Check> {
    let mut checks = amounts("spec.pod.resources", Some(&spec.pod.resources));
    let of_view = spec.flux.container.resources.as_ref();
    let mut all = vec![("spec.flux.container".to_owned(), of_view)];
    for (list, containers) in [("containers", &spec.containers), ("services", &spec.services)] {
        let path = |index: usize| format!("spec.{list}[{index}]");
        let containers = containers.iter().enumerate();
        all.extend(containers.map(|(index, it)| (path(index), it.resources.as_ref())));
    }
    for (path, given) in all.into_iter().filter_map(|(path, given)| Some((path, given?))) {
        checks.extend(amounts(&format!("{path}.resources.limits"), given.limits.as_ref()));
        let path = format!("{path}.resources.requests");
        checks.extend(amounts(&path, given.requests.as_ref()));
        let requests = given.requests.iter().flatten();
        checks.extend(requests.map(|(name, request)| fits_limit(&path, name, request, given)));
    }
    checks
}

/// Checks that a request is at most the limit, and equal to it for a device.
fn fits_limit(path: &str, name: &str, request: &Quantity, given: &ResourceRequirements) -> Check {
    let limit = given.limits.as_ref().and_then(|limits| quantity(&limits.get(name)?.0));
    let is_device = name.contains('/') || name.starts_with("hugepages-");
    let fits = match (quantity(&request.0), limit) {
        (Some(request), Some(limit)) => request <= limit && (!is_device || request >= limit),
        (Some(_), None) => !is_device,
        (None, _) => true,
    };
    (
        fits,
        format!("{path}[{name}]"),
        "exceeds its limit, or differs from it for a device or huge pages: request at most the limit, and of devices and huge pages exactly as much",
    )
}

fn amounts(path: &str, resources: Option<&BTreeMap<String, Quantity>>) -> Vec<Check> {
    let check = |(name, Quantity(amount)): (&String, &Quantity)| {
        let is_device = name.contains('/');
        let is_common = ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str());
        let is_known = is_device || is_common || name.starts_with("hugepages-");
        let fits = quantity(amount).is_some_and(|it| !is_device || it.fract() == 0.0);
        (is_known && is_label_key(name) && fits, format!("{path}[{name}]"), RESOURCE)
    };
    resources.into_iter().flatten().map(check).collect()
}
