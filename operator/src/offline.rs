//! `flux-operator validate`: the checks of the API server and of the operator, without either.

mod document;
mod source;

use crate::cluster::validate::{Defaults, Violation, Violations, validate};
use crate::crd::MiniCluster;
use document::{Node, documents};
use kube::Resource as _;
use serde_ignored::Path as FieldPath;
use serde_json::Value;
use serde_saphyr::UserMessageFormatter;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

const FAULT_LIMIT: usize = 200;

/// Something to say about a place of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; absent if it concerns the file as a whole.
    pub line: Option<u64>,
    /// Name of the `MiniCluster`, if the document has got as far as having one.
    pub name: Option<String>,
    /// What there is to say, beginning with the path of the field.
    pub message: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(formatter, "{line}:")?;
        }
        if let Some(name) = &self.name {
            write!(formatter, " {name}:")?;
        }
        write!(formatter, " {}", self.message)
    }
}

/// What was found in one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// The file.
    pub file: PathBuf,
    /// How many `MiniCluster` objects were checked.
    pub checked: usize,
    /// Every fault of every one of them.
    pub faults: Vec<Remark>,
    /// What is no fault, and worth knowing.
    pub notes: Vec<Remark>,
}

impl Findings {
    fn of(file: &Path) -> Self {
        Self { file: file.to_owned(), ..Self::default() }
    }

    fn add_fault(&mut self, line: Option<u64>, name: Option<&str>, message: impl Into<String>) {
        let (file, name) = (self.file.clone(), name.map(str::to_owned));
        self.faults.push(Remark { file, line, name, message: message.into() });
    }

    /// Adds what there is to say about the object in `node`, in the order of the lines.
    fn add(&mut self, node: &Node, name: Option<&str>, faults: &[Violation], notes: &[Violation]) {
        let remark = |said: &Violation, kind: &str| {
            let message =
                if said.path.is_empty() { said.message.clone() } else { said.to_string() };
            let (file, name) = (self.file.clone(), name.map(str::to_owned));
            let line = Some(node.line_of(&said.path));
            Remark { file, line, name, message: format!("{kind}{message}") }
        };
        let first = faults.iter().take(FAULT_LIMIT);
        let mut placed: Vec<Remark> = first.map(|fault| remark(fault, "")).collect();
        placed.sort_by_key(|fault| fault.line);
        let notes: Vec<Remark> = notes.iter().map(|note| remark(note, "note: ")).collect();
        self.faults.extend(placed);
        self.notes.extend(notes);
        if let left_out @ 1.. = faults.len().saturating_sub(FAULT_LIMIT) {
            self.add_fault(None, name, format!("{left_out} further faults"));
        }
    }
}

/// Checks `MiniCluster` objects as the API server and the operator do.
pub struct Checker {
    defaults: Defaults,
}

impl Checker {
    /// A checker for an operator with these `defaults`.
    pub const fn new(defaults: Defaults) -> Self {
        Self { defaults }
    }

    /// Checks what an argument names: a file, the files directly in a directory, or `standard_input`.
    /// An argument without any `MiniCluster` is a fault, because it was asked for.
    pub fn check(
        &self,
        argument: &Path,
        standard_input: &mut dyn Read,
    ) -> anyhow::Result<Vec<Findings>> {
        let mut all = Vec::new();
        for path in source::paths(argument)? {
            let (path, text) = source::text(&path, standard_input)?;
            all.push(self.findings(&path, &text));
        }
        all.retain(|findings| findings.checked > 0 || !findings.faults.is_empty());
        if all.is_empty() {
            let mut nothing = Findings::of(argument);
            nothing.add_fault(None, None, "no MiniCluster in here");
            all.push(nothing);
        }
        Ok(all)
    }

    /// Checks every MiniCluster in the text of `file`. Other kinds are passed over.
    pub fn findings(&self, file: &Path, text: &str) -> Findings {
        let mut findings = Findings::of(file);
        let documents = match documents(text) {
            Ok(documents) => documents,
            Err(error) => {
                let line = error.location().map(|location| location.line());
                findings.add_fault(line, None, error.render_with_formatter(&UserMessageFormatter));
                return findings;
            }
        };
        for node in documents.into_iter().flat_map(Node::unpacked) {
            let document = node.value();
            match document["kind"].as_str() {
                Some(kind) if kind.eq_ignore_ascii_case(&MiniCluster::kind(&())) => {
                    findings.checked += 1;
                    let (faults, notes) = self.remarks(&document);
                    let name = document["metadata"]["name"].as_str();
                    findings.add(&node, name, &faults, &notes);
                }
                Some(_) => {}
                None => {
                    let message = "kind: missing: every object has apiVersion and kind";
                    findings.add_fault(Some(node.line_of("")), None, message);
                }
            }
        }
        findings
    }

    fn remarks(&self, document: &Value) -> (Vec<Violation>, Vec<Violation>) {
        let mut faults = Violations::default();
        check_identity(document, &mut faults);
        let mut notes = Violations::default();
        let Some(mut object) = read(document, &mut faults) else {
            notes.add("", "the other rules are checked when this can be read");
            return (faults.0, notes.0);
        };
        let metadata = &mut object.metadata;
        if let (None, Some(prefix)) = (&metadata.name, &metadata.generate_name) {
            // As the API server would fill it in.
            metadata.name = Some(format!("{prefix}xxxxx"));
        }
        match validate(&object, &self.defaults) {
            Ok(cluster) => {
                cluster.not_acted_on.into_iter().for_each(|path| notes.add(path, "not acted on"));
            }
            Err(violations) => faults.0.extend(violations.0),
        }
        (faults.0, notes.0)
    }
}

/// The object in `document`. A value that cannot be read and a field that does not exist are faults.
fn read(document: &Value, faults: &mut Violations) -> Option<MiniCluster> {
    let mut track = serde_path_to_error::Track::new();
    let deserializer = serde_path_to_error::Deserializer::new(document, &mut track);
    let object = serde_ignored::deserialize(deserializer, |path| {
        let path = field_path(&path);
        // The type has no fields for what names it; these are checked by themselves.
        if path != "apiVersion" && path != "kind" {
            faults.add(path, "no such field: remove it, or correct its name and place");
        }
    });
    object.map_err(|error| faults.add(track.path().to_string(), error.to_string())).ok()
}

fn field_path(path: &FieldPath<'_>) -> String {
    match path {
        FieldPath::Root => String::new(),
        FieldPath::Seq { parent, index } => format!("{}[{index}]", field_path(parent)),
        FieldPath::Map { parent: FieldPath::Root, key } => key.clone(),
        FieldPath::Map { parent, key } => format!("{}.{key}", field_path(parent)),
        FieldPath::Some { parent }
        | FieldPath::NewtypeStruct { parent }
        | FieldPath::NewtypeVariant { parent } => field_path(parent),
    }
}

/// What is wrong with `apiVersion` and `kind` of something called MiniCluster in some spelling.
fn check_identity(document: &Value, faults: &mut Violations) {
    for (field, expected) in
        [("apiVersion", MiniCluster::api_version(&())), ("kind", MiniCluster::kind(&()))]
    {
        match document[field].as_str() {
            Some(text) if text == expected => {}
            Some(text) => faults
                .add(field, format!("{text:?} is not what this operator serves: write {expected}")),
            None => faults.add(field, format!("missing: write {expected}")),
        }
    }
}

#[cfg(test)]
mod tests;
