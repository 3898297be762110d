//! The page that explains every field: from the CRD and the examples, which are written in the page itself.

use crate::reference::fields::{
    Field, fields, kubernetes_type, limits, rules, same_as, text, type_name,
};
use flux_api::crd::MiniCluster;
use flux_api::fixtures::with_images;
use flux_testkit::any_spec::OBJECT;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

const INTRODUCTION: &str = "<!-- Generated, see crates/api/tests/it/reference/; changes here are lost, but for those of the examples and their order. -->

# MiniCluster

Every field of `flux-framework.org/v1alpha2`, kind `MiniCluster`. Only `spec.containers` must be
given, with an `image` for each container; most examples leave that out. Defaults apply whether or not the object
around a field is given.

In paths, `[]` is each item of a list and `<name>` each entry of a map. The API server refuses what is
marked as refused. `kubectl flux validate FILE` reports the same, and more, without a cluster: every
fault with its path and line. It takes files, directories and `-` for the standard input, and ends with 0
if everything is valid, with 1 if there is a fault, and with 2 if something cannot be read.
";

/// A field's path, and YAML that shows it at its place in a document. Fields without which it would be refused or
/// without effect stand beside it.
#[derive(Debug)]
pub(crate) struct Example {
    pub(crate) path: String,
    pub(crate) yaml: String,
}

/// The examples of a page, in its order: below the heading of each field.
pub(crate) fn examples(page: &str) -> Vec<Example> {
    let sections = page.split("\n#").filter_map(|section| section.split_once("`\n"));
    let example = |(heading, text): (&str, &str)| {
        let (_, yaml) = text.split_once("\n```yaml\n")?;
        let (yaml, _) = yaml.split_once("```\n")?;
        let (_, path) = heading.split_once('`')?;
        Some(Example { path: path.to_owned(), yaml: yaml.to_owned() })
    };
    sections.filter_map(example).collect()
}

/// The page, as Markdown, with these examples.
pub(super) fn page(examples: &[Example]) -> String {
    let all = ordered(examples);
    let objects = |of_status: bool| {
        let objects = all.iter().filter_map(|field| Some((field.inner.clone()?, Some(field))));
        objects.filter(move |(path, _)| path != "spec" && path.starts_with("status") == of_status)
    };
    let mut sections = vec![("spec".to_owned(), None)];
    sections.extend(objects(false));
    sections.push(("status".to_owned(), None));
    sections.extend(objects(true));
    let mut page = format!("{INTRODUCTION}\n");
    for (path, _) in &sections {
        let depth = path.matches('.').count().saturating_sub(usize::from(path.contains("<name>")));
        let _ = writeln!(page, "{}- [`{path}`](#{})", "  ".repeat(depth), anchor(path));
    }
    page.push_str(&metadata());
    for (path, field) in sections {
        page.push_str(&section(&path, field, &all, examples));
    }
    page
}

/// The section of one object: its description, its fields, and the objects in it.
fn section(path: &str, object: Option<&Field>, all: &[Field], examples: &[Example]) -> String {
    let mut section = format!("\n## `{path}`\n");
    if let Some(object) = object {
        section.push_str(&about(object, all, examples));
    }
    let own = all.iter().filter(|field| field.parent() == path);
    let (objects, leaves): (Vec<&Field>, _) = own.partition(|field| field.inner.is_some());
    if !objects.is_empty() {
        section.push_str("\nIn here, each with a section of its own:\n\n");
    }
    for inner in objects.into_iter().filter_map(|object| object.inner.as_deref()) {
        let _ = writeln!(section, "- [`{inner}`](#{})", anchor(inner));
    }
    for field in leaves {
        let _ = write!(section, "\n### `{}`\n", field.path);
        section.push_str(&about(field, all, examples));
    }
    section
}

/// The identifier that renderers of Markdown give to a heading.
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
    assert_eq!(leaves, shown, "fields, and examples of them in docs/minicluster.md");
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

/// The section about what belongs to no field of ours.
fn metadata() -> String {
    let mut text = "\n## `metadata`\n\nAs of every object of Kubernetes.\n\n".to_owned();
    for (_, message) in rules(&OBJECT) {
        let _ = writeln!(text, "- Refused: {message}");
    }
    text
}

/// The text about one field, under its heading.
fn about(field: &Field, all: &[Field], examples: &[Example]) -> String {
    let mut facts = vec![type_name(&field.path, &field.schema)];
    if field.required {
        facts.push("required".to_owned());
    }
    if let Some(default) = field.schema.get("default").filter(|default| !default.is_object()) {
        facts.push(format!("default `{}`", text(default)));
    }
    facts.extend(limits(&field.schema));
    let mut about = format!("\n*{}*\n", facts.join(" · "));
    let example = examples.iter().find(|example| example.path == field.path);
    let description = description(&field.schema);
    assert!(!description.is_empty(), "{} has no description", field.path);
    let _ = write!(about, "\n{description}\n");
    if let Some(other) = same_as(&field.path) {
        let _ = write!(about, "\nIts fields are those of [`{other}`](#{}).\n", anchor(other));
    }
    if let Some(kind) = kubernetes_type(&field.path) {
        let _ = write!(about, "\nIts fields are those of `{kind}` in the API of Kubernetes.\n");
    }
    let refusals: Vec<String> =
        refusals(field, all).iter().map(|refusal| format!("- Refused: {refusal}\n")).collect();
    if !refusals.is_empty() {
        let _ = write!(about, "\n{}", refusals.concat());
    }
    if let Some(example) = example {
        let _ = write!(about, "\n```yaml\n{}```\n", example.yaml);
    }
    about
}

/// The schemas in which the rules about `field` itself may be written.
fn layers(schema: &Value) -> [&Value; 3] {
    [schema, &schema["items"], &schema["additionalProperties"]]
}

/// The rules about a field: those of the object around it that name it, and its own.
fn refusals(field: &Field, all: &[Field]) -> Vec<String> {
    let name = field.path.rsplit_once('.').map_or("", |(_, name)| name);
    let around = match all.iter().find(|it| it.inner.as_deref() == Some(field.parent())) {
        Some(object) => object.schema.clone(),
        None => OBJECT["properties"][field.parent()].clone(),
    };
    let around = layers(&around).into_iter().flat_map(rules);
    let named = around.filter(|(path, _)| path.trim_start_matches('.') == name);
    let own = layers(&field.schema).into_iter().flat_map(rules).filter(|(path, _)| path.is_empty());
    // What is the same elsewhere has its rules there.
    let own = own.filter(|_| field.path == "spec.services" || same_as(&field.path).is_none());
    named.chain(own).map(|(_, message)| message).collect()
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
