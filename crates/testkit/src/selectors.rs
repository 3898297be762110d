//! Which objects of a collection a list or a watch asks for.

use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) type Words = BTreeMap<String, String>;

/// Reads a query.
pub(crate) fn words(query: &str) -> Words {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// Of a selector's terms only `key=value` is known: the operator asks for nothing else.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    labels: Vec<(String, String)>,
    fields: Vec<(String, String)>,
}

impl Selection {
    pub(crate) fn of(query: &Words) -> Self {
        let terms = |selector: &str| {
            let text = query.get(selector).map_or("", String::as_str);
            let terms = text.split(',').filter(|term| !term.is_empty());
            let terms = terms.map(|term| term.split_once('=').unwrap());
            terms.map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>()
        };
        let fields = terms("fieldSelector").into_iter();
        let fields =
            fields.map(|(path, value)| (format!("/{}", path.replace('.', "/")), value)).collect();
        Self { labels: terms("labelSelector"), fields }
    }

    /// Whether `object` is one of those.
    pub(crate) fn has(&self, object: &Value) -> bool {
        self.labels.iter().all(|(key, value)| object["metadata"]["labels"][key] == *value)
            && self.fields.iter().all(|(path, value)| object.pointer(path) == Some(&json!(value)))
    }
}
