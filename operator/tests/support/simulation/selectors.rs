//! Which objects of a collection a list or a watch asks for.

use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) type Words = BTreeMap<String, String>;

/// Reads a query.
pub(crate) fn words(query: &str) -> Words {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    labels: Vec<String>,
    fields: Vec<(String, String)>,
}

impl Selection {
    pub(crate) fn of(query: &Words) -> Self {
        let terms = |selector: &str| {
            let text = query.get(selector).map_or("", String::as_str);
            text.split(',').filter(|term| !term.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        let field = |term: String| {
            let (path, value) = term.split_once('=').unwrap();
            (format!("/{}", path.replace('.', "/")), value.to_owned())
        };
        Self {
            labels: terms("labelSelector"),
            fields: terms("fieldSelector").into_iter().map(field).collect(),
        }
    }

    /// Whether `object` is one of those.
    pub(crate) fn has(&self, object: &Value) -> bool {
        self.labels.iter().all(|term| is_labelled(object, term))
            && self.fields.iter().all(|(path, value)| object.pointer(path) == Some(&json!(value)))
    }
}

/// Whether the labels of `object` meet one term of a selector.
fn is_labelled(object: &Value, term: &str) -> bool {
    let labels = &object["metadata"]["labels"];
    if let Some((key, value)) = term.split_once("!=") {
        return labels[key] != value;
    }
    match (term.strip_prefix('!'), term.split_once('=')) {
        (Some(key), _) => labels[key].is_null(),
        (None, Some((key, value))) => labels[key] == value,
        (None, None) => !labels[term].is_null(),
    }
}
