//! The selectors of lists and watches.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The names and values of a query.
pub(crate) type Words = BTreeMap<String, String>;

pub(crate) fn words(query: &str) -> Words {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// The selectors of a list or a watch. Their terms must have the form `key=value`.
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

    /// True for an object that the selectors select.
    pub(crate) fn has(&self, object: &Value) -> bool {
        self.labels.iter().all(|(key, value)| object["metadata"]["labels"][key] == *value)
            && self.fields.iter().all(|(path, value)| object.pointer(path) == Some(&json!(value)))
    }
}
