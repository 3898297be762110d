//! Every field of `spec` has an effect wherever it may be given, or a condition names it as one without effect. The
//! fields are those of the definition, so that a new one cannot be forgotten.

use crate::reference::page::{Example, examples};
use crate::support::documents;
use flux_api::cluster::Cluster;
use flux_api::cluster::validate::validate;
use flux_api::crd::MiniClusterSpec;
use flux_api::objects::secret;
use flux_testkit::any_spec::SCHEMA;
use flux_testkit::field_path::{get, leaves, remove, set};
use flux_testkit::samples::{defaults, hello, with_spec};
use json_patch::merge;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Where the fields of a container can be given: a name, the list, and the position in it.
const PLACES: &[(&str, &str, usize)] = &[
    ("the container that runs Flux", "containers", 0),
    ("a container beside it", "containers", 1),
    ("one that keeps its entrypoint", "containers", 2),
    ("the pod of spec.services", "services", 0),
];

/// What the command must be besides an example for its field to mean something in [`base`].
const COMMANDS: &[(&str, Option<&str>)] =
    &[(".commands.script", None), (".noWrapEntrypoint", Some("serve"))];

/// Paths of fields, and the specifications of their examples, of a MiniCluster that is called `hello`.
static EXAMPLES: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| {
    let of_spec = |Example { path, yaml }: Example| {
        let path = path.strip_prefix("spec")?.replace(".<name>", "{}");
        let name = if yaml.contains("address:") { "burst-0" } else { "flux-sample" };
        let document: Value = serde_saphyr::from_str(&yaml.replace(name, "hello")).unwrap();
        Some((path, document["spec"].clone()))
    };
    examples().into_iter().filter_map(of_spec).collect()
});

/// Fields that change no object: tests of the operator show their effect.
const ELSEWHERE: [&str; 4] =
    [".cleanup", ".ttlSecondsAfterFinished", ".startDeadlineSeconds", ".suspend"];

/// Fields that have no effect at a place and are not reported, and why that is right.
const UNREPORTED: &[(&str, usize, &str)] =
    &[(".containers[].name", 0, "documented: the runner is named as the MiniCluster")];

fn base() -> Value {
    let spec = json!({
        "containers": [
            { "image": "app", "command": "echo hello", "runFlux": true },
            { "image": "side", "name": "side", "command": "serve" },
            { "image": "web", "name": "entry", "noWrapEntrypoint": true },
        ],
        "services": [{ "image": "store", "name": "store" }],
        // The names that a container's claim has here: that of a sample, and none.
        "pod": { "overlay": { "resourceClaims": [
            { "name": "sample", "resourceClaimName": "a" },
            { "name": "", "resourceClaimName": "b" },
        ] } },
    });
    serde_json::to_value(hello(&spec)).unwrap()["spec"].clone()
}

fn sample(schema: &Value, now: &Value) -> Value {
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
        // An object of any form has an example.
        Some(_) => Value::Null,
    }
}

/// What a specification becomes: all objects, the certificate's Secret among them, or its faults.
struct Outcome {
    objects: Result<Vec<Value>, Vec<String>>,
    not_acted_on: Vec<String>,
}

impl Outcome {
    fn of(spec: &Value) -> Self {
        if serde_json::from_value::<MiniClusterSpec>(spec.clone()).is_err() {
            return Self { objects: Err(vec![]), not_acted_on: vec![] };
        }
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
        // They have hashes of the fields, which change with each field.
        object["metadata"]["annotations"].take();
    }
    objects.into_iter().chain(secret).collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Effect {
    /// Other objects.
    Objects,
    /// A fault or a note that names the field.
    Reported,
    Nothing,
}

/// [`base`] with the example of the field at `path`, or of what that lies in.
fn with_example(path: &str, position: usize) -> Value {
    let (list, path) = match path.strip_prefix(".services[]") {
        Some(rest) => ("services", format!(".containers[]{rest}")),
        None => ("containers", path.to_owned()),
    };
    let fits = EXAMPLES.iter().filter(|(field, _)| path.starts_with(field));
    let (_, mut example) = fits.max_by_key(|(field, _)| field.len()).unwrap().clone();
    let mut spec = base();
    let mut container = get(&example, ".containers[]", 0);
    remove(&mut example, ".containers", 0);
    for role in ["name", "runFlux"] {
        if !path.ends_with(role) {
            remove(&mut container, role, 0);
        }
    }
    if let Some((_, command)) = COMMANDS.iter().find(|(field, _)| path.ends_with(field)) {
        container["command"] = json!(command);
    }
    merge(&mut spec, &example);
    if !container.is_null() {
        merge(&mut spec[list][position], &container);
    }
    spec
}

fn effect(path: &str, schema: &Value, position: usize) -> Effect {
    let mut spec = with_example(path, position);
    if get(&spec, path, position).is_null() {
        set(&mut spec, path, position, sample(schema, &Value::Null));
    }
    let mut without = spec.clone();
    let value = remove(&mut without, path, position);
    let mut before = Outcome::of(&without);
    if before.objects.is_err() {
        // It may not be left out: then another value has another effect.
        set(&mut without, path, position, sample(schema, &value));
        before = Outcome::of(&without);
    }
    let after = Outcome::of(&spec);
    let place = path.replacen("[]", &format!("[{position}]"), 1);
    let named = format!("spec{}", place.split('{').next().unwrap_or_default());
    // The field itself, or one that it lies in.
    let names_it = |reported: &String| {
        named
            .strip_prefix(reported)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    match after.objects {
        Ok(objects) if before.objects.as_ref() != Ok(&objects) => Effect::Objects,
        Ok(_) if after.not_acted_on.iter().any(names_it) => Effect::Reported,
        Err(faults) if faults.iter().any(names_it) => Effect::Reported,
        Ok(_) | Err(_) => Effect::Nothing,
    }
}

/// Path of a field, name and position of a place, and the effect of the field there.
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
    let elsewhere = |path: &str| ELSEWHERE.contains(&path);
    let mut idle: Vec<_> = effects.iter().map(|(path, ..)| path).collect();
    // A service has the fields of a container, but not its effects.
    idle.retain(|path| !works(&path.replace(".services[]", ".containers[]")) && !elsewhere(path));
    idle.dedup();
    assert!(idle.is_empty(), "without effect: {idle:#?}");
    for path in ELSEWHERE {
        assert!(!works(path), "{path} is no exception any more");
    }
}

#[test]
fn no_field_is_ignored_anywhere() {
    let ignored = EFFECTS.iter().filter(|(path, _, position, effect)| {
        let known = UNREPORTED.iter().any(|(field, place, _)| field == path && place == position);
        let elsewhere = ELSEWHERE.contains(&path.as_str());
        *effect == Effect::Nothing && !known && !elsewhere
    });
    let ignored: Vec<_> = ignored.map(|(path, place, ..)| format!("{path} in {place}")).collect();
    assert!(ignored.is_empty(), "ignored: {ignored:#?}");
}
