//! Checks MiniCluster files as the API server and the operator would, for `flux-operator validate` and `kubectl flux`.

mod advice;
mod document;
mod hooks;
mod report;
mod source;

pub use hooks::not_carried_over;
pub use report::{exit_code, print};

use crate::cluster::validate::{Defaults, Violation, Violations, field_path, validate};
use crate::crd::MiniCluster;
use advice::advice;
use document::{Node, documents};
use kube::Resource as _;
use serde::Serialize;
use serde_json::Value;
use serde_saphyr::UserMessageFormatter;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

const FAULT_LIMIT: usize = 200;

/// The end of the note on a field without effect.
pub const NOT_ACTED_ON: &str = "not acted on";

/// A remark about a place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; absent for a remark about the whole file.
    pub line: Option<u64>,
    /// Name of the `MiniCluster`, if it has one.
    pub name: Option<String>,
    /// Path of the field; empty for a remark about no field.
    pub path: String,
    /// The message, beginning with the path of the field.
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

/// The remarks about one file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Findings {
    /// The file.
    pub file: PathBuf,
    /// Number of `MiniCluster` objects that were checked.
    pub checked: usize,
    /// All faults.
    pub faults: Vec<Remark>,
    /// Fields without effect.
    pub notes: Vec<Remark>,
    /// Valid parts that are probably unintended.
    pub warnings: Vec<Remark>,
}

impl Findings {
    fn of(file: &Path) -> Self {
        Self { file: file.to_owned(), ..Self::default() }
    }

    fn add_fault(&mut self, line: Option<u64>, name: Option<&str>, message: impl Into<String>) {
        let (file, name, path) = (self.file.clone(), name.map(str::to_owned), String::new());
        self.faults.push(Remark { file, line, name, path, message: message.into() });
    }

    /// Adds the remarks about the object in `node`, in the order of their lines.
    fn add(&mut self, node: &Node, name: Option<&str>, found: &Remarks) {
        let Remarks { faults, notes, warnings, .. } = found;
        let remark = |it: &Violation, kind: &str| {
            let message = if it.path.is_empty() { it.message.clone() } else { it.to_string() };
            let (file, name) = (self.file.clone(), name.map(str::to_owned));
            let (line, path) = (Some(node.line_of(&it.path)), it.path.clone());
            Remark { file, line, name, path, message: format!("{kind}{message}") }
        };
        let first = faults.iter().take(FAULT_LIMIT);
        let mut placed: Vec<Remark> = first.map(|fault| remark(fault, "")).collect();
        placed.sort_by_key(|fault| fault.line);
        let notes: Vec<Remark> = notes.iter().map(|note| remark(note, "note: ")).collect();
        self.faults.extend(placed);
        self.warnings.extend(warnings.iter().map(|it| remark(it, "warning: ")));
        self.notes.extend(notes);
        if let left_out @ 1.. = faults.len().saturating_sub(FAULT_LIMIT) {
            self.add_fault(None, name, format!("{left_out} further faults"));
        }
    }
}

/// One document of a file.
#[derive(Debug, Clone)]
pub struct Document {
    node: Node,
    /// The document as the API server would receive it.
    pub value: Value,
    /// The remarks; only MiniClusters are checked.
    pub findings: Findings,
    /// The MiniCluster, if the document is one and can be parsed.
    pub object: Option<MiniCluster>,
}

impl Document {
    /// True for a MiniCluster, in any spelling of the kind.
    pub const fn is_checked(&self) -> bool {
        self.findings.checked > 0
    }

    /// The line of the field at `path`, or of the innermost existing field around it.
    pub fn line_of(&self, path: &str) -> u64 {
        self.node.line_of(path)
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

    /// Checks all arguments in order; one that cannot be read does not stop the others.
    pub fn check_all(
        &self,
        arguments: &[PathBuf],
        standard_input: &mut dyn Read,
    ) -> Vec<anyhow::Result<Findings>> {
        let mut all = Vec::new();
        for argument in arguments {
            match self.check(argument, standard_input) {
                Ok(findings) => all.extend(findings.into_iter().map(Ok)),
                Err(error) => all.push(Err(error)),
            }
        }
        all
    }

    /// Checks a file, the files directly in a directory, or `standard_input`. Without a `MiniCluster` it is a fault.
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
            all.push(nothing_in(argument));
        }
        Ok(all)
    }

    /// All documents of an argument, of any kind, or the faults for which they cannot be parsed.
    pub fn documents_of(
        &self,
        argument: &Path,
        standard_input: &mut dyn Read,
    ) -> anyhow::Result<Result<Vec<Document>, Findings>> {
        let mut all = Vec::new();
        for path in source::paths(argument)? {
            let (path, text) = source::text(&path, standard_input)?;
            match self.documents(&path, &text) {
                Ok(documents) => all.extend(documents),
                Err(findings) => return Ok(Err(findings)),
            }
        }
        let none = !all.iter().any(|it| it.is_checked() || !it.findings.faults.is_empty());
        Ok(if none { Err(nothing_in(argument)) } else { Ok(all) })
    }

    /// Checks every MiniCluster in the text of `file`, and skips other kinds.
    pub fn findings(&self, file: &Path, text: &str) -> Findings {
        let documents = match self.documents(file, text) {
            Ok(documents) => documents,
            Err(findings) => return findings,
        };
        let mut all = Findings::of(file);
        for Document { findings, .. } in documents {
            all.checked += findings.checked;
            all.faults.extend(findings.faults);
            all.notes.extend(findings.notes);
            all.warnings.extend(findings.warnings);
        }
        all
    }

    /// The documents in the text of `file`, each with its remarks. Invalid YAML is one fault.
    pub fn documents(&self, file: &Path, text: &str) -> Result<Vec<Document>, Findings> {
        let documents = documents(text).map_err(|error| {
            let mut findings = Findings::of(file);
            let line = error.location().map(|location| location.line());
            findings.add_fault(line, None, error.render_with_formatter(&UserMessageFormatter));
            findings
        })?;
        let nodes = documents.into_iter().flat_map(Node::unpacked);
        Ok(nodes.map(|node| self.document(file, node)).collect())
    }

    fn document(&self, file: &Path, node: Node) -> Document {
        let (value, mut findings, mut object) = (node.value(), Findings::of(file), None);
        match value["kind"].as_str() {
            Some(kind) if kind.eq_ignore_ascii_case(&MiniCluster::kind(&())) => {
                findings.checked = 1;
                let found = self.remarks(&value);
                findings.add(&node, value["metadata"]["name"].as_str(), &found);
                object = found.object;
            }
            Some(_) => {}
            None => {
                let message = "kind: missing: every object has apiVersion and kind";
                findings.add_fault(Some(node.line_of("")), None, message);
            }
        }
        Document { node, value, findings, object }
    }

    fn remarks(&self, document: &Value) -> Remarks {
        let mut faults = Violations::default();
        check_identity(document, &mut faults);
        let mut notes = Violations::default();
        let Some(mut object) = read(document, &mut faults) else {
            notes.add("", "the other rules are checked when this can be read");
            return Remarks {
                faults: faults.0,
                notes: notes.0,
                warnings: Vec::new(),
                object: None,
            };
        };
        let metadata = &mut object.metadata;
        if let (None, Some(prefix)) = (&metadata.name, &metadata.generate_name) {
            // The API server would generate such a name.
            metadata.name = Some(format!("{prefix}xxxxx"));
        }
        match validate(&object, &self.defaults) {
            Ok(cluster) => {
                cluster.not_acted_on.into_iter().for_each(|path| notes.add(path, NOT_ACTED_ON));
                for (path, message) in not_carried_over(&document["spec"]) {
                    notes.add(path, message);
                }
            }
            Err(violations) => faults.0.extend(violations.0),
        }
        let warnings = advice(&object.spec);
        Remarks { faults: faults.0, notes: notes.0, warnings, object: Some(object) }
    }
}

struct Remarks {
    faults: Vec<Violation>,
    notes: Vec<Violation>,
    warnings: Vec<Violation>,
    object: Option<MiniCluster>,
}

fn nothing_in(argument: &Path) -> Findings {
    let mut nothing = Findings::of(argument);
    nothing.add_fault(None, None, "no MiniCluster in here");
    nothing
}

/// The object in `document`. Values that cannot be parsed and unknown fields are faults.
fn read(document: &Value, faults: &mut Violations) -> Option<MiniCluster> {
    let mut track = serde_path_to_error::Track::new();
    let deserializer = serde_path_to_error::Deserializer::new(document, &mut track);
    let object = serde_ignored::deserialize(deserializer, |path| {
        let path = field_path(&path);
        // The Rust type has no fields `apiVersion` and `kind`, which are checked separately.
        if path != "apiVersion" && path != "kind" {
            faults.add(path, "no such field: remove it, or correct its name and place");
        }
    });
    object.map_err(|error| faults.add(track.path().to_string(), error.to_string())).ok()
}

/// Checks `apiVersion` and `kind` of a MiniCluster in any spelling.
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
