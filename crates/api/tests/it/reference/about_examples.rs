//! The examples have an effect, and are accepted.

use crate::reference::page::{Example, document, examples, ordered};
use flux_api::cluster::validate::validate;
use flux_testkit::any_spec::OBJECT;
use flux_testkit::field_path::get;
use flux_testkit::samples::defaults;
use serde_json::Value;

fn of_the_page() -> Vec<Example> {
    let found = examples();
    assert!(found.len() > 120, "{found:#?}");
    found
}

#[test]
fn every_example_is_accepted_and_has_an_effect() {
    for example in of_the_page().iter().filter(|example| example.path.starts_with("spec.")) {
        let Example { path, yaml } = example;
        let object = document(example).unwrap_or_else(|| panic!("{path}:\n{yaml}"));
        let cluster = validate(&object, &defaults());
        let cluster = cluster.unwrap_or_else(|faults| panic!("{path}:\n{yaml}\n{faults}"));
        assert_eq!(cluster.not_acted_on, [""; 0], "{path}:\n{yaml}");
        object.validate_cel().unwrap_or_else(|errors| panic!("{path}:\n{yaml}\n{errors}"));
    }
}

#[test]
fn every_example_gives_its_field_another_value_than_the_default() {
    let examples = of_the_page();
    let fields = ordered(&examples);
    for Example { path, yaml } in &examples {
        let document: Value = serde_saphyr::from_str(yaml).unwrap();
        let value = get(&document, &path.replace(".<name>", "{}"), 0);
        assert!(!value.is_null(), "{path}:\n{yaml}");
        let field = fields.iter().find(|field| field.path == *path).unwrap();
        let default = field.schema.get("default").filter(|_| path.starts_with("spec."));
        assert_ne!(Some(&value), default, "{path}");
    }
}

#[test]
fn fields_that_are_documented_as_the_same_are_the_same() {
    let spec = &OBJECT["properties"]["spec"]["properties"];
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
