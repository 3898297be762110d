//! Every field of `spec` does something, wherever it may be given, or a condition says that it does
//! not: the fields are taken from the definition, so that a new one cannot be forgotten.

use crate::reference::{in_repository, sources};
use crate::support::any_spec::SCHEMA;
use crate::support::field_path::{get, leaves, set};
use crate::support::{CERTIFICATE, defaults, documents, hello, with_spec};
use flux_operator::cluster::Cluster;
use flux_operator::cluster::validate::validate;
use flux_operator::controller::build::secret;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Where the fields of a container can be given: a name, the list, and the position in it.
const PLACES: &[(&str, &str, usize)] = &[
    ("the container that runs Flux", "containers", 0),
    ("a container beside it", "containers", 1),
    ("one that keeps its entrypoint", "containers", 2),
    ("the pod of spec.services", "services", 0),
];

/// Values for fields where one made from the type would be refused, by the end of the path.
const SAMPLES: &[(&str, &str)] = &[
    (".archive.path", r#""/state/sample.tar""#),
    (".maxSize", "9"),
    (".minSize", "2"),
    (".containers[].runFlux", "true"),
    (".bursting.hostlist", r#""hello-[0-3],extra-[0-1]""#),
    (".leadBroker.hostlist", r#""root-0,hello-[0-3]""#),
    (".connectTimeout", r#""7s""#),
    (".topology", r#""kary:2""#),
    (".queuePolicy", r#""easy""#),
    (".mountPath", r#""/srv/sample""#),
    (".workingDir", r#""/srv/sample""#),
    (".logs", r#""/srv/sample""#),
    (".imagePullPolicy", r#""Never""#),
    (".restartPolicy", r#""OnFailure""#),
    (".dnsPolicy", r#""Default""#),
    (".overlay", r#"{ "priorityClassName": "sample" }"#),
    (".tolerations[].effect", r#""NoSchedule""#),
    (".tolerations[].operator", r#""Exists""#),
    ("volumes{}.path", r#""/srv/sample""#),
    (".hostPath", r#""/srv/sample""#),
    (".emptyDirMedium", r#""memory""#),
    (".emptyDirSizeLimit", r#""1Gi""#),
];

/// What else must be given for a field to mean something: by a pattern of its path (`*`: anything),
/// the fields and values, below what the pattern leaves of the path. The first that fits counts.
const CONTEXTS: &[(&str, &[(&str, &str)])] = &[
    ("volumes{}.items{}", &[("volumes{}.path", r#""/a""#), ("volumes{}.configMapName", r#""b""#)]),
    (
        "volumes{}.csiDriverAttributes{}",
        &[("volumes{}.path", r#""/a""#), ("volumes{}.csiDriver", r#""b""#)],
    ),
    (
        ".archive.path",
        &[
            (".containers[].volumes{}.path", r#""/state""#),
            (".containers[].volumes{}.hostPath", r#""/sample""#),
        ],
    ),
    ("volumes{}.emptyDir", &[]),
    ("volumes{}.*", &[("volumes{}.path", r#""/a""#)]),
    ("secrets{}.*", &[("secrets{}.name", r#""a""#), ("secrets{}.key", r#""b""#)]),
    (".containers[].runFlux", &[(".containers[].runFlux", "null")]),
    (".containers[].noWrapEntrypoint", &[(".containers[].command", r#""serve""#)]),
    ("batchRaw", &[("batch", "true")]),
    ("logs", &[("batch", "true")]),
    ("commands.script", &[("command", "null")]),
    (
        "tolerations[].tolerationSeconds",
        &[("tolerations[].key", r#""a""#), ("tolerations[].effect", r#""NoExecute""#)],
    ),
    ("tolerations[].*", &[("tolerations[].key", r#""a""#)]),
    ("leadBroker.hostlist", &[("leadBroker.name", r#""root""#), ("leadBroker.address", r#""a""#)]),
    (
        ".flux.bursting.leadBroker.*",
        &[
            (".flux.bursting.leadBroker.name", r#""root""#),
            (".flux.bursting.leadBroker.address", r#""a""#),
            (".flux.bursting.leadBroker.size", "2"),
            (".flux.bursting.clusters[].name", r#""hello""#),
        ],
    ),
    (
        ".flux.leadBroker.*",
        &[
            (".flux.leadBroker.name", r#""root""#),
            (".flux.leadBroker.address", r#""a""#),
            (".flux.leadBroker.size", "2"),
            (".flux.bursting.clusters[].name", r#""hello""#),
        ],
    ),
];

/// Fields that change no object, and the test that shows what they do.
const ELSEWHERE: &[(&str, &str)] = &[
    (".cleanup", "cleanup_deletes_the_mini_cluster_when_its_lead_has_finished"),
    (".ttlSecondsAfterFinished", "a_finished_mini_cluster_stays_for_its_time_to_live"),
    (".startDeadlineSeconds", "an_instance_that_does_not_start_in_time_ends_itself_with_the_cause"),
    (".suspend", "the_specification_suspends_and_resumes_what_it_has_suspended_alone"),
];

/// Fields that are passed over in silence at a place, and why that is right.
const SILENT: &[(&str, usize, &str)] =
    &[(".containers[].name", 0, "documented: the runner is named as the MiniCluster")];

fn base() -> Value {
    let spec = json!({
        "containers": [
            { "image": "app", "command": "echo hello", "runFlux": true },
            { "image": "side", "name": "side", "command": "serve" },
            { "image": "web", "name": "web", "noWrapEntrypoint": true },
        ],
        "services": [{ "image": "store", "name": "store" }],
    });
    serde_json::to_value(hello(&spec)).unwrap()["spec"].clone()
}

/// A value for the field at `path` that is not `now`.
fn sample(path: &str, schema: &Value, now: &Value) -> Value {
    if path.ends_with(".curveCert") {
        return json!(CERTIFICATE);
    }
    if let Some((_, text)) = SAMPLES.iter().find(|(end, _)| path.ends_with(end)) {
        return serde_json::from_str(text).unwrap();
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().rev().find(|value| *value != now).unwrap().clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => {
            let now = now.as_bool().or_else(|| schema["default"].as_bool());
            json!(!now.unwrap_or_default())
        }
        Some("integer") => {
            let lowest = schema["minimum"].as_f64().unwrap_or_default();
            let now = now.as_f64().or_else(|| schema["default"].as_f64()).unwrap_or(lowest);
            let fits = schema["maximum"].as_f64().is_none_or(|most| now + 3.0 <= most);
            #[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
            let value = if fits { now + 3.0 } else { lowest } as i64;
            json!(value)
        }
        Some("string") => json!("sample"),
        None => json!("2"),
        // An object of any form has its sample in the table.
        Some(_) => Value::Null,
    }
}

/// What is made of a specification: all objects, the certificate's Secret among them, or the faults.
struct Outcome {
    objects: Result<Vec<Value>, Vec<String>>,
    not_acted_on: Vec<String>,
}

impl Outcome {
    fn of(spec: &Value) -> Self {
        match validate(&with_spec(spec), &defaults()) {
            Ok(cluster) => {
                let not_acted_on = cluster.not_acted_on.clone();
                Self { objects: Ok(objects(&cluster)), not_acted_on }
            }
            Err(violations) => {
                let faults = violations.0.iter().map(|violation| violation.path.clone());
                Self { objects: Err(faults.collect()), not_acted_on: vec![] }
            }
        }
    }
}

/// All objects of a cluster, with a certificate that is not random.
fn objects(cluster: &Cluster) -> Vec<Value> {
    let secret = secret(cluster, |bytes| {
        bytes.fill(7);
        Ok(())
    });
    let secret = secret.unwrap().map(|secret| serde_json::to_value(secret.expose()).unwrap());
    let mut objects = documents(cluster);
    for object in &mut objects {
        // Notes of a template: they follow whatever else changes.
        object["metadata"]["annotations"].take();
    }
    objects.into_iter().chain(secret).collect()
}

/// What comes of giving one field.
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    /// Other objects.
    Objects,
    /// A fault or a note that names the field.
    Reported,
    /// Nothing at all.
    Nothing,
}

fn effect(path: &str, schema: &Value, position: usize) -> Effect {
    let mut spec = base();
    let context = CONTEXTS.iter().find_map(|(pattern, fields)| {
        let rest = match pattern.strip_suffix('*') {
            Some(pattern) => path.find(pattern).map(|at| &path[..at]),
            None => path.strip_suffix(pattern),
        };
        rest.map(|rest| (rest, *fields))
    });
    let (rest, fields) = context.unwrap_or_default();
    for (field, value) in fields {
        let value = serde_json::from_str(value).unwrap();
        set(&mut spec, &format!("{rest}{field}"), position, value);
    }
    let before = Outcome::of(&spec);
    let value = sample(path, schema, &get(&spec, path, position));
    set(&mut spec, path, position, value);
    let after = Outcome::of(&spec);
    let place = path.replacen("[]", &format!("[{position}]"), 1);
    let named = format!("spec{}", place.split('{').next().unwrap_or_default());
    // The field itself, or one that it lies in.
    let speaks_of_it = |said: &String| {
        named.strip_prefix(said).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    match after.objects {
        Ok(objects) if before.objects.as_ref() != Ok(&objects) => Effect::Objects,
        Ok(_) if after.not_acted_on.iter().any(speaks_of_it) => Effect::Reported,
        Err(faults) if faults.iter().any(speaks_of_it) => Effect::Reported,
        Ok(_) | Err(_) => Effect::Nothing,
    }
}

/// Path of a field, name of a place and position of it, and what comes of giving the field there.
type Given = (String, &'static str, usize, Effect);

/// The effect of every field at every place where it can be given.
static EFFECTS: LazyLock<Vec<Given>> = LazyLock::new(effects);

fn effects() -> Vec<Given> {
    let mut effects = Vec::new();
    for (path, schema) in leaves(&SCHEMA) {
        let list = path.trim_start_matches('.').split("[]").next().unwrap_or_default().to_owned();
        let mut places: Vec<_> = PLACES.iter().filter(|(_, place, _)| *place == list).collect();
        if places.is_empty() {
            places.push(&("the specification", "", 0));
        }
        for (place, _, position) in places {
            effects.push((path.clone(), *place, *position, effect(&path, &schema, *position)));
        }
    }
    effects
}

#[test]
fn every_field_of_the_definition_changes_an_object_somewhere() {
    let effects = &EFFECTS;
    assert!(effects.len() > 250, "only {} fields were found", effects.len());
    let works = |path: &str| {
        effects.iter().any(|(other, _, _, effect)| other == path && *effect == Effect::Objects)
    };
    let elsewhere = |path: &str| ELSEWHERE.iter().any(|(field, ..)| *field == path);
    let mut idle: Vec<_> = effects.iter().map(|(path, ..)| path).collect();
    // A service has the fields of a container, but not its effects.
    idle.retain(|path| !works(&path.replace(".services[]", ".containers[]")) && !elsewhere(path));
    idle.dedup();
    assert!(idle.is_empty(), "without effect: {idle:#?}");
    for (path, ..) in ELSEWHERE {
        assert!(!works(path), "{path} is no exception any more");
    }
}

#[test]
fn no_field_is_passed_over_in_silence_wherever_it_is_given() {
    let silent = EFFECTS.iter().filter(|(path, _, position, effect)| {
        let known = SILENT.iter().any(|(field, place, _)| field == path && place == position);
        let elsewhere = ELSEWHERE.iter().any(|(field, ..)| field == path);
        *effect == Effect::Nothing && !known && !elsewhere
    });
    let silent: Vec<_> = silent.map(|(path, place, ..)| format!("{path} in {place}")).collect();
    assert!(silent.is_empty(), "ignored: {silent:#?}");
}

#[test]
fn the_tests_named_for_the_exceptions_exist() {
    let tests = ["operator/tests", "operator/src"].map(|it| sources(&in_repository(it))).concat();
    for (path, test) in ELSEWHERE {
        assert!(tests.contains(&format!("fn {test}()")), "{path}: no test {test}");
    }
}
