//! Specifications made at random, the same each time: any field the API has, with long texts, deep
//! objects, large numbers and too many elements.

use flux_operator::crd;
use serde_json::{Map, Value, json};

/// How many there are.
const COUNT: usize = 200;

/// Texts that something reads, splits, quotes, escapes or counts.
const PIECES: [&str; 18] = [
    "a", "0", "9", "[0]", "a[0-9]", "a,", "[", "\"", "'", "\\", "$(", "`", "a ", "\n", "\u{7f}",
    "ƒ", "../", "{{",
];

/// Lengths around the limits, and far from them.
const LENGTHS: [usize; 8] = [0, 1, 20, 300, 4_096, 4_097, 65_536, 70_000];

/// Characters in one specification, nearly: the API server takes no request of more than 3 MB, and some
/// are to be stored.
const CHARACTERS: usize = 400_000;

/// All of them.
pub(super) fn specifications() -> Vec<Value> {
    let definition = serde_json::to_value(crd::definition::definition().unwrap()).unwrap();
    let schema =
        &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut chance = Chance { state: 20_261_121, characters: 0 };
    let random = std::iter::repeat_with(|| {
        chance.characters = CHARACTERS;
        specification(schema, &mut chance)
    });
    known().into_iter().chain(random).take(COUNT).map(unschedulable).collect()
}

/// What once stopped the operator, and what nearly did.
fn known() -> Vec<Value> {
    let hostlist = |hostlist: String| json!({ "flux": { "bursting": { "hostlist": hostlist } } });
    let deep = |levels| (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
    let lines = json!({
        "batch": true, "command": "a\n".repeat(30_000), "logs": format!("/{}", "x".repeat(4_000)),
    });
    vec![
        json!({}),
        json!({ "maxSize": 100_000 }),
        hostlist(format!("a{}", "[0]".repeat(20_000))),
        hostlist(format!("a[{}]", "0".repeat(65_000))),
        hostlist(format!("a[{}]", "0".repeat(70_000))),
        hostlist(format!("{}[0-131071]", "a".repeat(4_000))),
        json!({ "pod": { "overlay": deep(50) } }),
        json!({ "pod": { "overlay": deep(120) } }),
        json!({ "pod": { "overlay": deep(1_000) } }),
        json!({ "containers": [lines] }),
        json!({ "containers": [{ "command": "\u{7f}".repeat(65_000), "preCommand": "\u{7f}".repeat(65_000), "environment": { "A": "\u{7f}".repeat(65_000) } }] }),
    ]
}

/// `spec` with one container, for a pod that no node takes: it is about the operator alone.
fn unschedulable(mut spec: Value) -> Value {
    spec["size"] = json!(1);
    spec["cleanup"] = json!(false);
    spec["pod"]["nodeSelector"] = json!({ "e2e.invalid/none": "none" });
    if spec["containers"].is_null() {
        spec["containers"] = json!([{}]);
    }
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        container["image"] = json!("hostile.invalid/none:1");
    }
    spec
}

fn specification(schema: &Value, chance: &mut Chance) -> Value {
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let fields = 1 + chance.below(3);
    let fields = (0..fields).map(|_| {
        let name = names[chance.below(names.len())];
        (name.clone(), value(&schema["properties"][name], chance))
    });
    Value::Object(fields.collect())
}

/// Any value of `schema`, or one just beyond it.
fn value(schema: &Value, chance: &mut Chance) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        return values[chance.below(values.len())].clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(chance.below(2) == 1),
        Some("integer") => {
            json!([1, 2, 0, -1, 65_536, i64::from(i32::MAX), i64::MAX][chance.below(7)])
        }
        Some("array") => {
            let is_small = !schema["items"]["properties"].is_object();
            let count = [1, 1, 2, 3, if is_small { 65 } else { 17 }][chance.below(5)];
            (0..count).map(|_| value(&schema["items"], chance)).collect()
        }
        Some("object") if schema["properties"].is_object() => specification(schema, chance),
        Some("object") if schema["additionalProperties"].is_object() => {
            let is_small = !schema["additionalProperties"]["properties"].is_object();
            let count = [1, 2, 3, 4, if is_small { 300 } else { 33 }][chance.below(5)];
            let mut entries = Map::new();
            for index in 0..count {
                entries.insert(format!("k{index}"), value(&schema["additionalProperties"], chance));
            }
            entries.insert(text(chance), json!("a"));
            Value::Object(entries)
        }
        Some("object") => (0..chance.below(200)).fold(json!({}), |inner, _| json!({ "a": inner })),
        Some(_) | None => json!(text(chance)),
    }
}

fn text(chance: &mut Chance) -> String {
    let known = ["a", "/a", "1Gi", "5s", "hello-[0-3]", "Never", "echo hello", ""];
    if chance.below(3) > 0 {
        return known[chance.below(known.len())].to_owned();
    }
    let piece = PIECES[chance.below(PIECES.len())];
    let length = LENGTHS[chance.below(LENGTHS.len())].min(chance.characters);
    chance.characters -= length;
    piece.chars().cycle().take(length).collect()
}

/// Numbers as if by chance (`SplitMix64`), the same each time.
struct Chance {
    state: u64,
    /// How many characters a specification may still get.
    characters: usize,
}

impl Chance {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is above 0.
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }
}

#[test]
fn they_are_two_hundred_the_same_each_time_and_some_are_good() {
    use flux_operator::cluster::validate::{Defaults, validate};
    let all = specifications();
    assert_eq!(all.len(), COUNT);
    assert_eq!(all, specifications());
    let (view_image, arm_view_image) = ("view".to_owned(), "view".to_owned());
    let install = crd::Install::Auto;
    let defaults = Defaults { view_image, arm_view_image, install };
    let is_good = |spec: &&Value| {
        let object = json!({
            "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster",
            "metadata": { "name": "hostile" }, "spec": spec,
        });
        serde_json::from_value(object).is_ok_and(|object| validate(&object, &defaults).is_ok())
    };
    let good = all.iter().filter(is_good).count();
    assert!((20..180).contains(&good), "{good} of {COUNT} are good");
}
