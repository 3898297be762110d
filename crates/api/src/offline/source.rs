//! Reads the texts to be checked from files, directories and the standard input.

use anyhow::{Context as _, Result, ensure};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Largest file that is read, in bytes: several objects of 3 MiB (the API server's `MaxRequestBodyBytes`).
const FILE_SIZE_LIMIT: u64 = 16 << 20;

const STANDARD_INPUT: &str = "-";

/// Extensions of the files that are read in a directory, as by kubectl.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// The paths of an argument: a file, the files directly in a directory, or the standard input.
pub(super) fn paths(argument: &Path) -> Result<Vec<PathBuf>> {
    if argument != Path::new(STANDARD_INPUT) && argument.is_dir() {
        files(argument).with_context(|| reading(argument))
    } else {
        Ok(vec![argument.to_owned()])
    }
}

/// The text at `path`, or of `standard_input`, with the name for messages.
pub(super) fn text(path: &Path, standard_input: &mut dyn Read) -> Result<(PathBuf, String)> {
    let mut file;
    let (shown, reader): (_, &mut dyn Read) = if path == Path::new(STANDARD_INPUT) {
        (Path::new("standard input"), standard_input)
    } else {
        file = File::open(path).with_context(|| reading(path))?;
        (path, &mut file)
    };
    let mut text = String::new();
    let length = reader.take(FILE_SIZE_LIMIT + 1).read_to_string(&mut text);
    let length = length.with_context(|| reading(shown))?;
    ensure!(
        u64::try_from(length).is_ok_and(|length| length <= FILE_SIZE_LIMIT),
        "{}: larger than {} MiB: give a file with MiniClusters",
        reading(shown),
        FILE_SIZE_LIMIT >> 20
    );
    Ok((shown.to_owned(), text))
}

fn reading(path: &Path) -> String {
    format!("read {}", path.display())
}

/// The files in a directory that may hold objects, in the order of their names.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) && !path.is_dir() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
