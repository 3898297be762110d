//! `flux-operator validate`: the checks of the API server and of the operator, without either.

mod document;
mod schema;
mod source;

pub use source::ReadError;

use crate::cluster::validate::{Defaults, validate};
use crate::crd::MiniCluster;
use crate::crd::definition::DefinitionError;
use document::{Node, documents};
use kube::Resource as _;
use kube::core::cel::{CompiledSchema, compile_schema, validate_compiled};
use schema::FaultKind;
use serde_json::Value;
use serde_saphyr::UserMessageFormatter;
use std::fmt;
use std::io::Read;
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
}

/// Checks `MiniCluster` objects against the definition that is installed and the operator's own rules.
pub struct Checker {
    schema: Value,
    /// The CEL rules in the definition.
    rules: CompiledSchema,
    defaults: Defaults,
}

impl Checker {
    /// A checker for an operator with these `defaults`.
    ///
    /// # Errors
    /// If the definition cannot be written down, which is a mistake in this program.
    pub fn new(defaults: Defaults) -> Result<Self, DefinitionError> {
        let schema = schema::schema()?;
        Ok(Self { rules: compile_schema(&schema), schema, defaults })
    }

    /// Checks what an argument names: a file, the files directly in a directory, or `standard_input`.
    /// An argument without any `MiniCluster` is a fault, because it was asked for.
    pub fn check(
        &self,
        argument: &Path,
        standard_input: &mut dyn Read,
    ) -> Result<Vec<Findings>, ReadError> {
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
            match kind(&document) {
                Kind::MiniCluster => {
                    findings.checked += 1;
                    add_remarks(&mut findings, &node, &self.remarks(&document), &document);
                }
                Kind::Other => {}
                Kind::Missing => {
                    let message = "kind: missing: every object has apiVersion and kind";
                    findings.add_fault(Some(node.line_of("")), None, message);
                }
            }
        }
        findings
    }

    fn remarks(&self, document: &Value) -> Remarks {
        let mut remarks = Remarks { faults: identity_faults(document), ..Remarks::default() };
        let (limits, other): (Vec<_>, Vec<_>) = schema::faults(&self.schema, document)
            .into_iter()
            .partition(|fault| fault.kind == FaultKind::Limit);
        let is_readable = other.iter().all(|fault| fault.kind == FaultKind::Unknown);
        remarks.faults.extend(other.into_iter().map(|fault| (fault.path, fault.message)));
        let object = is_readable.then(|| read(document, &mut remarks)).flatten();
        if let Some(object) = &object {
            self.add_own_rules(&mut remarks, object);
        }
        if !is_readable {
            let note = "the rules that need every value are checked when this is mended";
            remarks.notes.push((String::new(), note.to_owned()));
        }
        // The operator's own rules repeat the limits and the rules of the definition, and say more.
        for limit in limits {
            if !remarks.faults.iter().any(|(path, _)| *path == limit.path) {
                remarks.faults.push((limit.path, limit.message));
            }
        }
        if let Some(object) = object.filter(|_| remarks.faults.is_empty()) {
            self.add_rules_of_the_definition(&mut remarks, &object);
        }
        remarks
    }

    fn add_own_rules(&self, remarks: &mut Remarks, object: &MiniCluster) {
        match validate(object, &self.defaults) {
            Ok(cluster) => remarks.notes.extend(cluster.not_acted_on.iter().map(|said| {
                let (path, detail) = said.split_once(' ').unwrap_or((said, ""));
                (path.to_owned(), format!("not acted on {detail}").trim_end().to_owned())
            })),
            Err(violations) => {
                let faults = violations.0.into_iter();
                remarks.faults.extend(faults.map(|fault| (fault.path, fault.message)));
            }
        }
    }

    fn add_rules_of_the_definition(&self, remarks: &mut Remarks, object: &MiniCluster) {
        // It was read from such a value.
        let value = serde_json::to_value(object).unwrap_or_default();
        if let Err(errors) = validate_compiled(&self.rules, &value, None) {
            let faults = errors.into_iter().map(|error| (error.field_path, error.message));
            remarks.faults.extend(faults);
        }
    }
}

/// The object, as it would be stored. That the definition allows what the types cannot read is a fault
/// all the same.
fn read(document: &Value, remarks: &mut Remarks) -> Option<MiniCluster> {
    match serde_json::from_value(document.clone()) {
        Ok(object) => Some(as_stored(object)),
        Err(error) => {
            remarks.faults.push((String::new(), error.to_string()));
            None
        }
    }
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
    metadata.uid.get_or_insert_with(|| "00000000-0000-0000-0000-000000000000".to_owned());
    metadata.namespace.get_or_insert_with(|| "default".to_owned());
    if let (None, Some(prefix)) = (&metadata.name, &metadata.generate_name) {
        metadata.name = Some(format!("{prefix}xxxxx"));
    }
    object
}

#[cfg(test)]
mod tests;
