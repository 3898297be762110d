//! Paths of fields in a specification: `.containers[].volumes{}.path`, where `[]` stands for an
//! element of a list and `{}` for an entry of a map.

use serde_json::{Value, json};

/// Every schema in `schema`, itself first, with its path.
pub fn schemas(schema: &Value) -> Vec<(String, Value)> {
    let fields = schema["properties"].as_object().into_iter().flatten();
    let fields = fields.map(|(name, field)| (format!(".{name}"), field));
    let inside = [("[]", &schema["items"]), ("{}", &schema["additionalProperties"])];
    let inside = inside.into_iter().filter(|(_, inner)| inner.is_object());
    let inside = inside.map(|(step, inner)| (step.to_owned(), inner));
    let mut found = vec![(String::new(), schema.clone())];
    for (step, inner) in fields.chain(inside) {
        found.extend(
            schemas(inner).into_iter().map(|(rest, schema)| (format!("{step}{rest}"), schema)),
        );
    }
    found
}

/// The path and the schema of every field of `schema` that has no fields itself.
pub fn leaves(schema: &Value) -> Vec<(String, Value)> {
    let has_fields = |schema: &Value| {
        ["properties", "items", "additionalProperties"].iter().any(|it| schema[*it].is_object())
    };
    schemas(schema).into_iter().filter(|(_, schema)| !has_fields(schema)).collect()
}

/// Key of a map entry that a path names, where the map has no entry.
const KEY: &str = "sample";

enum Step<'path> {
    Field(&'path str),
    Element(usize),
    Entry,
}

/// The steps of `path`; its first list element is the one at `position`, any other the first.
fn steps(path: &str, position: usize) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut position = Some(position);
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let end = part.find(['[', '{']).unwrap_or(part.len());
        let (name, mut rest) = part.split_at(end);
        steps.push(Step::Field(name));
        while !rest.is_empty() {
            let (step, tail) = match rest.strip_prefix("[]") {
                Some(tail) => (Step::Element(position.take().unwrap_or_default()), tail),
                None => (Step::Entry, &rest["{}".len()..]),
            };
            steps.push(step);
            rest = tail;
        }
    }
    steps
}

fn first_key(map: &Value) -> String {
    map.as_object().and_then(|map| map.keys().next()).map_or_else(|| KEY.to_owned(), String::clone)
}

/// The value at `path`, or null.
pub fn get(value: &Value, path: &str, position: usize) -> Value {
    steps(path, position)
        .iter()
        .fold(value, |value, step| match step {
            Step::Field(name) => &value[*name],
            Step::Element(position) => &value[*position],
            Step::Entry => &value[first_key(value)],
        })
        .clone()
}

/// The place that `steps` lead to; missing fields and elements on the way are added.
fn place<'value>(value: &'value mut Value, steps: &[Step<'_>]) -> &'value mut Value {
    steps.iter().fold(value, |place, step| match step {
        Step::Field(name) => &mut place[*name],
        Step::Entry => {
            let key = first_key(place);
            &mut place[key]
        }
        Step::Element(position) => {
            if place.is_null() {
                *place = json!([]);
            }
            let list = place.as_array_mut().unwrap();
            while list.len() <= *position {
                list.push(Value::Null);
            }
            &mut list[*position]
        }
    })
}

/// Puts `new` at `path`, with all missing fields and elements on the way.
pub fn set(value: &mut Value, path: &str, position: usize, new: Value) {
    *place(value, &steps(path, position)) = new;
}

pub fn remove(value: &mut Value, path: &str, position: usize) -> Value {
    let mut steps = steps(path, position);
    let step = steps.pop();
    let around = place(value, &steps);
    let key = match step {
        Some(Step::Element(position)) => {
            return around
                .as_array_mut()
                .map(|elements| elements.remove(position))
                .unwrap_or_default();
        }
        Some(Step::Field(name)) => name.to_owned(),
        Some(Step::Entry) | None => first_key(around),
    };
    around.as_object_mut().and_then(|fields| fields.remove(&key)).unwrap_or_default()
}
