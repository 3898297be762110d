//! Hostile specifications: each becomes objects of limited size or has a fault, with a small stack and bounded work.

use crate::support::{LEAD, faults};
use flux_api::cluster::validate::{Violations, validate};
use flux_api::crd::{MiniClusterSpec, SPECIFICATION_LIMIT};
use flux_api::objects::{agent_config, build};
use flux_testkit::any_spec::{SCHEMA, any_spec, settings};
use flux_testkit::field_path::{leaves, set};
use flux_testkit::samples::{defaults, images, with_spec};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Most bytes of an object of Kubernetes (etcd, `--max-request-bytes`), less those of `managedFields`, which the API
/// server adds.
const OBJECT_LIMIT: usize = 1_000_000;

/// Most bytes in a `ConfigMap`, and most bytes of all annotations of an object.
const CONFIG_MAP_LIMIT: usize = 1 << 20;
const ANNOTATIONS_LIMIT: usize = 1 << 18;

/// Pieces of text that some code reads, splits, quotes, escapes or counts.
const PIECES: [&str; 16] = [
    "[0]", "a,", "\"", "\u{7f}", "a ", "\\", "[", "0", "9", "a[0-9]", "'", "(", "$(", "\n", "ƒ",
    "../",
];

/// `piece`, over and over, `characters` in all.
fn long(piece: &str, characters: usize) -> String {
    piece.chars().cycle().take(characters).collect()
}

/// An object of an object of an object.
fn deep(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }))
}

/// Calls `decide` on a thread with a small stack: nothing may recurse over its input.
fn on_a_small_stack<T: Send>(decide: impl FnOnce() -> T + Send) -> T {
    // The rules are compiled once, and their parser recurses over the rules.
    assert_eq!(faults(&with_spec(&base())), [""; 0]);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(512 << 10);
        thread.spawn_scoped(scope, decide).unwrap().join().unwrap()
    })
}

/// The smallest specification.
fn base() -> Value {
    json!({ "containers": [{ "image": "app", "command": "echo hello" }] })
}

/// Resolves `spec` and builds its objects, as each reconcile does, and checks that they are of modest size.
fn decide(spec: &Value) {
    let cluster = match validate(&with_spec(spec), &defaults()) {
        Ok(cluster) => cluster,
        Err(Violations(faults)) => {
            assert!(faults.iter().all(|fault| fault.to_string().len() < 2_100), "{faults:?}");
            return;
        }
    };
    let config = agent_config(&cluster, Some(LEAD));
    let Ok(desired) = build(&cluster, &config, &images(), 1) else { return };
    let data = desired.config_map.data.unwrap();
    assert!(data.values().map(String::len).sum::<usize>() <= CONFIG_MAP_LIMIT);
    let annotations = desired.job.metadata.annotations.clone().unwrap();
    assert!(annotations.values().map(String::len).sum::<usize>() <= ANNOTATIONS_LIMIT);
    let pod = desired.services_pod.map(|pod| serde_json::to_string(&pod).unwrap().len());
    let job = serde_json::to_string(&desired.job).unwrap().len();
    assert!(job.max(pod.unwrap_or_default()) <= OBJECT_LIMIT, "{job} {pod:?}");
}

#[test]
fn definition_and_validation_give_each_text_the_same_limit() {
    on_a_small_stack(|| {
        for (path, schema) in leaves(&SCHEMA) {
            let Some(limit) = schema["maxLength"].as_u64() else { continue };
            let limit = usize::try_from(limit).unwrap();
            let given = |text: String| {
                let mut spec = base();
                set(&mut spec, &path, 0, json!(text));
                serde_json::from_value::<MiniClusterSpec>(spec.clone()).is_ok().then_some(spec)
            };
            for (characters, refused) in [(limit, false), (limit + 1, true)] {
                let Some(spec) = given("ƒ".repeat(characters)) else { continue };
                let is_named = |fault: &String| fault.contains("characters, at most");
                let faults = faults(&with_spec(&spec));
                assert_eq!(faults.iter().any(is_named), refused, "{path}: {characters}");
            }
            PIECES[..4].iter().filter_map(|it| given(long(it, limit))).for_each(|it| decide(&it));
        }
    });
}

#[test]
fn lists_maps_keys_and_the_whole_are_bounded() {
    let map = |count: usize| -> Value {
        (0..count)
            .map(|index| (format!("k{index}"), json!("v")))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    for (spec, message) in [
        (json!({ "jobLabels": map(257) }), "spec.jobLabels: has 257 entries, at most 256"),
        (
            json!({ "containers": vec![json!({}); 17] }),
            "spec.containers: has 17 elements, at most 16",
        ),
        (json!({ "pod": { "overlay": map(257) } }), "spec.pod.overlay: has 257 entries"),
        (
            json!({ "pod": { "securityContext": { "supplementalGroups": vec![1; 65] } } }),
            "spec.pod.securityContext.supplementalGroups: has 65 elements, at most 64",
        ),
        (
            json!({ "containers": [{ "environment": { "K".repeat(318): "v" } }] }),
            "318 characters in a key, at most 317",
        ),
        (
            json!({ "containers": vec![json!({ "command": "a".repeat(60_000) }); 5] }),
            "bytes as JSON, at most 262144",
        ),
    ] {
        let mut whole = base();
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let faults = faults(&with_spec(&whole));
        assert!(faults.iter().any(|fault| fault.contains(message)), "{message}: {faults:?}");
    }
}

#[test]
fn a_hundred_thousand_hosts_cost_no_more_than_one() {
    on_a_small_stack(|| {
        let spec = json!({ "size": 1, "maxSize": 100_000, "containers": base()["containers"] });
        let cluster = validate(&with_spec(&spec), &defaults()).unwrap();
        let config = agent_config(&cluster, Some(LEAD));
        assert!(config.to_toml().unwrap().contains("\"hello-[0-99999]\""));
        assert!(format!("{cluster:?}").len() < 10_000, "hosts are kept one by one");
        decide(&spec);
    });
}

#[test]
fn a_batch_is_measured_before_it_is_written() {
    let mut spec = base();
    let container = &mut spec["containers"][0];
    container["batch"] = json!(true);
    container["command"] = json!("a\n".repeat(30_000));
    container["logs"] = json!(format!("/{}", "x".repeat(4_000)));
    let faults = faults(&with_spec(&spec));
    assert!(
        faults[0].starts_with("spec.containers[0].command: the script made of its 30000 lines"),
        "{faults:?}"
    );
}

#[test]
fn the_largest_maps_and_lists_still_fit_an_object() {
    for (path, schema) in leaves(&SCHEMA).into_iter().filter(|(path, _)| path.contains("{}")) {
        let (map, rest) = path.split_once("{}").unwrap();
        let mut spec = base();
        for container in 0..16 {
            for entry in 0..256 {
                let mut value = Value::Null;
                let text = if schema["type"] == "string" { json!("a") } else { json!(1) };
                set(&mut value, &format!(".entry{rest}"), 0, text);
                let place = format!("{map}.k{entry}");
                set(&mut spec, &place, container, value["entry"].clone());
            }
            if spec.to_string().len() > SPECIFICATION_LIMIT - 16_384 || !map.contains("[]") {
                break;
            }
            let list = map.split(['.', '[']).nth(1).unwrap();
            let fields = json!({ "name": format!("c{container}"), "image": "a", "command": "a" });
            for (name, value) in fields.as_object().unwrap() {
                spec[list][container][name] = value.clone();
            }
            spec["containers"][0]["runFlux"] = json!(true);
        }
        if serde_json::from_value::<MiniClusterSpec>(spec.clone()).is_ok() {
            decide(&spec);
        }
    }
}

/// One of the pieces, or a few.
fn hostile_text() -> impl Strategy<Value = String> {
    let piece = (prop::sample::select(&PIECES[..]), 1..65_536_usize);
    prop::collection::vec(piece, 1..3).prop_map(|pieces| {
        pieces.iter().map(|(piece, characters)| long(piece, *characters)).collect()
    })
}

proptest! {
    #![proptest_config(settings(96))]

    #[test]
    fn long_texts_and_deep_objects_need_a_small_stack(
        spec in any_spec(),
        texts in prop::collection::vec((any::<prop::sample::Index>(), hostile_text()), 1..4),
        levels in prop::option::of(1..120_usize),
    ) {
        let mut spec = spec;
        let fields = leaves(&SCHEMA);
        let strings: Vec<_> = fields.iter().filter(|(_, schema)| schema["type"] == "string").collect();
        for (index, text) in texts {
            set(&mut spec, &index.get(&strings).0, 0, json!(text));
        }
        if let Some(levels) = levels {
            spec["pod"]["overlay"] = deep(levels);
        }
        on_a_small_stack(|| {
            if serde_json::from_value::<MiniClusterSpec>(spec.clone()).is_ok() {
                decide(&spec);
            }
        });
    }
}
