//! `migrate`: converts a file for the operator in Go into one for this operator. `docs/compatibility.md` lists the
//! differences.

mod correct;
mod differences;

use crate::commands::validate::checker;
use crate::output::{print, print_remarks};
use anyhow::{Context as _, Result};
use clap::{Args, ValueHint};
use correct::{correct, remove};
use differences::{FieldNote, differences};
use flux_api::offline::{Checker, Document, Findings, NOT_ACTED_ON, Remark, not_carried_over};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::stdin;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(
    after_help = "Prints the new file, without the comments of the old one, and all changes on standard error. Ends with 1 \
if you have to correct something by hand: a comment in the new file names it."
)]
pub(crate) struct Migrate {
    /// YAML or JSON file for the operator in Go, or - for standard input; objects of other kinds are kept
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

#[derive(Debug, Default)]
struct Migrated {
    text: String,
    remarks: Vec<Remark>,
    is_right: bool,
}

impl Migrate {
    pub(crate) fn execute(&self) -> Result<ExitCode> {
        let checker = checker();
        let documents = match checker.documents_of(&self.file, &mut stdin())? {
            Ok(documents) => documents,
            Err(Findings { faults, .. }) => {
                print_remarks(&faults);
                return Ok(ExitCode::FAILURE);
            }
        };
        let all: Result<Vec<_>> = documents.iter().map(|it| migrated(&checker, it)).collect();
        let all = all?;
        for migrated in &all {
            print_remarks(&migrated.remarks);
        }
        let texts: Vec<&str> = all.iter().map(|migrated| migrated.text.as_str()).collect();
        print(&texts.join("---\n"));
        let is_right = all.iter().all(|migrated| migrated.is_right);
        Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn migrated(checker: &Checker, document: &Document) -> Result<Migrated> {
    let mut value = document.value.clone();
    if !document.is_checked() {
        let remarks = document.findings.faults.clone();
        return Ok(Migrated { text: yaml(&value)?, is_right: remarks.is_empty(), remarks });
    }
    let corrected = correct(&mut value);
    let found = findings(checker, document, &value)?;
    let mut removed = Vec::new();
    for note in found.notes.iter().filter(|note| note.message.ends_with(NOT_ACTED_ON)) {
        if remove(&mut value, &note.path) {
            removed.push((note.path.clone(), "has no effect".to_owned()));
        }
    }
    let remaining = findings(checker, document, &value)?.faults;
    let refused = document.findings.faults.iter().map(|fault| {
        let message = format!("refused: {}", fault.message);
        Remark { message, ..fault.clone() }
    });
    let mut remarks: Vec<Remark> = refused.chain(document.findings.warnings.clone()).collect();
    for (kind, all) in [
        ("corrected", corrected),
        ("removed", removed),
        ("differs", differences(&document.value["spec"])),
        ("differs", not_carried_over(&document.value["spec"])),
    ] {
        remarks.extend(all.iter().map(|note| remark(document, kind, note)));
    }
    let text = format!("{}{}", by_hand(&remaining), yaml(&value)?);
    Ok(Migrated { text, remarks, is_right: remaining.is_empty() })
}

fn findings(checker: &Checker, document: &Document, value: &Value) -> Result<Findings> {
    Ok(checker.findings(&document.findings.file, &yaml(value)?))
}

fn yaml(value: &Value) -> Result<String> {
    serde_saphyr::to_string(value).context("write YAML")
}

fn remark(document: &Document, kind: &str, (path, message): &FieldNote) -> Remark {
    Remark {
        file: document.findings.file.clone(),
        line: Some(document.line_of(path)),
        name: document.value["metadata"]["name"].as_str().map(str::to_owned),
        path: path.clone(),
        message: format!("{kind}: {path}: {message}"),
    }
}

fn by_hand(faults: &[Remark]) -> String {
    if faults.is_empty() {
        return String::new();
    }
    let mut comment = "# Correct these by hand:\n".to_owned();
    for line in faults.iter().flat_map(|fault| fault.message.lines()) {
        let _ = writeln!(comment, "# {line}");
    }
    comment
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn migrate(text: &str) -> Vec<Migrated> {
        let checker = checker();
        let documents = checker.documents(Path::new("old.yaml"), text).unwrap();
        documents.iter().map(|document| migrated(&checker, document).unwrap()).collect()
    }

    fn shown(all: &[Migrated]) -> String {
        let remarks = all.iter().flat_map(|it| &it.remarks).map(|it| format!("{it}\n"));
        let texts = all.iter().map(|it| format!("right: {}\n{}", it.is_right, it.text));
        format!("{}\n{}", remarks.collect::<String>(), texts.collect::<String>())
    }

    #[test]
    fn files_for_the_operator_in_go_are_corrected() {
        let text = include_str!("tests/old.yaml");
        insta::assert_snapshot!(shown(&migrate(text)));
    }

    #[test]
    fn faults_without_a_correction_are_named_above() {
        let text = include_str!("tests/wrong.yaml");
        insta::assert_snapshot!(shown(&migrate(text)));
    }

    #[test]
    fn valid_files_stay_the_same() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
        let mut count = 0;
        for directory in examples.read_dir().unwrap() {
            let file = directory.unwrap().path().join("minicluster.yaml");
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            let old = checker().documents(Path::new("old"), &text).unwrap();
            for (old, new) in old.iter().zip(&migrate(&text)) {
                let new_value = checker().documents(Path::new("new"), &new.text).unwrap().remove(0);
                assert_eq!(old.value, new_value.value, "{}", file.display());
                assert!(new.is_right, "{}", file.display());
                count += 1;
            }
        }
        assert!(count > 20, "{count}");
    }
}
