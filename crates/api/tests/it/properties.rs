//! What holds for every specification that the API server accepts, and for every cluster.

use crate::support::{LEAD, documents};
use flux_api::cluster::Cluster;
use flux_api::cluster::validate::validate;
use flux_api::crd::MiniClusterSpec;
use flux_api::objects::agent_config;
use flux_contract::AgentConfig;
use flux_testkit::any_spec::{accepted, any_spec, settings};
use flux_testkit::samples::{defaults, with_spec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn cluster() -> impl Strategy<Value = Cluster> {
    any_spec().prop_filter_map("cannot be made valid", |spec| accepted(&spec))
}

/// The parts of `value` that `other` lacks. Empty objects and lists count as absent.
fn lost(path: &str, value: &Value, other: &Value) -> Vec<String> {
    match value {
        Value::Null => vec![],
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| lost(&format!("{path}.{name}"), value, &other[name]))
            .collect(),
        Value::Array(elements) => (0..)
            .zip(elements)
            .flat_map(|(index, value)| lost(&format!("{path}[{index}]"), value, &other[index]))
            .collect(),
        // A quantity may be given as a number.
        Value::Number(number) if other == &json!(number.to_string()) => vec![],
        Value::Bool(_) | Value::Number(_) | Value::String(_) if value == other => vec![],
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            vec![format!("{path}: {value} became {other}")]
        }
    }
}

proptest! {
    #![proptest_config(settings(128))]

    #[test]
    fn every_specification_is_read_whole_and_refusals_have_reasons(spec in any_spec()) {
        let read: MiniClusterSpec = serde_json::from_value(spec.clone()).unwrap();
        let written = serde_json::to_value(&read).unwrap();
        prop_assert_eq!(lost("spec", &spec, &written), Vec::<String>::new());
        prop_assert_eq!(&serde_json::from_value::<MiniClusterSpec>(written).unwrap(), &read);
        let object = with_spec(&spec);
        let outcome = validate(&object, &defaults());
        if let Err(faults) = &outcome {
            prop_assert!(!faults.0.is_empty());
            prop_assert!(faults.0.iter().all(|fault| fault.path.starts_with("spec.")), "{}", faults);
        }
        prop_assert_eq!(outcome, validate(&object, &defaults()));
    }

    #[test]
    fn building_twice_gives_the_same_bytes_and_agents_read_them(cluster in cluster()) {
        let before = cluster.clone();
        let text = |cluster: &Cluster| serde_json::to_string(&documents(cluster)).unwrap();
        prop_assert_eq!(text(&cluster), text(&cluster));
        prop_assert_eq!(&cluster, &before);
        let config = agent_config(&cluster, Some(LEAD));
        let text = config.to_toml().unwrap();
        prop_assert_eq!(AgentConfig::from_toml(&text).unwrap(), config);
    }
}

proptest! {
    #![proptest_config(settings(32))]

    #[test]
    fn every_object_has_its_own_name_an_owner_and_labels(
        cluster in cluster()
    ) {
        let mut names = BTreeSet::new();
        let documents = documents(&cluster);
        for document in &documents {
            let metadata: ObjectMeta = serde_json::from_value(document["metadata"].clone()).unwrap();
            let owners = metadata.owner_references.unwrap();
            prop_assert_eq!(owners.len(), 1);
            prop_assert_eq!(&owners[0].name, "hello");
            prop_assert_eq!(owners[0].controller, Some(true));
            let labels = metadata.labels.unwrap();
            prop_assert_eq!(&labels["app.kubernetes.io/managed-by"], "flux-operator");
            prop_assert_eq!(&labels["app.kubernetes.io/name"], "hello");
            prop_assert_eq!(metadata.namespace.as_deref(), Some("work"));
            let name = format!("{} {:?}", document["kind"], metadata.name);
            prop_assert!(names.insert(name));
        }
        let job = documents.last().unwrap();
        prop_assert_eq!(&job["spec"]["completions"], &json!(cluster.size));
        prop_assert_eq!(&job["spec"]["parallelism"], &json!(cluster.size));
        // Autoscalers count no other.
        for pod in documents.iter().filter(|it| it["kind"] == "Pod") {
            prop_assert!(pod["metadata"]["labels"]["hpa-selector"].is_null());
        }
    }
}

#[test]
fn many_specifications_are_accepted_and_nearly_all_without_their_faults() {
    let mut runner = TestRunner::new(settings(1));
    let specs = any_spec();
    let specs: Vec<Value> =
        (0..400).map(|_| specs.new_tree(&mut runner).unwrap().current()).collect();
    let at_once =
        specs.iter().filter(|spec| validate(&with_spec(spec), &defaults()).is_ok()).count();
    let in_the_end = specs.iter().filter(|spec| accepted(spec).is_some()).count();
    assert!((80..320).contains(&at_once), "{at_once} of 400 are accepted as they are");
    assert!(in_the_end >= 320, "{in_the_end} of 400 are accepted in the end");
}
