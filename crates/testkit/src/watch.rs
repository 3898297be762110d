//! Watches: the changes of the objects that a client has selected.

use super::selectors::{Selection, Words};
use super::store::{Event, Store};
use axum::body::Bytes;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;

/// A line that is sent to a client.
pub(crate) type Line = Result<Bytes, Infallible>;

pub(crate) struct Watch {
    collection: String,
    selection: Selection,
    /// False where the client wants metadata only.
    whole: bool,
    /// The version up to which everything was sent.
    sent: u64,
    sink: UnboundedSender<Line>,
}

impl Watch {
    /// A watch that begins with all objects where the client asks for them (KEP-3157), else with the changes since its
    /// version.
    pub(crate) fn new(
        path: &str,
        query: &Words,
        whole: bool,
        store: &Store,
    ) -> (Self, UnboundedReceiver<Line>) {
        let (sink, lines) = unbounded();
        let sent = query.get("resourceVersion").and_then(|version| version.parse().ok());
        let (collection, selection) = (path.to_owned(), Selection::of(query));
        let mut watch = Self { collection, selection, whole, sent: sent.unwrap_or_default(), sink };
        if query.get("sendInitialEvents").is_some_and(|it| it == "true") {
            watch.send_all(store);
        }
        (watch, lines)
    }

    fn send_all(&mut self, store: &Store) {
        self.sent = store.version;
        let all = store.inside(&self.collection).map(|(_, object)| &**object);
        let added = all.filter(|object| self.selection.has(object));
        let added = added.map(|object| self.line(self.sent, "ADDED", object));
        let end = json!({ "type": "BOOKMARK", "object": {
            "kind": "", "apiVersion": "", "metadata": {
                "resourceVersion": self.sent.to_string(),
                "annotations": { "k8s.io/initial-events-end": "true" },
            },
        } });
        for line in added.chain([format!("{end}\n").into()]) {
            // A client that is gone needs none.
            let _ = self.sink.unbounded_send(Ok(line));
        }
    }

    /// True for a watch of objects of this kind, in the plural.
    pub(crate) fn is_of(&self, plural: &str) -> bool {
        self.collection.ends_with(&format!("/{plural}"))
    }

    /// Sends the changes since the last time. False when the client is gone.
    pub(crate) fn send(&mut self, store: &Store) -> bool {
        let new = store.history.iter().rev().take_while(|event| event.version > self.sent).count();
        for event in &store.history[store.history.len() - new..] {
            for line in self.lines(event) {
                if self.sink.unbounded_send(Ok(line)).is_err() {
                    return false;
                }
            }
        }
        self.sent = store.version;
        !self.sink.is_closed()
    }

    /// The lines about `event`. An object that is not selected any more counts as deleted.
    fn lines(&self, event: &Event) -> Vec<Bytes> {
        let inside =
            event.path.strip_prefix(&self.collection).is_some_and(|it| it.starts_with('/'));
        if !inside {
            return Vec::new();
        }
        let (before, after) =
            (self.selected(event.before.as_ref()), self.selected(event.after.as_ref()));
        let lines = match (before, after) {
            (None, None) => vec![],
            (None, Some(after)) => vec![("ADDED", after)],
            (Some(before), Some(after))
                if before["metadata"]["uid"] == after["metadata"]["uid"] =>
            {
                vec![("MODIFIED", after)]
            }
            (Some(before), Some(after)) => vec![("DELETED", before), ("ADDED", after)],
            (Some(before), None) => vec![("DELETED", before)],
        };
        lines.into_iter().map(|(type_, object)| self.line(event.version, type_, object)).collect()
    }

    fn selected<'event>(&self, object: Option<&'event Arc<Value>>) -> Option<&'event Value> {
        object.map(|object| &**object).filter(|object| self.selection.has(object))
    }

    fn line(&self, version: u64, type_: &str, object: &Value) -> Bytes {
        let mut other = None;
        if !self.whole {
            other = Some(json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": object["metadata"],
            }));
        }
        if type_ == "DELETED" {
            let object = other.get_or_insert_with(|| object.clone());
            object["metadata"]["resourceVersion"] = json!(version.to_string());
        }
        let object = other.as_ref().unwrap_or(object);
        format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n").into()
    }
}
