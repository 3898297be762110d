//! `flux-operator validate`: the checks of the API server and of the operator, without either.

mod document;
mod schema;
mod source;

pub use source::{ReadError, check};

use crate::cluster::{Defaults, validate};
use crate::crd::{DefinitionError, MiniCluster};
use document::{Node, documents};
use kube::Resource as _;
use schema::FaultKind;
use serde_json::Value;
use serde_saphyr::UserMessageFormatter;
use std::fmt;
use std::path::{Path, PathBuf};

/// Most faults of one document that are reported.
const FAULT_LIMIT: usize = 200;

/// Something to say about a place of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; absent if it concerns the file as a whole.
    pub line: Option<u64>,
    /// Name of the MiniCluster, if the document has got as far as having one.
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
    /// How many MiniClusters were checked.
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
}

/// Checks every MiniCluster in the text of `file`. Other kinds are passed over.
///
/// # Errors
/// If there is no definition to compare with, which is a mistake in this program.
pub fn findings(
    file: &Path,
    text: &str,
    defaults: &Defaults,
) -> Result<Findings, DefinitionError> {
    let mut findings = Findings::of(file);
    let schema = schema::schema()?;
    let documents = match documents(text) {
        Ok(documents) => documents,
        Err(error) => {
            let line = error.location().map(|location| location.line());
            findings.add_fault(line, None, error.render_with_formatter(&UserMessageFormatter));
            return Ok(findings);
        }
    };
    for node in documents.into_iter().flat_map(Node::unpacked) {
        let document = node.value();
        match kind(&document) {
            Kind::MiniCluster => {}
            Kind::Other => continue,
            Kind::Missing => {
                findings.add_fault(
                    Some(node.line_of("")),
                    None,
                    "kind: missing: every object has apiVersion and kind",
                );
                continue;
            }
        }
        findings.checked += 1;
        add_remarks(&mut findings, &node, &remarks(&schema, &document, defaults), &document);
    }
    Ok(findings)
}

/// Which kind of object a document is.
enum Kind {
    MiniCluster,
    Other,
    Missing,
}

fn kind(document: &Value) -> Kind {
    match document["kind"].as_str() {
        Some(kind) if kind.eq_ignore_ascii_case(&MiniCluster::kind(&())) => Kind::MiniCluster,
        Some(_) => Kind::Other,
        None => Kind::Missing,
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
    let noted = |note| {
        let remark = placed(note);
        Remark { message: format!("note: {}", remark.message), ..remark }
    };
    let left_out = remarks.faults.len().saturating_sub(FAULT_LIMIT);
    let mut faults: Vec<Remark> = remarks.faults.iter().take(FAULT_LIMIT).map(placed).collect();
    let notes: Vec<Remark> = remarks.notes.iter().map(noted).collect();
    faults.sort_by_key(|fault| fault.line);
    findings.faults.extend(faults);
    findings.notes.extend(notes);
    if left_out > 0 {
        findings.add_fault(None, name, format!("{left_out} further faults"));
    }
}

fn remarks(schema: &Value, document: &Value, defaults: &Defaults) -> Remarks {
    let mut remarks = Remarks { faults: identity_faults(document), ..Remarks::default() };
    let (limits, other): (Vec<_>, Vec<_>) = schema::faults(schema, document)
        .into_iter()
        .partition(|fault| fault.kind == FaultKind::Limit);
    let is_readable = other.iter().all(|fault| fault.kind == FaultKind::Unknown);
    remarks.faults.extend(other.into_iter().map(|fault| (fault.path, fault.message)));
    let mut object = None;
    if is_readable {
        match serde_json::from_value::<MiniCluster>(document.clone()) {
            Ok(read) => object = Some(as_stored(read)),
            Err(error) => remarks.faults.push((String::new(), error.to_string())),
        }
    } else {
        let note = "the rules that need every value are checked when the faults above are mended";
        remarks.notes.push((String::new(), note.to_owned()));
    }
    if let Some(object) = &object {
        add_rules(&mut remarks, object, defaults);
    }
    // The operator's own rules repeat the limits, and say more.
    for limit in limits {
        if !remarks.faults.iter().any(|(path, _)| *path == limit.path) {
            remarks.faults.push((limit.path, limit.message));
        }
    }
    if let Some(object) = object.filter(|_| remarks.faults.is_empty())
        && let Err(errors) = object.validate_cel()
    {
        remarks.faults.extend(errors.into_iter().map(|error| (error.field_path, error.message)));
    }
    remarks
}

/// The operator's own rules.
fn add_rules(remarks: &mut Remarks, object: &MiniCluster, defaults: &Defaults) {
    match validate(object, defaults) {
        Ok(cluster) => {
            remarks.notes.extend(cluster.not_acted_on.iter().map(|said| {
                let (path, detail) = said.split_once(' ').unwrap_or((said, ""));
                (path.to_owned(), format!("not acted on {detail}").trim_end().to_owned())
            }));
        }
        Err(violations) => {
            let faults = violations.0.into_iter();
            remarks.faults.extend(faults.map(|fault| (fault.path, fault.message)));
        }
    }
}

/// What is wrong with `apiVersion` and `kind` of something called MiniCluster in some spelling.
fn identity_faults(document: &Value) -> Vec<(String, String)> {
    let expected = [
        ("apiVersion", MiniCluster::api_version(&())),
        ("kind", MiniCluster::kind(&())),
    ];
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
    metadata.uid.get_or_insert_with(|| "00000000-0000-0000-0000-000000000000".to_owned());
    metadata.namespace.get_or_insert_with(|| "default".to_owned());
    if let (None, Some(prefix)) = (&metadata.name, &metadata.generate_name) {
        metadata.name = Some(format!("{prefix}xxxxx"));
    }
    object
}

#[cfg(test)]
mod tests;
