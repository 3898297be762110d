//! The state kept from one MiniCluster to the next.
//!
//! Flux restores its content from a file (`content.restore`) and, once its queue is stopped and idle, dumps it to one
//! (`content.dump`, flux-broker-attributes(7)). It writes the dump in place, so the dump goes to a directory of the agent
//! beside the archive, and gets the archive's name only when it is whole: a dump that was cut off never replaces the
//! state of before.

use crate::execute::run::Run;
use crate::failure::{Failure, failed};
use crate::pid1::outcome::BrokerEnd;
use crate::plan::step::{ArchiveRun, Owner};
use crate::system::files;
use crate::system::root::Root;
use flate2::read::MultiGzDecoder;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// Whether there is an archive to restore.
pub(crate) fn is_there(root: &Root, archive: &ArchiveRun) -> io::Result<bool> {
    let file = root.at(&archive.path);
    files::with_rights_of_owner(&file, || file.try_exists())
}

/// Whether there is an archive to restore, and a directory for its next state, which is made here for the broker's user.
///
/// An archive that cannot be looked at ends the run: Flux would start without the state of before, and in the end put its
/// own in the place of that. On a volume that is read only there is no directory: the run goes on and its state is not
/// kept, which may be meant so. Any other place that takes no files ends the run: better now than when there is a state to
/// keep.
pub(crate) async fn prepare(run: &mut Run, archive: &ArchiveRun) -> Result<(bool, bool), Failure> {
    let (files, planned) = (run.files(), archive.clone());
    let work = move || {
        let staging = files.root.at(&planned.staging);
        let made = files::remove_directory(&staging)
            .and_then(|()| files::make_directory(&staging, 0o700, files.ids(Owner::Broker)));
        (is_there(&files.root, &planned), made)
    };
    let (found, made) = run.off_thread("look for the archive", Duration::ZERO, work).await?;
    let ArchiveRun { path, staging, dump: _ } = archive;
    let has_archive = found.map_err(failed("look for archive", path))?;
    match made {
        Ok(()) => Ok((has_archive, true)),
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
            let path = path.display();
            run.warned(&format!("the state will not be kept in archive {path}: {error}"));
            Ok((has_archive, false))
        }
        Err(error) => Err(failed("make a place for the archive's next state,", staging)(error)),
    }
}

/// Puts the dump in the archive's place if the instance ran, the dump is whole and a stop leaves the time for it.
pub(crate) async fn keep(run: &mut Run, archive: &ArchiveRun, broker: &BrokerEnd) {
    let [path, staging, dump] =
        [&archive.path, &archive.staging, &archive.dump].map(|path| run.root.at(path));
    let (shown, broker) = (path.display().to_string(), broker.clone());
    let replace = spawn_blocking(move || {
        // The log has a line since the start of the broker if it could not be made.
        let replaced =
            files::is_directory(&staging).then(|| replace_by_dump(&path, &dump, &broker));
        if replaced.is_some() {
            // The rest of it is of no use, and does no harm.
            let _ = files::remove_directory(&staging);
        }
        replaced
    });
    let share = run.grace.main + run.grace.of_main_process().give_up;
    match run.signals.within(share, replace).await {
        Some(Ok(None)) => {}
        Some(Ok(Some(Ok(())))) => run.log.info(&format!("the state is kept in {shown}")),
        Some(Ok(Some(Err(why)))) => run.failed(&why),
        Some(Err(error)) => run.failed(&format!("archive {shown} stays as it was: {error}")),
        None => {
            let why = "the pod's grace period left no time to keep the state";
            run.failed(&format!("archive {shown} stays as it was: {why}"));
        }
    }
}

/// Replaces the archive at `path`, or gives the reason why it stays as it was.
fn replace_by_dump(path: &Path, dump: &Path, broker: &BrokerEnd) -> Result<(), String> {
    let stays = |why: String| format!("keep archive {} as it was: {why}", path.display());
    if !broker.ran {
        return Err(stays("the broker did not get as far as to run".to_owned()));
    }
    if files::with_rights_of_owner(dump, || files::open_regular(dump)).is_err() {
        return Err(stays(format!("Flux dumped nothing to {}", dump.display())));
    }
    // With 0 a broker ends all of whose phases succeeded, the dump among them. Another code may be that of a later phase.
    if broker.code != 0 {
        let whole = files::with_rights_of_owner(dump, || check_whole(dump));
        whole.map_err(|error| stays(format!("the dump is not whole: {error}")))?;
    }
    let replaced = files::with_rights_of_owner(dump, || replace(dump, path));
    replaced.map_err(|error| {
        format!("put the dump in the place of archive {}: {error}", path.display())
    })
}

/// The archive is on the disk before it gets its name.
fn replace(dump: &Path, path: &Path) -> io::Result<()> {
    files::open_regular(dump)?.sync_all()?;
    fs::rename(dump, path)?;
    let directory = path.parent().unwrap_or(path);
    File::open(directory)?.sync_all()
}

/// A tar archive ends with two blocks of zeros (POSIX.1-2024, pax, "ustar Interchange Format").
const END: usize = 1024;

const CUT_OFF: &str = "it lacks the end of a tar archive";
const UNKNOWN_FORMAT: &str =
    "the broker failed, and only archives in the formats tar and tar.gz can be checked";

/// Checks that the tar archive at `path`, compressed by gzip or not, goes to its end. The checksum
/// of gzip is checked as well.
fn check_whole(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = files::open_regular(path).map_err(|error| unreadable(&error))?;
    let is = |suffixes: &[&str]| suffixes.iter().any(|suffix| name.ends_with(suffix));
    if is(&[".tgz", ".tar.gz"]) {
        ends_as_tar(MultiGzDecoder::new(BufReader::new(file)))
    } else if is(&[".tar"]) {
        ends_as_tar(file)
    } else {
        Err(io::Error::other(UNKNOWN_FORMAT))
    }
}

fn unreadable(error: &io::Error) -> io::Error {
    io::Error::other(format!("read it: {error}"))
}

fn ends_as_tar(mut archive: impl Read) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    // How many zeros the archive has at its end so far.
    let mut zeros = 0_usize;
    loop {
        let length = archive.read(&mut buffer).map_err(|error| unreadable(&error))?;
        if length == 0 {
            break;
        }
        let end = buffer[..length].iter().rev().take_while(|byte| **byte == 0).count();
        zeros = if end == length { zeros + end } else { end };
    }
    if zeros >= END { Ok(()) } else { Err(io::Error::other(CUT_OFF)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn tar() -> Vec<u8> {
        [[b'x'; END], [0; END]].concat()
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// Why a file `name` with `content` is not whole; nothing if it is.
    fn fault(name: &str, content: &[u8]) -> Option<String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        check_whole(&path).err().map(|error| error.to_string())
    }

    #[test]
    fn an_archive_that_is_cut_off_anywhere_is_not_whole() {
        let (plain, packed) = (tar(), gzip(&tar()));
        for (name, content) in [("a.tar", &plain), ("a.tgz", &packed), ("a.tar.gz", &packed)] {
            assert_eq!(fault(name, content), None, "{name}");
        }
        for end in [0, 1, 600, 1024, plain.len() - 1] {
            assert!(fault("a.tar", &plain[..end]).is_some(), "cut at {end}");
        }
        for end in 0..packed.len() {
            assert!(fault("a.tgz", &packed[..end]).is_some(), "cut at {end}");
        }
        assert_eq!(fault("a.tgz", &gzip(&plain[..END])).unwrap(), CUT_OFF);
    }

    #[test]
    fn a_damaged_archive_is_not_known_to_be_whole() {
        let mut packed = gzip(&tar());
        let middle = packed.len() / 2;
        packed[middle] ^= 0x55;
        let damaged = fault("a.tgz", &packed).unwrap();
        assert!(damaged.starts_with("read it: "), "{damaged}");
        assert_eq!(fault("a.tar.xz", &tar()).unwrap(), UNKNOWN_FORMAT);
    }
}
