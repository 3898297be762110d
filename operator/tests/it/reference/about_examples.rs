//! The examples of the page say something, and are accepted.

use crate::reference::examples::Example;
use crate::reference::page::{
    defaults, document, examples, not_acted_on, ordered, schema, snippet,
};
use flux_operator::cluster::validate::validate;
use serde_json::Value;

/// The value at `path` in `document`, in the first item of each list and entry of each map.
fn at<'value>(document: &'value Value, path: &str) -> Option<&'value Value> {
    path.replace("[]", ".[]").split('.').try_fold(document, |value, segment| match segment {
        "[]" => value.get(0),
        "<name>" => value.as_object()?.values().next(),
        name => value.get(name),
    })
}

#[test]
fn every_field_has_an_example_and_every_example_a_field() {
    assert!(ordered().len() > 120);
}

#[test]
fn every_example_gives_its_field_a_value() {
    for example in examples() {
        let document: Value = serde_saphyr::from_str(&snippet(example)).unwrap();
        assert!(at(&document, example.path).is_some(), "{}", snippet(example));
    }
}

#[test]
fn every_example_is_a_specification_that_is_accepted() {
    for example in examples().filter(|example| example.path.starts_with("spec.")) {
        let object = document(example).unwrap_or_else(|| panic!("{}", snippet(example)));
        if let Err(violations) = validate(&object, &defaults()) {
            panic!("{}\n{violations}", snippet(example));
        }
        object.validate_cel().unwrap_or_else(|errors| panic!("{}\n{errors}", snippet(example)));
    }
}

#[test]
fn no_example_says_no_more_than_the_default() {
    let all = ordered();
    for field in all.iter().filter(|field| field.path.starts_with("spec.")) {
        let Some(example) = examples().find(|example| example.path == field.path) else { continue };
        let document: Value = serde_saphyr::from_str(&snippet(example)).unwrap();
        let value = at(&document, example.path);
        assert_ne!(value, field.schema.get("default"), "{}", field.path);
    }
}

#[test]
fn places_that_are_said_to_be_the_same_are_the_same() {
    let schema = schema();
    let spec = &schema["properties"]["spec"]["properties"];
    let flux = &spec["flux"]["properties"];
    let container = &spec["containers"]["items"]["properties"];
    for (one, other) in [
        (&spec["services"]["items"], &spec["containers"]["items"]),
        (&flux["leadBroker"], &flux["bursting"]["properties"]["leadBroker"]),
        (&container["fluxuser"], &container["fluxUser"]),
    ] {
        assert!(one["properties"].is_object() && one["properties"] == other["properties"]);
    }
}

#[test]
fn fields_that_are_not_acted_on_are_marked() {
    let used = Example { path: "spec.flux.logLevel", within: None, yaml: "logLevel: 7" };
    assert_eq!(not_acted_on(&used), None);
    let path = "spec.containers[].noWrapEntrypoint";
    let without_effect = Example { path, within: None, yaml: "noWrapEntrypoint: true" };
    assert_eq!(not_acted_on(&without_effect).as_deref(), Some("Not acted on yet"));
}
