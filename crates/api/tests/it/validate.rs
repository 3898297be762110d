//! Tables of refused specifications and of what accepted ones become, and tests of what a table cannot show.

use crate::support::{LEAD, built, cluster, documents, faults};
use flux_api::cluster::validate::validate;
use flux_api::cluster::{Cluster, Curve};
use flux_api::objects::install::choose;
use flux_api::objects::{agent_config, build, secret};
use flux_contract::{AgentConfig, Install};
use flux_testkit::job_policy::verdict;
use flux_testkit::samples::{CERTIFICATE, defaults, hello, images};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use std::collections::BTreeMap;

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
        let fields = spec.as_object_mut().unwrap();
        let (annotations, name) = (fields.remove("annotations"), fields.remove("name"));
        let mut object = hello(&spec);
        object.metadata.name =
            name.map_or(object.metadata.name, |it| Some(it.as_str()?.to_owned()));
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

/// By container and verdict, the exit codes with which a pod that has `conditions` gets this verdict of the Job.
fn verdicts(job: &Value, conditions: &[Value]) -> Value {
    let mut verdicts: BTreeMap<&str, BTreeMap<String, Vec<i32>>> = BTreeMap::new();
    for container in ["hello", "web", "flux-agent", "another"] {
        for code in [1, 2, 7, 69, 72, 75, 76, 77, 137, 143, 255] {
            let state = json!({ "terminated": { "exitCode": code } });
            let containers = [json!({ "name": container, "state": state })];
            let status = json!({ "conditions": conditions, "containerStatuses": containers });
            let found = format!("{:?}", verdict(job, &json!({ "status": status })));
            verdicts.entry(container).or_default().entry(found).or_default().push(code);
        }
    }
    json!(verdicts)
}

/// By the name of each Service, the pods that its selector selects.
fn reached(cluster: &Cluster) -> Value {
    let (services, desired) = built(cluster);
    let template = desired.job.spec.unwrap().template.metadata.unwrap().labels.unwrap();
    // The labels of the Job controller are among those of a pod.
    let of_job = |index: &str| {
        let added = [("job-name", "hello"), ("job-completion-index", index)];
        let added = added.map(|(key, it)| (format!("batch.kubernetes.io/{key}"), it.to_owned()));
        template.clone().into_iter().chain(added).collect::<BTreeMap<_, _>>()
    };
    let other = desired.services_pod.and_then(|pod| pod.metadata.labels).unwrap_or_default();
    let pods = [("lead", of_job("0")), ("worker", of_job("1")), ("services", other)];
    let reached = |service: &Service| {
        let selector = service.spec.as_ref().unwrap().selector.clone().unwrap();
        let has =
            |labels: &BTreeMap<_, _>| selector.iter().all(|(key, it)| labels.get(key) == Some(it));
        let pods: Vec<_> =
            pods.iter().filter(|(_, labels)| has(labels)).map(|(name, _)| *name).collect();
        (service.metadata.name.clone().unwrap(), json!(pods))
    };
    let all = [services.headless, services.lead]
        .into_iter()
        .chain(services.exposed)
        .chain(services.aliases);
    all.map(|service| reached(&service)).collect()
}

/// All that a specification becomes, with agent and view installed by its own method.
fn made_of(spec: &Value) -> Value {
    let cluster = cluster(&hello(spec));
    let mounted = spec["flux"]["container"]["install"] == "Image";
    let install = if mounted { Install::Image } else { Install::Copy };
    let config = AgentConfig { install, ..agent_config(&cluster, Some(LEAD)) };
    let job = json!(build(&cluster, &config, &images(), 1).unwrap().job.spec);
    let documents = documents(&cluster);
    let name = |it: &Value| format!("{} {}", it["kind"], it["metadata"]["name"]).replace('"', "");
    let has_secret = secret(&cluster, getrandom::fill).unwrap().is_some();
    let secret = has_secret.then(|| "Secret".to_owned());
    json!({
        "agent": config, "job": job, "pod": job["template"]["spec"], "not acted on": cluster.not_acted_on,
        "objects": documents.iter().map(name).chain(secret).collect::<Vec<_>>(),
        "owners": documents[0]["metadata"]["ownerReferences"], "reached": reached(&cluster),
        "ended": verdicts(&job, &[]),
        "disrupted": verdicts(&job, &[json!({ "type": "DisruptionTarget", "status": "True" })]),
        "install": { "able": choose(&cluster, &Ok(())), "unable": choose(&cluster, &Err("node n has 1".to_owned())) },
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
