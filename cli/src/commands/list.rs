//! `list`: lists the MiniClusters of one namespace or of all.

use crate::completion::names;
use crate::error::print_error;
use crate::minicluster::{name, targets};
use crate::object_format::{ObjectFormat, Path};
use crate::output::{age, coloured, or_dash, reader_gone, table};
use crate::prelude::*;
use clap_complete::engine::ArgValueCompleter;
use flux_api::cluster::QUEUE_LABEL;
use futures::StreamExt as _;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::runtime::{WatchStreamExt as _, watcher};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::pin::pin;
use std::slice;

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Names of MiniClusters; `@last` is the newest [default: all]
    #[arg(value_name = "NAME", value_parser = name, add = ArgValueCompleter::new(names))]
    #[arg(conflicts_with_all = ["all_namespaces", "selector", "field_selector"])]
    names: Vec<String>,
    /// List the MiniClusters of all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// List only MiniClusters with these labels, as `kubectl get -l` does
    #[arg(long, short = 'l')]
    selector: Option<String>,
    /// List only MiniClusters with these fields, as metadata.name=hello
    #[arg(long, value_name = "SELECTOR")]
    field_selector: Option<String>,
    /// List only MiniClusters in these states
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<String>,
    /// Sort by the value at this path, as {.metadata.creationTimestamp}
    #[arg(long, value_name = "PATH", value_parser = Path::parse)]
    sort_by: Option<Path>,
    /// After the list, print each change until interrupted
    #[arg(long, short)]
    watch: bool,
    /// Print no headers
    #[arg(long)]
    no_headers: bool,
    #[command(flatten)]
    format: ObjectFormat,
}

impl List {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let (mut found, mut code) = (Vec::new(), ExitCode::SUCCESS);
        for target in targets(&connection, &self.names) {
            match target.object().await {
                Ok(object) => found.push(object),
                Err(error) => {
                    print_error(&error);
                    code = ExitCode::FAILURE;
                }
            }
        }
        if self.names.is_empty() {
            let mut parameters = ListParams::default();
            parameters.label_selector.clone_from(&self.selector);
            parameters.field_selector.clone_from(&self.field_selector);
            let list = objects(&connection, self.all_namespaces).list(&parameters).await;
            found = list.context("list MiniClusters")?.items;
        }
        found.retain(|object| self.selects(object));
        if let Some(path) = &self.sort_by {
            let key = |object: &DynamicObject| path.text(&json!(object), " ");
            found.sort_by(|one, other| order(&key(one), &key(other)));
        }
        self.format.print(&found, self.names.len() != 1 || found.is_empty())?;
        if self.format.is_text() && !found.is_empty() {
            print(&self.table(&found));
        } else if self.format.is_text() && self.names.is_empty() {
            let namespace = if self.all_namespaces { "any" } else { &connection.namespace };
            print_stderr(&format!("no MiniClusters found in {namespace} namespace"));
        }
        if self.watch {
            tokio::select! {
                followed = self.follow(&connection, found) => followed?,
                () = reader_gone() => {}
            }
        }
        Ok(code)
    }

    fn selects(&self, object: &DynamicObject) -> bool {
        let state = text(object, "/status/state");
        self.state.is_empty() || self.state.iter().any(|it| it.eq_ignore_ascii_case(&state))
    }

    async fn follow(&self, connection: &Connection, found: Vec<DynamicObject>) -> Result<()> {
        let mut config = connection.watch_config();
        config.label_selector.clone_from(&self.selector);
        config.field_selector.clone_from(&self.field_selector);
        let events = watcher(objects(connection, self.all_namespaces), config);
        let mut changes = pin!(events.default_backoff().applied_objects());
        let mut shown: HashMap<_, _> = found.into_iter().map(|it| (it.uid(), it)).collect();
        while let Some(change) = changes.next().await {
            // The watcher tries again after an error.
            let Ok(object) = change else { continue };
            let is_named = self.names.is_empty() || shown.contains_key(&object.uid());
            if !is_named || !self.selects(&object) {
                continue;
            }
            let old = shown.insert(object.uid(), object.clone());
            if old.is_some_and(|old| old.resource_version() == object.resource_version()) {
                continue;
            }
            self.format.print(slice::from_ref(&object), false)?;
            if self.format.is_text() {
                // With the other rows, its columns are where theirs are.
                let table = self.table(shown.values().chain([&object]));
                print(table.lines().last().unwrap_or_default());
            }
        }
        Ok(())
    }

    fn table<'object>(&self, objects: impl IntoIterator<Item = &'object DynamicObject>) -> String {
        let columns: Vec<_> = COLUMNS.iter().filter(|(_, is_shown, _)| is_shown(self)).collect();
        let header: Vec<_> = columns.iter().map(|(name, ..)| *name).collect();
        let row = |object| columns.iter().map(|(.., text)| text(object)).collect();
        let table = table(&header, objects.into_iter().map(row));
        let without = table.split_once('\n').map(|(_, rows)| rows.to_owned());
        without.filter(|_| self.no_headers).unwrap_or(table)
    }
}

/// The header of a column, whether a list has it, and its text.
type Column = (&'static str, fn(&List) -> bool, fn(&DynamicObject) -> String);

const COLUMNS: [Column; 10] = [
    ("NAMESPACE", |list| list.all_namespaces, |it| it.namespace().unwrap_or_default()),
    ("NAME", |_| true, ResourceExt::name_any),
    ("SIZE", |_| true, size),
    ("READY", |_| true, |it| text(it, "/status/readyBrokers").replace('-', "0")),
    ("STATUS", |_| true, |it| state(it)),
    ("EXIT", |_| true, |it| text(it, "/status/exitCode")),
    ("AGE", |_| true, |it| or_dash(it.creation_timestamp().map(|at| age(at.0, Timestamp::now())))),
    ("REASON", is_wide, |it| text(it, "/status/reason")),
    ("QUEUE", is_wide, |it| or_dash(it.labels().get(QUEUE_LABEL))),
    ("IMAGE", is_wide, |it| text(it, "/spec/containers/0/image")),
];

fn state(object: &DynamicObject) -> String {
    coloured(serde_json::from_value(object.data["status"]["state"].clone()).ok())
}

fn is_wide(list: &List) -> bool {
    list.format.is_wide()
}

fn order(one: &str, other: &str) -> Ordering {
    match (one.parse::<f64>(), other.parse()) {
        (Ok(one), Ok(other)) => one.total_cmp(&other),
        _ => one.cmp(other),
    }
}

/// The value at `pointer`, whatever the operator that wrote it knows; `-` if there is none.
fn text(object: &DynamicObject, pointer: &str) -> String {
    match object.data.pointer(pointer) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

fn size(object: &DynamicObject) -> String {
    let is_by_queue = object.data["spec"].get("autoscale").is_some()
        && object.data["status"]["size"].as_i64().is_some_and(|size| size > 0);
    text(object, if is_by_queue { "/status/size" } else { "/spec/size" })
}
