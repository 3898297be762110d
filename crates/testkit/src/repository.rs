//! The files of this repository.

use std::path::{Path, PathBuf};

pub fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// All files below `directory` whose names end like this.
pub fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let found = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => files(&path, extension),
        Some(it) if it == extension => vec![path],
        _ => vec![],
    };
    entries.flat_map(found).collect()
}

/// The text of every Rust file below `directories` of this repository.
pub fn sources(directories: &[&str]) -> String {
    let all = directories.iter().flat_map(|directory| files(&in_repository(directory), "rs"));
    all.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}
