//! The state kept from one MiniCluster to the next.
//!
//! Flux restores its content from a file (`content.restore`) and, once its queue is stopped and
//! idle, dumps it to one (`content.dump`, flux-broker-attributes(7)); the dump is written in place,
//! so it goes to a directory of ours beside the archive. It takes the archive's name only when it
//! is whole: a dump that was cut off never replaces the state of before.

use crate::execute::context::Context;
use crate::execute::error::{StepError, failed};
use crate::pid1::ending::BrokerEnd;
use crate::plan::step::{ArchiveRun, Owner};
use crate::system::files;
use crate::system::output::chain;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Why the archive stays as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    #[error("keep archive {} as it was: the broker did not get as far as to run", path.display())]
    NeverRan { path: PathBuf },
    #[error("keep archive {} as it was: Flux dumped nothing to {}", path.display(), dump.display())]
    NoDump { path: PathBuf, dump: PathBuf },
    #[error("keep archive {} as it was: the dump is not whole", path.display())]
    NotWhole {
        path: PathBuf,
        #[source]
        source: WholeError,
    },
    #[error("put the dump in the place of archive {}", path.display())]
    Replace {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The options that `archive` adds to the broker's: restore what is there, dump where there is a
/// place for it.
pub(crate) fn options(archive: &ArchiveRun, exists: bool, has_place: bool) -> Vec<String> {
    let set = |name: &str, path: &Path| format!("-S{name}={}", path.display());
    let restore = exists.then(|| set("content.restore", &archive.path));
    let dump = has_place.then(|| set("content.dump", &archive.dump));
    restore.into_iter().chain(dump).collect()
}

/// Whether there is an archive to restore from. A place that cannot be looked at ends the run: Flux
/// would start without the state of before, and in the end put its own in that one's place.
pub(crate) fn exists(context: &Context, archive: &ArchiveRun) -> Result<bool, StepError> {
    let found = context.root.at(&archive.path).try_exists();
    found.map_err(failed("look for archive", &archive.path))
}

/// Makes the directory that the broker's user dumps into. On a volume that is read only there is none:
/// the run goes on and its state is not kept, which may be meant so. Any other place that takes no
/// files ends the run: better now than when there is a state to keep.
pub(crate) fn make_place(context: &Context, archive: &ArchiveRun) -> Result<bool, StepError> {
    let staging = context.root.at(&archive.staging);
    let made = files::remove_directory(&staging)
        .and_then(|()| files::make_directory(&staging, 0o700, context.ids(Owner::Broker)));
    match made {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
            let text = format!(
                "the state will not be kept in archive {}: {error}",
                archive.path.display()
            );
            context.log.warn(&text);
            context.progress.failed(&text);
            Ok(false)
        }
        Err(error) => {
            let doing = "make a place for the archive's next state,";
            Err(failed(doing, &archive.staging)(error))
        }
    }
}

/// Puts the dump in the archive's place if the instance `ran` and the dump is whole.
pub(crate) async fn keep(context: &Context, archive: &ArchiveRun, broker: BrokerEnd, ran: bool) {
    if !context.root.at(&archive.staging).is_dir() {
        // That it could not be made was said when the broker started.
        return;
    }
    let outcome = if ran {
        try_keep(context, archive, broker).await
    } else {
        Err(KeepError::NeverRan { path: archive.path.clone() })
    };
    match outcome {
        Ok(()) => context.log.info(&format!("the state is kept in {}", archive.path.display())),
        Err(error) => context.failed(&chain(&error)),
    }
    // What is left in it is of no use; that it stays is no harm.
    let _ = files::remove_directory(&context.root.at(&archive.staging));
}

async fn try_keep(
    context: &Context,
    archive: &ArchiveRun,
    broker: BrokerEnd,
) -> Result<(), KeepError> {
    // Large files are read and synchronised on threads of their own: signals and the status must
    // not wait for them.
    let (path, dump) = (context.root.at(&archive.path), context.root.at(&archive.dump));
    if files::open_regular(&dump).is_err() {
        return Err(KeepError::NoDump { path: archive.path.clone(), dump: archive.dump.clone() });
    }
    // 0 is the code of a broker whose every phase went well, the dump among them. Any other may
    // be that of a later phase.
    if broker.code != 0 {
        let checked = dump.clone();
        let whole = tokio::task::spawn_blocking(move || check_whole(&checked)).await;
        whole
            .unwrap_or_else(|error| Err(WholeError::Read(io::Error::other(error))))
            .map_err(|source| KeepError::NotWhole { path: archive.path.clone(), source })?;
    }
    let replaced = tokio::task::spawn_blocking(move || replace(&dump, &path)).await;
    replaced
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|source| KeepError::Replace { path: archive.path.clone(), source })
}

/// Under its own name the archive is on the disk, or it is the one of before.
fn replace(dump: &Path, path: &Path) -> io::Result<()> {
    files::open_regular(dump)?.sync_all()?;
    fs::rename(dump, path)?;
    let directory = path.parent().unwrap_or(path);
    File::open(directory)?.sync_all()
}

/// A tar archive ends with two blocks of zeros (POSIX.1-2024, pax, "ustar Interchange Format").
const END: usize = 1024;

/// Why a dump is not whole, or cannot be judged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WholeError {
    /// Or its compression is cut off or damaged.
    #[error("read it")]
    Read(#[source] io::Error),
    #[error("it lacks the end of a tar archive")]
    CutOff,
    #[error("the broker failed, and only archives in the formats tar and tar.gz can be checked")]
    UnknownFormat,
}

/// Checks that the tar archive at `path`, compressed by gzip or not, goes to its end. The checksum
/// of gzip is checked as well.
pub(crate) fn check_whole(path: &Path) -> Result<(), WholeError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = files::open_regular(path).map_err(WholeError::Read)?;
    let is = |suffixes: &[&str]| suffixes.iter().any(|suffix| name.ends_with(suffix));
    if is(&[".tgz", ".tar.gz"]) {
        ends_as_tar(MultiGzDecoder::new(BufReader::new(file)))
    } else if is(&[".tar"]) {
        ends_as_tar(file)
    } else {
        Err(WholeError::UnknownFormat)
    }
}

fn ends_as_tar(mut archive: impl Read) -> Result<(), WholeError> {
    let mut buffer = vec![0; 64 * 1024];
    // How many zeros the text so far ends with.
    let mut zeros = 0_usize;
    loop {
        let length = archive.read(&mut buffer).map_err(WholeError::Read)?;
        if length == 0 {
            break;
        }
        let end = buffer[..length].iter().rev().take_while(|byte| **byte == 0).count();
        zeros = if end == length { zeros + end } else { end };
    }
    if zeros >= END { Ok(()) } else { Err(WholeError::CutOff) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::fs;
    use std::io::Write;

    #[test]
    fn only_what_is_there_is_restored_and_only_where_there_is_a_place_is_dumped() {
        let archive = ArchiveRun {
            path: "/state/a.tgz".into(),
            staging: "/state/.a.tgz.hello-0.new".into(),
            dump: "/state/.a.tgz.hello-0.new/dump.tgz".into(),
        };
        let restore = "-Scontent.restore=/state/a.tgz";
        let dump = "-Scontent.dump=/state/.a.tgz.hello-0.new/dump.tgz";
        assert_eq!(options(&archive, true, true), [restore, dump]);
        assert_eq!(options(&archive, false, true), [dump]);
        assert_eq!(options(&archive, true, false), [restore]);
    }

    fn tar() -> Vec<u8> {
        let mut text = vec![b'x'; 1024];
        text.extend([0; END]);
        text
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn check(name: &str, content: &[u8]) -> Result<(), WholeError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        check_whole(&path)
    }

    #[test]
    fn an_archive_with_its_end_is_whole() {
        assert!(check("a.tar", &tar()).is_ok());
        assert!(check("a.tgz", &gzip(&tar())).is_ok());
        assert!(check("a.tar.gz", &gzip(&tar())).is_ok());
    }

    #[test]
    fn an_archive_that_is_cut_off_anywhere_is_not() {
        let (plain, packed) = (tar(), gzip(&tar()));
        for end in [0, 1, 600, 1024, plain.len() - 1] {
            assert!(check("a.tar", &plain[..end]).is_err(), "cut at {end}");
        }
        for end in 0..packed.len() {
            assert!(check("a.tgz", &packed[..end]).is_err(), "cut at {end}");
        }
        assert!(matches!(check("a.tgz", &gzip(&plain[..1024])), Err(WholeError::CutOff)));
    }

    #[test]
    fn a_damaged_archive_and_one_of_another_format_are_not_known_to_be_whole() {
        let mut packed = gzip(&tar());
        let middle = packed.len() / 2;
        packed[middle] ^= 0x55;
        assert!(matches!(check("a.tgz", &packed), Err(WholeError::Read(_))));
        assert!(matches!(check("a.tar.xz", &tar()), Err(WholeError::UnknownFormat)));
    }
}
