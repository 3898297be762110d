//! A program with the shared libraries it needs, for an image that holds nothing else.

use super::layer::Source;
use crate::programs;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources for the program at `path` and for its libraries, each at the path where its loader looks for it.
/// A static program comes alone.
pub fn with_libraries(path: impl AsRef<Path>, program: &Path) -> Result<Vec<Source>> {
    let mut sources = vec![Source::file(path, program)];
    let printed = match programs::run(Command::new("ldd").arg(program).env("LC_ALL", "C")) {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) if error.to_string().contains("not a dynamic executable") => String::new(),
        Err(error) => return Err(error),
    };
    sources.extend(libraries(&printed).iter().map(|library| Source::file(library, library)));
    Ok(sources)
}

/// Reads the output of ldd: `NAME => PATH (ADDRESS)`, `PATH (ADDRESS)` for the loader, `NAME (ADDRESS)` for the part of
/// the kernel, and `statically linked`.
fn libraries(printed: &str) -> Vec<PathBuf> {
    printed.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}
