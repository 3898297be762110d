//! `flux-agent keygen`: makes CURVE certificates.

use crate::commands::error::CommandError;
use crate::system::files::{self, Attributes};
use crate::system::output::print_text;
use flux_contract::{CertificateError, CurveCertificate, Exit};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why no certificate was made or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeygenError {
    /// The kernel gave no random bytes.
    #[error("could not get random bytes for a CURVE key: {cause}")]
    Random { cause: getrandom::Error },
    /// The name cannot be written into a certificate.
    #[error("could not make a CURVE certificate named {name:?}")]
    Name {
        name: String,
        #[source]
        cause: CertificateError,
    },
    /// There is a file already.
    #[error("{} exists already and may hold a key in use; pass --force to replace it", path.display())]
    Exists { path: PathBuf },
    /// The file could not be written.
    #[error("could not write the CURVE certificate to {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

/// Makes a certificate and writes it to `path`, or prints it.
pub(crate) fn run(path: Option<&Path>, name: &str, force: bool) -> Result<(), CommandError> {
    let made = generate(name).and_then(|certificate| {
        if let Some(path) = path {
            return write(path, &certificate, force);
        }
        print_text(certificate.to_text().expose());
        Ok(())
    });
    made.map_err(|error| CommandError::new(Exit::Prepare, &error))
}

/// A new random certificate that carries `name` in its metadata (letters, digits, `-` and `.`).
pub(crate) fn generate(name: &str) -> Result<CurveCertificate, KeygenError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|cause| KeygenError::Random { cause })?;
    CurveCertificate::new(name, secret)
        .map_err(|cause| KeygenError::Name { name: name.to_owned(), cause })
}

/// Writes `certificate` to `path` with mode 0600, as flux-keygen(1) does: Flux refuses a
/// certificate that its group or others can read.
///
/// An existing file is left alone unless `force` is set; then it is replaced in one step, so that
/// a reader sees either the old or the new certificate.
pub(crate) fn write(
    path: &Path,
    certificate: &CurveCertificate,
    force: bool,
) -> Result<(), KeygenError> {
    let attributes = Attributes { mode: 0o600, owner: None, durable: true };
    let text = certificate.to_text();
    let fill = |file: &mut File| file.write_all(text.expose().as_bytes());
    let written = if force {
        files::replace(path, attributes, fill)
    } else {
        files::create(path, attributes, fill)
    };
    written.map(drop).map_err(|cause| {
        if cause.kind() == io::ErrorKind::AlreadyExists {
            KeygenError::Exists { path: path.to_owned() }
        } else {
            KeygenError::Write { path: path.to_owned(), cause }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_generated_certificate_reads_back_and_no_two_are_alike() {
        let certificate = generate("hello-0").unwrap();
        let text = certificate.to_text();
        assert_eq!(CurveCertificate::parse(text.expose()).unwrap(), certificate);
        assert_ne!(generate("hello-0").unwrap().public_key(), certificate.public_key());
    }

    #[test]
    fn a_name_that_flux_cannot_read_is_refused() {
        assert!(matches!(generate("a_b"), Err(KeygenError::Name { .. })));
    }

    #[test]
    fn the_file_is_readable_by_its_owner_only_and_not_overwritten_without_force() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("curve.cert");
        let (first, second) = (generate("a").unwrap(), generate("b").unwrap());
        write(&path, &first, false).unwrap();
        assert!(matches!(write(&path, &second, false), Err(KeygenError::Exists { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), *first.to_text().expose());
        write(&path, &second, true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), *second.to_text().expose());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no leftovers");
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = write(Path::new("/nonexistent/c"), &generate("a").unwrap(), false).unwrap_err();
        assert_eq!(error.to_string(), "could not write the CURVE certificate to /nonexistent/c");
    }
}
