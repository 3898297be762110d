//! `flux-operator validate`: the checks of the API server and of the operator, without either.

mod document;
mod source;

use crate::cluster::validate::{Defaults, validate};
use crate::crd::MiniCluster;
use document::{Node, documents};
use kube::Resource as _;
use serde_ignored::Path;
use serde_json::Value;
use serde_saphyr::UserMessageFormatter;
use std::fmt;
use std::io::Read;
use std::path::PathBuf;

/// Most faults of one document that are reported.
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
    fn of(file: &std::path::Path) -> Self {
        Self { file: file.to_owned(), ..Self::default() }
    }

    fn add_fault(&mut self, line: Option<u64>, name: Option<&str>, message: impl Into<String>) {
        let (file, name) = (self.file.clone(), name.map(str::to_owned));
        self.faults.push(Remark { file, line, name, message: message.into() });
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
        argument: &std::path::Path,
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
    pub fn findings(&self, file: &std::path::Path, text: &str) -> Findings {
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
                    add_remarks(&mut findings, &node, &self.remarks(&document), &document);
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

    fn remarks(&self, document: &Value) -> Remarks {
        let mut remarks = Remarks { faults: identity_faults(document), ..Remarks::default() };
        let Some(object) = read(document, &mut remarks) else {
            let note = "the other rules are checked when this can be read";
            remarks.notes.push((String::new(), note.to_owned()));
            return remarks;
        };
        match validate(&as_stored(object), &self.defaults) {
            Ok(cluster) => {
                let fields = cluster.not_acted_on.into_iter();
                remarks.notes.extend(fields.map(|path| (path, "not acted on".to_owned())));
            }
            Err(violations) => {
                let faults = violations.0.into_iter();
                remarks.faults.extend(faults.map(|fault| (fault.path, fault.message)));
            }
        }
        remarks
    }
}

/// The object in `document`. A value that cannot be read and a field that does not exist are faults.
fn read(document: &Value, remarks: &mut Remarks) -> Option<MiniCluster> {
    let mut track = serde_path_to_error::Track::new();
    let deserializer = serde_path_to_error::Deserializer::new(document, &mut track);
    let object = serde_ignored::deserialize(deserializer, |path| {
        let path = field_path(&path);
        // The type has no fields for what names it; these are checked by themselves.
        if path != "apiVersion" && path != "kind" {
            let message = "no such field: remove it, or correct its name and place";
            remarks.faults.push((path, message.to_owned()));
        }
    });
    object.map_err(|error| remarks.faults.push((track.path().to_string(), error.to_string()))).ok()
}

/// The path of a field, written as in `spec.containers[0].image`.
fn field_path(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", field_path(parent)),
        Path::Map { parent: Path::Root, key } => key.clone(),
        Path::Map { parent, key } => format!("{}.{key}", field_path(parent)),
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => field_path(parent),
    }
}

/// What there is to say about one document, as path and message.
#[derive(Debug, Default)]
struct Remarks {
    faults: Vec<(String, String)>,
    notes: Vec<(String, String)>,
}

/// Adds the remarks to `findings`, each once, in the order of their lines.
fn add_remarks(findings: &mut Findings, node: &Node, remarks: &Remarks, document: &Value) {
    let name = document["metadata"]["name"].as_str();
    let placed = |(path, message): &(String, String)| Remark {
        file: findings.file.clone(),
        line: Some(node.line_of(path)),
        name: name.map(str::to_owned),
        message: if path.is_empty() { message.clone() } else { format!("{path}: {message}") },
    };
    let as_note = |said| {
        let remark = placed(said);
        Remark { message: format!("note: {}", remark.message), ..remark }
    };
    let left_out = remarks.faults.len().saturating_sub(FAULT_LIMIT);
    let mut faults: Vec<Remark> = remarks.faults.iter().take(FAULT_LIMIT).map(placed).collect();
    let notes: Vec<Remark> = remarks.notes.iter().map(as_note).collect();
    faults.sort_by_key(|fault| fault.line);
    findings.faults.extend(faults);
    findings.notes.extend(notes);
    if left_out > 0 {
        findings.add_fault(None, name, format!("{left_out} further faults"));
    }
}

/// What is wrong with `apiVersion` and `kind` of something called MiniCluster in some spelling.
fn identity_faults(document: &Value) -> Vec<(String, String)> {
    let expected =
        [("apiVersion", MiniCluster::api_version(&())), ("kind", MiniCluster::kind(&()))];
    let wrong = expected.into_iter().filter(|(field, value)| document[field] != value.as_ref());
    let fault = |(field, value): (&str, _)| {
        let said = match document[field].as_str() {
            Some(text) => format!("{text:?} is not what this operator serves: write {value}"),
            None => format!("missing: write {value}"),
        };
        (field.to_owned(), said)
    };
    wrong.map(fault).collect()
}

/// The object with what the API server would have filled in.
fn as_stored(mut object: MiniCluster) -> MiniCluster {
    let metadata = &mut object.metadata;
    if let (None, Some(prefix)) = (&metadata.name, &metadata.generate_name) {
        metadata.name = Some(format!("{prefix}xxxxx"));
    }
    object
}

#[cfg(test)]
mod tests;
