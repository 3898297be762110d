//! `flux-agent keygen`: creates CURVE certificates.

use crate::failure::{Failure, Result};
use crate::system::files;
use crate::system::output::{chain, print_text};
use clap::Args;
use flux_contract::Exit;
use flux_protocol::CurveCertificate;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Keygen {
    /// Where to write it, mode 0600; standard output if not given
    path: Option<PathBuf>,
    /// Name in its metadata
    #[arg(long, default_value = "flux")]
    name: String,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(Keygen { path, name, force }: &Keygen) -> Result<()> {
    let failed = |text: String| Failure::new(Exit::Prepare, text);
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| failed(format!("could not get random bytes for a CURVE key: {error}")))?;
    let certificate = CurveCertificate::new(name, secret).map_err(|error| {
        failed(format!("could not make a CURVE certificate named {name:?}: {}", chain(&error)))
    })?;
    let Some(path) = path else {
        print_text(certificate.to_text().expose());
        return Ok(());
    };
    write(path, &certificate, *force).map_err(|error| {
        let path = path.display();
        failed(if error.kind() == io::ErrorKind::AlreadyExists {
            format!("{path} exists already and may hold a key in use; pass --force to replace it")
        } else {
            format!("could not write the CURVE certificate to {path}: {error}")
        })
    })
}

/// Writes `certificate` to `path` with mode 0600: Flux refuses one that its group or others can read. With `force` an
/// existing file is replaced in one step, so that a reader sees either the old or the new certificate.
fn write(path: &Path, certificate: &CurveCertificate, force: bool) -> io::Result<()> {
    let text = certificate.to_text();
    let fill = |file: &mut File| {
        file.write_all(text.expose().as_bytes())?;
        // The certificate has to survive a crash.
        file.sync_all()
    };
    let make = if force { files::replace } else { files::create };
    make(path, 0o600, None, fill).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_force_replaces_a_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("curve.cert");
        let read = || CurveCertificate::parse(&fs::read_to_string(&path).unwrap()).unwrap();
        let make = |force| {
            let keygen = Keygen { path: Some(path.clone()), name: "hello-0".to_owned(), force };
            run(&keygen).map_err(|error| error.to_string())
        };
        make(false).unwrap();
        let first = read();
        let refused = make(false).unwrap_err();
        assert!(refused.contains("pass --force to replace it"));
        assert_eq!(read(), first);
        make(true).unwrap();
        assert_ne!(read().public_key(), first.public_key());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no leftovers");
    }
}
