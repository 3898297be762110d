//! The core of the agent is independent of its command line.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of what a run does in a pod.
const CORE: [&str; 8] = ["execute", "flux", "lead", "pid1", "plan", "process", "rc", "system"];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The files below `directory`, their tests left out, with their text.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            found.push((path, code.to_owned()));
        }
    }
    found
}

fn core() -> Vec<(PathBuf, String)> {
    CORE.map(|folder| files(&source().join(folder))).concat()
}

#[test]
fn no_file_of_the_core_imports_the_command_line() {
    let core = core();
    assert!(core.len() > 50, "only {} files", core.len());
    let imports = core.iter().filter(|(_, text)| text.contains("commands::"));
    let wrong: Vec<_> = imports.map(|(path, _)| path.display().to_string()).collect();
    assert_eq!(wrong, [""; 0]);
}

/// The path of each module in the crate, as imports have it.
fn module(path: &Path) -> String {
    let below = path.strip_prefix(source()).unwrap().with_extension("");
    let names: Vec<_> = below.iter().map(|name| name.to_string_lossy()).collect();
    names.join("::")
}

#[test]
fn no_two_files_of_the_core_import_each_other() {
    let files = core();
    let imports = |text: &str, of: &str| {
        text.match_indices(&format!("crate::{of}")).any(|(at, found)| {
            !text[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        })
    };
    let mut circles = Vec::new();
    for (position, (path, text)) in files.iter().enumerate() {
        for (other, other_text) in &files[..position] {
            if imports(text, &module(other)) && imports(other_text, &module(path)) {
                circles.push(format!("{} and {}", module(path), module(other)));
            }
        }
    }
    assert_eq!(circles, [""; 0]);
}
