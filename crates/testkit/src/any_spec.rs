//! Any specification by the generated definition: its types, lists, maps and enumerations, and its limits, except for
//! a few numbers.

use super::samples::{defaults, with_spec};
use flux_api::cluster::Cluster;
use flux_api::cluster::validate::{Violations, validate};
use flux_api::crd;
use flux_api::fixtures::with_images;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// The version of the definition.
pub static VERSION: LazyLock<Value> = LazyLock::new(|| {
    let definition = serde_json::to_value(crd::definition::definition().unwrap()).unwrap();
    definition["spec"]["versions"][0].clone()
});

/// The schema of a MiniCluster.
pub static OBJECT: LazyLock<Value> = LazyLock::new(|| VERSION["schema"]["openAPIV3Schema"].clone());

/// The schema of its specification.
pub static SCHEMA: LazyLock<Value> = LazyLock::new(|| OBJECT["properties"]["spec"].clone());

/// Texts that are valid in some field, and texts with which a careless quotation, split or parse would fail.
static TEXTS: LazyLock<[Vec<String>; 2]> =
    LazyLock::new(|| serde_json::from_str(include_str!("any_spec.json")).unwrap());

/// Settings of a property test that has the same cases each time.
pub fn settings(cases: u32) -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(20_261_121),
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

/// A specification in which each field is given with a probability between rare and often.
pub fn any_spec() -> impl Strategy<Value = Value> {
    prop_oneof![4 => value(&SCHEMA, 0.005), 2 => value(&SCHEMA, 0.1), 1 => value(&SCHEMA, 0.4)]
        .prop_map(|mut spec| {
            with_images(&mut spec);
            spec
        })
}

/// Any value of `schema`, each optional field given with probability `density`.
fn value(schema: &Value, density: f64) -> BoxedStrategy<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return select(values.clone()).boxed();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return prop_oneof![any::<i32>().prop_map(Value::from), text(schema).prop_map(Value::from)]
            .boxed();
    }
    match schema["type"].as_str().unwrap() {
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "integer" => integer(schema),
        "string" => text(schema).prop_map(Value::from).boxed(),
        "array" => {
            let (least, most) = (bound(schema, "minItems").unwrap_or(0), bound(schema, "maxItems"));
            let length = least..=most.unwrap_or(3).min(3);
            prop::collection::vec(value(&schema["items"], density), length)
                .prop_map(Value::from)
                .boxed()
        }
        "object" if schema["properties"].is_object() => object(schema, density),
        "object" if schema["additionalProperties"].is_object() => {
            let entries = value(&schema["additionalProperties"], density);
            prop::collection::btree_map(text(&json!({})), entries, 0..3)
                .prop_map(|entries| entries.into_iter().collect())
                .boxed()
        }
        other => {
            assert_eq!(other, "object", "the strategy does not know this type");
            anything().boxed()
        }
    }
}

fn bound(schema: &Value, keyword: &str) -> Option<usize> {
    schema[keyword].as_u64().and_then(|bound| usize::try_from(bound).ok())
}

fn object(schema: &Value, density: f64) -> BoxedStrategy<Value> {
    let fields = schema["properties"].as_object().unwrap();
    let values: Vec<_> = fields
        .iter()
        .map(|(name, field)| {
            let value = value(field, density);
            if requires(schema, name) {
                value.prop_map(Some).boxed()
            } else {
                prop::option::weighted(density, value).boxed()
            }
        })
        .collect();
    let names: Vec<String> = fields.keys().cloned().collect();
    values
        .prop_map(move |values| {
            let given = names.iter().cloned().zip(values);
            Value::Object(given.filter_map(|(name, value)| Some((name, value?))).collect())
        })
        .boxed()
}

/// Whole numbers in range, small ones and the limits most often.
fn integer(schema: &Value) -> BoxedStrategy<Value> {
    let limit = |keyword: &str, otherwise: i64| {
        #[expect(clippy::cast_possible_truncation, reason = "limits of the schema are whole")]
        schema[keyword].as_f64().map_or(otherwise, |limit| limit as i64)
    };
    let (lowest, highest) = if schema["format"] == "int64" {
        (i64::MIN, i64::MAX)
    } else {
        (i64::from(i32::MIN), i64::from(i32::MAX))
    };
    let (least, most) = (limit("minimum", lowest), limit("maximum", highest));
    let near = least.max(0)..=most.min(least.max(0).saturating_add(9));
    // A stored object may be older than the limits.
    let any = any::<i32>().prop_map(i64::from);
    prop_oneof![40 => near, 1 => Just(least), 1 => Just(most), 1 => least..=most, 1 => any]
        .prop_map(Value::from)
        .boxed()
}

fn text(schema: &Value) -> BoxedStrategy<String> {
    let least = bound(schema, "minLength").unwrap_or(0);
    let [fitting, hostile] = TEXTS.clone();
    prop_oneof![
        8 => select(fitting),
        1 => select(hostile),
        1 => "\\PC{0,12}",
    ]
    .prop_map(move |text| if text.chars().count() < least { "a".to_owned() } else { text })
    .boxed()
}

/// Any JSON object of a few fields.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text(&json!({})).prop_map(Value::from),
    ];
    let inner = leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z]{1,8}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-zA-Z]{1,8}", inner, 0..3)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// The cluster that `spec` becomes when all fields are removed that are at fault.
pub fn accepted(spec: &Value) -> Option<Cluster> {
    let mut spec = spec.clone();
    for _ in 0..16 {
        match validate(&with_spec(&spec), &defaults()) {
            Ok(cluster) => return Some(cluster),
            Err(faults) => spec = without(&spec, &faults),
        }
        with_images(&mut spec);
    }
    None
}

/// `spec` without the fields that are at fault, in a section or in an element of a list; without the whole element
/// where it lacks the field that is at fault.
fn without(spec: &Value, faults: &Violations) -> Value {
    let mut spec = spec.clone();
    for fault in &faults.0 {
        let names: Vec<&str> =
            fault.path.split(['.', '[', ']']).filter(|name| !name.is_empty()).collect();
        let ["spec", section, rest @ ..] = &names[..] else { continue };
        let required = |field| requires(&SCHEMA["properties"][section], field);
        match (spec.get_mut(section), rest) {
            (None, _) => {}
            (Some(Value::Array(elements)), [position, field, ..]) => {
                let position = position.parse().unwrap_or(usize::MAX);
                let fields = elements.get_mut(position).and_then(Value::as_object_mut);
                let lacks_it = fields.is_some_and(|fields| fields.remove(*field).is_none());
                if lacks_it && elements.len() > 1 {
                    elements.remove(position);
                }
            }
            (Some(Value::Object(fields)), [field, ..])
                if !required(field) && fields.contains_key(*field) =>
            {
                fields.remove(*field);
            }
            (Some(Value::Array(elements)), _) if *section == "containers" => elements.truncate(1),
            _ => drop(spec.as_object_mut().and_then(|fields| fields.remove(*section))),
        }
    }
    spec
}

/// True where an object of `schema` must have `field`.
pub fn requires(schema: &Value, field: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|name| name == field))
}
