//! Where the texts to be checked come from: files, directories, the standard input.

use super::{Checker, Findings};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Largest file that is read, in bytes. The API server takes no object of more than 3 MiB
/// (`MaxRequestBodyBytes`); a file may have several.
const SIZE_LIMIT: u64 = 16 << 20;

/// The argument that stands for the standard input.
const STANDARD_INPUT: &str = "-";

/// Endings of the names of the files in a directory that are read, as kubectl does.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// Why something could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It is no file that a person has written.
    #[error("read {}: larger than {} MiB: give a file with MiniClusters", path.display(), SIZE_LIMIT >> 20)]
    TooLarge {
        /// What was to be read.
        path: PathBuf,
    },
}

impl Checker {
    /// Checks what an argument names: a file, the files directly in a directory, or `standard_input`.
    /// An argument without any `MiniCluster` is a fault, because it was asked for.
    pub fn check(
        &self,
        argument: &Path,
        standard_input: &mut dyn Read,
    ) -> Result<Vec<Findings>, ReadError> {
        let mut all = if argument == Path::new(STANDARD_INPUT) {
            vec![self.check_reader(Path::new("standard input"), standard_input)?]
        } else if argument.is_dir() {
            let paths = files(argument).map_err(|source| cannot_read(argument, source))?;
            paths.iter().map(|path| self.check_file(path)).collect::<Result<_, _>>()?
        } else {
            vec![self.check_file(argument)?]
        };
        all.retain(|findings| findings.checked > 0 || !findings.faults.is_empty());
        if all.is_empty() {
            let mut nothing = Findings::of(argument);
            nothing.add_fault(None, None, "no MiniCluster in here");
            all.push(nothing);
        }
        Ok(all)
    }

    fn check_file(&self, path: &Path) -> Result<Findings, ReadError> {
        let mut file = File::open(path).map_err(|source| cannot_read(path, source))?;
        self.check_reader(path, &mut file)
    }

    fn check_reader(&self, path: &Path, reader: &mut dyn Read) -> Result<Findings, ReadError> {
        let mut text = String::new();
        let limited = &mut reader.take(SIZE_LIMIT + 1);
        let length =
            limited.read_to_string(&mut text).map_err(|source| cannot_read(path, source))?;
        if u64::try_from(length).is_ok_and(|length| length > SIZE_LIMIT) {
            return Err(ReadError::TooLarge { path: path.to_owned() });
        }
        Ok(self.findings(path, &text))
    }
}

fn cannot_read(path: &Path, source: io::Error) -> ReadError {
    ReadError::Read { path: path.to_owned(), source }
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
