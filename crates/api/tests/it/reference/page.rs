//! The page that explains every field: from the CRD and the examples.

use crate::reference::fields::{Field, fields, limits, same_as, text, type_name};
use flux_api::crd::MiniCluster;
use flux_api::fixtures::with_images;
use flux_testkit::any_spec::OBJECT;
use flux_testkit::field_path::get;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

const INTRODUCTION: &str = "<!-- Generated, see crates/api/tests/it/reference/; changes here are lost. -->

# MiniCluster

Every field of `flux-framework.org/v1alpha2`, kind `MiniCluster`. Only `spec.containers` must be given, with an `image`
for each container. Each row begins with an example of its field, which is not its default. In paths, `[]` is each item
of a list and `<name>` each entry of a map. A MiniCluster's name is a DNS label of at most 52 characters.

`kubectl flux validate FILE` reports all faults with path and line, without a cluster; `kubectl explain` shows this text.
The lead is the lead broker (rank 0). [States](labels-and-ports.md#states) explains `status.state`.
";

/// A field's path, and YAML that shows it at its place in a document. Fields without which it would be refused or
/// without effect stand beside it.
#[derive(Debug)]
pub(crate) struct Example {
    pub(crate) path: String,
    pub(crate) yaml: String,
}

/// The examples of all fields, in the order of the page.
pub(crate) fn examples() -> Vec<Example> {
    let example = |text: &str| {
        let (path, yaml) = text.split_once('\n').unwrap();
        Example { path: path.to_owned(), yaml: yaml.to_owned() }
    };
    include_str!("examples.yaml").split("---\n# ").skip(1).map(example).collect()
}

/// The page, as Markdown.
pub(super) fn page() -> String {
    let examples = examples();
    let all = ordered(&examples);
    let mut page = INTRODUCTION.to_owned();
    for path in sections(&all) {
        page.push_str(&section(path, &all, &examples));
    }
    page
}

/// The objects of the page, each where its first field without fields of its own is.
fn sections(all: &[Field]) -> Vec<&str> {
    let mut sections: Vec<&str> = Vec::new();
    for field in all.iter().filter(|field| field.inner.is_none()) {
        if !sections.contains(&field.parent()) {
            sections.push(field.parent());
        }
    }
    sections
}

/// The section of one object: its description, the objects in it, and its fields.
fn section(path: &str, all: &[Field], examples: &[Example]) -> String {
    let mut section = format!("\n## `{path}`\n");
    if let Some(object) = all.iter().find(|field| field.inner.as_deref() == Some(path)) {
        let _ = write!(section, "\n{}\n", about(object));
    }
    let own = all.iter().filter(|field| field.parent() == path);
    let (objects, leaves): (Vec<&Field>, _) = own.partition(|field| field.inner.is_some());
    let link = |inner: &String| format!("[`{inner}`](#{})", anchor(inner));
    let objects: Vec<_> =
        objects.into_iter().filter_map(|it| it.inner.as_ref()).map(link).collect();
    if !objects.is_empty() {
        let _ = write!(section, "\nObjects: {}\n", objects.join(", "));
    }
    section.push_str("\n| field | type | meaning |\n|---|---|---|\n");
    for field in leaves {
        let example = examples.iter().find(|example| example.path == field.path).unwrap();
        let cells = [shown(example), facts(field), about(field)];
        let [shown, facts, about] = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        let _ = writeln!(
            section,
            "| <a id=\"{}\"></a>`{shown}` | {facts} | {about} |",
            anchor(&field.path)
        );
    }
    section
}

/// The field's name with its value in the example, in YAML's flow style, if it is short.
fn shown(example: &Example) -> String {
    let (_, name) = example.path.rsplit_once('.').unwrap();
    let document: Value = serde_saphyr::from_str(&example.yaml).unwrap();
    let value = flow(&get(&document, &example.path.replace(".<name>", "{}"), 0));
    let short = value.len() <= 40 && !value.contains('\n');
    if short { format!("{name}: {value}") } else { name.to_owned() }
}

/// A value in YAML's flow style.
fn flow(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{key}: {}", flow(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::String(text) if serde_saphyr::from_str(text).is_ok_and(|it: Value| it == *value) => {
            text.clone()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// The identifier that renderers of Markdown give to a heading, and the page to a row.
fn anchor(path: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric();
    path.chars().filter(fits).map(|c| c.to_ascii_lowercase()).collect()
}

/// All fields in the order of their examples. Every field without fields of its own has one, and
/// every example has a field.
pub(super) fn ordered(examples: &[Example]) -> Vec<Field> {
    let all = fields("", &OBJECT);
    let all: Vec<Field> = all
        .into_iter()
        .filter(|field| field.path.starts_with("spec.") || field.path.starts_with("status."))
        .collect();
    let leaves = all.iter().filter(|field| field.inner.is_none()).map(|field| &field.path);
    let leaves: BTreeSet<_> = leaves.collect();
    let shown: BTreeSet<_> = examples.iter().map(|example| &example.path).collect();
    assert_eq!(leaves, shown, "fields, and examples of them");
    let position = |field: &Field| {
        let inner = field.inner.as_ref().map(|path| format!("{path}."));
        let belongs = |example: &&Example| {
            example.path == field.path
                || inner.as_ref().is_some_and(|inner| example.path.starts_with(inner.as_str()))
        };
        examples.iter().position(|example| belongs(&example))
    };
    let mut all = all;
    // An object is where its first field is, and before it.
    all.sort_by_key(|field| (position(field), field.path.len()));
    all
}

/// Type, default and limits of a field.
fn facts(field: &Field) -> String {
    let mut facts = vec![type_name(&field.path, &field.schema)];
    if field.required {
        facts.push("required".to_owned());
    }
    let of_spec = field.path.starts_with("spec");
    if let Some(default) = field.schema.get("default").filter(|it| of_spec && !it.is_object()) {
        facts.push(format!("default `{}`", text(default)));
    }
    facts.extend(limits(&field.schema));
    facts.join(", ")
}

/// The description of a field, and where its fields are described if that is elsewhere.
fn about(field: &Field) -> String {
    let mut about = description(&field.schema).to_owned();
    assert!(!about.is_empty(), "{} has no description", field.path);
    if let Some(other) = same_as(&field.path) {
        let _ = write!(about, " Fields: [`{other}`](#{}).", anchor(other));
    }
    about
}

/// The doc comment, without the sentence that only repeats the schema's default.
fn description(schema: &Value) -> &str {
    let description = schema["description"].as_str().unwrap_or_default().trim();
    let default = schema.get("default").map(text).unwrap_or_default();
    let repeats = [format!("Default {default}."), format!("Default `{default}`.")];
    let rest = repeats.iter().find_map(|repeat| description.strip_suffix(repeat.as_str()));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(description).trim()
}

/// A MiniCluster with nothing but the example and what it needs.
pub(super) fn document(example: &Example) -> Option<MiniCluster> {
    let mut document: Value = serde_saphyr::from_str(&example.yaml).ok()?;
    document["apiVersion"] = json!("flux-framework.org/v1alpha2");
    document["kind"] = json!("MiniCluster");
    let is_led_elsewhere = example.yaml.contains("address:");
    let name = if is_led_elsewhere { "burst-0" } else { "flux-sample" };
    document["metadata"] = json!({ "name": name, "namespace": "default", "uid": "1" });
    let runner = json!({ "image": "ubuntu:24.04", "runFlux": true });
    match document["spec"]["containers"].as_array_mut() {
        Some(containers) if containers[0]["runFlux"] == false => containers.push(runner),
        Some(_) => {}
        None => document["spec"]["containers"] = json!([runner]),
    }
    with_images(&mut document["spec"]);
    serde_json::from_value(document).ok()
}
