//! Tables of refused specifications and of what accepted ones become, and tests of what a table cannot show.

use crate::support::{LEAD, cluster, documents, faults};
use flux_api::cluster::Curve;
use flux_api::cluster::validate::validate;
use flux_api::objects::{agent_config, build, secret};
use flux_contract::{AgentConfig, Install};
use flux_testkit::samples::{CERTIFICATE, defaults, hello, images};
use serde_json::{Value, json};

/// `table` with other indented lines below each specification: `lines_of` gives them for it and the lines before.
fn renewed(table: &str, lines_of: impl Fn(&Value, &[&str]) -> Vec<String>) -> String {
    let mut renewed = Vec::new();
    let mut lines = table.lines().peekable();
    while let Some(line) = lines.next() {
        renewed.push(line.to_owned());
        let mut below = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with("    ")) {
            below.push(line.trim_start());
        }
        if line.starts_with('{') {
            let new = lines_of(&serde_saphyr::from_str(line).unwrap(), &below);
            renewed.extend(new.iter().map(|line| format!("    {line}")));
        }
    }
    renewed.join("\n") + "\n"
}

#[test]
fn faults_and_fields_without_effect_are_named_by_path() {
    let lines_of = |fields: &Value, _: &[&str]| {
        let mut spec = fields.clone();
        let annotations = spec.as_object_mut().unwrap().remove("annotations");
        let mut object = hello(&spec);
        object.metadata.annotations = annotations.map(|it| serde_json::from_value(it).unwrap());
        let by = if object.validate_cel().is_err() { "both" } else { "operator" };
        match validate(&object, &defaults()) {
            Err(faults) => faults.0.iter().map(|fault| format!("{by}: {fault}")).collect(),
            Ok(cluster) => {
                cluster.not_acted_on.iter().map(|it| format!("no effect: {it}")).collect()
            }
        }
    };
    let table = renewed(include_str!("validate/refused.txt"), lines_of);
    expect_test::expect_file!["validate/refused.txt"].assert_eq(&table);
}

/// All that a specification becomes, with agent and view installed by its own method.
fn made_of(spec: &Value) -> Value {
    let cluster = cluster(&hello(spec));
    let mounted = spec["flux"]["container"]["install"] == "Image";
    let install = if mounted { Install::Image } else { Install::Copy };
    let config = AgentConfig { install, ..agent_config(&cluster, Some(LEAD)) };
    let job = build(&cluster, &config, &images(), 1).unwrap().job.spec;
    let documents = documents(&cluster);
    let name = |it: &Value| format!("{} {}", it["kind"], it["metadata"]["name"]).replace('"', "");
    let has_secret = secret(&cluster, getrandom::fill).unwrap().is_some();
    let secret = has_secret.then(|| "Secret".to_owned());
    json!({
        "agent": config, "job": job, "pod": job.unwrap().template.spec, "not acted on": cluster.not_acted_on,
        "objects": documents.iter().map(name).chain(secret).collect::<Vec<_>>(),
        "owners": documents[0]["metadata"]["ownerReferences"],
    })
}

/// The value at `path`. A step into a list is the name of an element, or `*` for all of them.
fn at(value: &Value, path: &[&str]) -> Value {
    let [step, rest @ ..] = path else { return value.clone() };
    let Some(list) = value.as_array() else { return at(&value[step], rest) };
    if *step == "*" {
        return list.iter().map(|element| at(element, rest)).collect();
    }
    let named: Vec<&Value> = list.iter().filter(|element| element["name"] == *step).collect();
    match named[..] {
        [] => Value::Null,
        [one] => at(one, rest),
        _ => panic!("several have the name {step}: {named:?}"),
    }
}

#[test]
fn what_is_accepted_becomes_what_the_table_says() {
    let lines_of = |spec: &Value, below: &[&str]| {
        let made = made_of(spec);
        let paths = below.iter().map(|line| line.split(": ").next().unwrap());
        let value = |path: &str| at(&made, &path.split('.').collect::<Vec<_>>());
        paths.map(|path| format!("{path}: {}", value(path))).collect()
    };
    let table = renewed(include_str!("validate/accepted.txt"), lines_of);
    expect_test::expect_file!["validate/accepted.txt"].assert_eq(&table);
}

#[test]
fn a_wrong_name_is_refused_beside_all_other_faults() {
    for name in ["a".repeat(53), "0a".to_owned(), "A".to_owned(), "a.b".to_owned()] {
        let mut object = hello(&json!({ "size": -1 }));
        object.metadata.name = Some(name.clone());
        assert!(object.validate_cel().is_err(), "{name}");
        let faults = validate(&object, &defaults()).unwrap_err().0;
        let paths: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["metadata.name", "spec.size"], "{name}");
    }
}

#[test]
fn a_certificate_that_is_given_is_never_shown() {
    let given = |text: &str| json!({ "flux": { "curveCert": text } });
    let curve = cluster(&hello(&given(CERTIFICATE))).flux.curve;
    assert!(matches!(&curve, Curve::Given(text) if text.expose() == CERTIFICATE));
    assert!(!format!("{curve:?}").contains("secret-key"));
    let broken = given(&CERTIFICATE.replace("secret-key", "secret+key"));
    let fault = faults(&hello(&broken)).concat();
    assert!(!fault.contains("D:)Q"), "{fault}");
}

#[test]
fn another_mount_path_reaches_every_object() {
    let spec = json!({ "flux": { "container": { "mountPath": "/opt/flux" } } });
    let cluster = cluster(&hello(&spec));
    for document in documents(&cluster) {
        assert!(!document.to_string().contains("/mnt/flux"), "{document}");
    }
    assert!(agent_config(&cluster, Some(LEAD)).layout.local_uri().contains("/opt/flux/"));
}
