//! Each field of a MiniCluster's specification is in an example that people can run, and tests do.

use crate::examples;
use flux_testkit::any_spec::SCHEMA;
use flux_testkit::field_path::schemas;
use serde_json::Value;

/// Fields that no example has, and why.
const WITHOUT: [(&str, &str); 8] = [
    (".containers[].commands.preBroker", "the old name of brokerPre"),
    (".containers[].commands.preWorker", "the old name of workerPre"),
    (".containers[].fluxuser", "the old name of fluxUser"),
    (".containers[].pullAlways", "the tests' clusters have no registry to pull from"),
    (".containers[].volumes{}.csiDriver", "the tests' clusters have no CSI driver"),
    (".containers[].volumes{}.csiDriverAttributes", "the tests' clusters have no CSI driver"),
    (".flux.container.pullAlways", "the tests' clusters have no registry to pull from"),
    (
        ".flux.rest.tlsSecretName",
        "no private key is in the repository: a test on a cluster makes one",
    ),
];

/// The fields of types of Kubernetes, of which an example need not have each.
const OF_KUBERNETES: [&str; 3] = [".resources.", ".securityContext.", ".tolerations[]."];

/// Types that another field has, too: `containers`, `bursting.leadBroker` and `fluxUser`.
const ELSEWHERE: [&str; 3] = [".services[].", ".flux.leadBroker.", ".containers[].fluxuser."];

/// Whether `value` has a field at `path`, in any element of a list and any entry of a map.
fn has(value: &Value, path: &str) -> bool {
    if path.is_empty() {
        return !value.is_null();
    }
    if let Some(rest) = path.strip_prefix("[]") {
        return value.as_array().into_iter().flatten().any(|element| has(element, rest));
    }
    if let Some(rest) = path.strip_prefix("{}") {
        return value.as_object().into_iter().flatten().any(|(_, entry)| has(entry, rest));
    }
    let path = path.trim_start_matches('.');
    let (name, rest) = path.split_at(path.find(['.', '[', '{']).unwrap_or(path.len()));
    has(&value[name], rest)
}

#[test]
fn every_field_is_in_an_example() {
    let specifications: Vec<Value> =
        examples().into_iter().map(|mut it| it["spec"].take()).collect();
    let fields = schemas(&SCHEMA).into_iter().map(|(path, _)| path);
    let named = fields.filter(|path| path.ends_with(char::is_alphanumeric));
    let own = named.filter(|path| {
        !OF_KUBERNETES.iter().any(|inner| path.contains(inner))
            && !ELSEWHERE.iter().any(|start| path.starts_with(start))
    });
    let missing: Vec<String> =
        own.filter(|path| !specifications.iter().any(|spec| has(spec, path))).collect();
    assert_eq!(missing, WITHOUT.map(|(path, _)| path), "fields that no example has");
}
