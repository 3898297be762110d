//! The state kept from one MiniCluster to the next.
//!
//! Flux restores its content from a file (`content.restore`) and, once its queue is stopped and idle, dumps it to one
//! (`content.dump`, flux-broker-attributes(7)). It writes the dump in place, so the dump goes to a directory of the agent
//! beside the archive, and gets the archive's name only when it is whole: a dump that was cut off never replaces the
//! state of before.
//!
//! While the instance runs, its state may be written to a checkpoint beside the archive ([`super::checkpoint`]). A checkpoint
//! that is there is newer than the archive, so no clock is asked: at the end the dump takes the checkpoint's name first, and
//! then the archive's.

use crate::execute::run::{Files, Run};
use crate::failure::{Failure, failed};
use crate::pid1::outcome::BrokerEnd;
use crate::plan::start::Restored;
use crate::plan::step::{ArchiveRun, Owner};
use crate::system::files;
use crate::system::root::Root;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use flux_protocol::dump::Jobs;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, ErrorKind, Read, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::spawn_blocking;

/// The exception of jobs that ran when the lead was lost.
const LOST_WITH_LEAD: &str = "the lead was lost while this job ran";
/// How many lost jobs the log names.
const NAMED: usize = 20;

fn is_there(file: &Path) -> io::Result<bool> {
    files::with_rights_of_owner(file, || file.try_exists())
}

/// What is to be restored, as far as that can be seen without a change.
pub(crate) fn restored(root: &Root, archive: &ArchiveRun) -> Option<Restored> {
    let found = |path: &Path| is_there(&root.at(path)).unwrap_or_default();
    if found(&archive.checkpoint) {
        // Whether it has queues is seen when it is repaired.
        return Some(Restored { path: archive.repaired(), has_queues: true });
    }
    found(&archive.path).then(|| of_orderly_end(archive))
}

fn of_orderly_end(archive: &ArchiveRun) -> Restored {
    Restored { path: archive.path.clone(), has_queues: true }
}

/// The age and the jobs of a checkpoint, whose repaired form was written to the file that is restored. The error is why it is
/// not whole: the archive serves, which is older.
type Repaired = Result<(Duration, Jobs), io::Error>;

/// What is to be restored, and whether there is a directory for the next state, which is made here for the broker's user.
///
/// An archive that cannot be looked at ends the run: Flux would start without the state of before, and in the end put its
/// own in the place of that. On a volume that is read only there is no directory: the run goes on and its state is not
/// kept, which may be meant so. Any other place that takes no files ends the run: better now than when there is a state to
/// keep.
pub(crate) async fn prepare(
    run: &mut Run,
    archive: &ArchiveRun,
) -> Result<(Option<Restored>, bool), Failure> {
    let (files, planned) = (run.files(), archive.clone());
    let work = move || {
        let staging = files.root.at(&planned.staging);
        let made = files::remove_directory(&staging)
            .and_then(|()| files::make_directory(&staging, 0o700, files.ids(Owner::Broker)));
        let checkpoint = repair(&files, &planned);
        (is_there(&files.root.at(&planned.path)), checkpoint, made)
    };
    let (found, checkpoint, made) =
        run.off_thread("look for the archive", Duration::ZERO, work).await?;
    let ArchiveRun { path, staging, .. } = archive;
    let has_archive = found.map_err(failed("look for archive", path))?;
    let restored = has_archive.then(|| of_orderly_end(archive));
    match made {
        Ok(()) => {
            let checkpoint =
                checkpoint.map_err(failed("restore checkpoint", &archive.checkpoint))?;
            let newer = checkpoint.and_then(|it| report(run, archive, it));
            Ok((newer.or(restored), true))
        }
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
            let path = path.display();
            run.warned(&format!("the state will not be kept in archive {path}: {error}"));
            Ok((restored, false))
        }
        Err(error) => Err(failed("make a place for the archive's next state,", staging)(error)),
    }
}

/// Writes what is to be restored of a checkpoint, if there is one.
fn repair(files: &Files, archive: &ArchiveRun) -> io::Result<Option<Repaired>> {
    let [from, to] = [&archive.checkpoint, &archive.repaired()].map(|path| files.root.at(path));
    if !is_there(&from)? {
        return Ok(None);
    }
    let whole = files::with_rights_of_owner(&from, || Ok(ends_as_tar(unpacked(&from)?)))?;
    if let Err(why) = whole {
        return Ok(Some(Err(why)));
    }
    let now = SystemTime::now();
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    files::with_rights_of_owner(&from, || {
        let modified = files::open_regular(&from)?.metadata()?.modified()?;
        let jobs = Jobs::read(unpacked(&from)?, LOST_WITH_LEAD, seconds)?;
        files::replace(&to, 0o600, files.ids(Owner::Broker), |file| {
            let mut packed = GzEncoder::new(BufWriter::new(file), Compression::fast());
            jobs.repair(unpacked(&from)?, &mut packed)?;
            packed.finish()?.flush()
        })?;
        Ok(Some(Ok((now.duration_since(modified).unwrap_or_default(), jobs))))
    })
}

/// Writes to the log what a lead that was lost has left; returns what of it is restored.
fn report(run: &Run, archive: &ArchiveRun, checkpoint: Repaired) -> Option<Restored> {
    let path = archive.checkpoint.display();
    let not_whole = |why: io::Error| {
        let archive = archive.path.display();
        run.warned(&format!("{path} is not restored, but {archive}, which is older: {why}"));
    };
    let (age, jobs) = checkpoint.map_err(not_whole).ok()?;
    let (seconds, lost) = (age.as_secs(), jobs.lost());
    let named = lost[..lost.len().min(NAMED)].join(", ");
    let lost = match lost.len() {
        0 => "no job ran then".to_owned(),
        count if count > NAMED => format!("jobs that ran then are lost ({count}): {named}, ..."),
        count => format!("jobs that ran then are lost ({count}): {named}"),
    };
    let text = "an earlier lead was lost before its instance had ended";
    run.log.warn(&format!("{text}; its state of {seconds} s ago is in {path}: {lost}"));
    Some(Restored { path: archive.repaired(), has_queues: jobs.has_queues })
}

/// Puts the dump in the archive's place if the instance ran, the dump is whole and a stop leaves the time for it.
pub(crate) async fn keep(run: &mut Run, archive: &ArchiveRun, broker: &BrokerEnd) {
    let (root, planned, broker) = (run.root.clone(), archive.clone(), broker.clone());
    let shown = root.at(&archive.path).display().to_string();
    let replace = spawn_blocking(move || {
        let staging = root.at(&planned.staging);
        // The log has a line since the start of the broker if it could not be made.
        let replaced =
            files::is_directory(&staging).then(|| replace_by_dump(&root, &planned, &broker));
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

/// Replaces the archive, or gives the reason why it stays as it was.
fn replace_by_dump(root: &Root, archive: &ArchiveRun, broker: &BrokerEnd) -> Result<(), String> {
    let [path, dump] = &[&archive.path, &archive.dump].map(|path| root.at(path));
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
    let [checkpoint, next] =
        &[&archive.checkpoint, &archive.next_checkpoint()].map(|path| root.at(path));
    let replaced = files::with_rights_of_owner(dump, || {
        // One that is about to replace the checkpoint, on a volume that is slow, has no name to replace it with.
        files::remove(next)?;
        if !is_there(checkpoint)? {
            return take_place(dump, path);
        }
        take_place(dump, checkpoint)?;
        take_place(checkpoint, path)
    });
    replaced.map_err(|error| {
        format!("put the dump in the place of archive {}: {error}", path.display())
    })
}

/// Gives a dump the name `path`. It is on the disk before that.
pub(super) fn take_place(dump: &Path, path: &Path) -> io::Result<()> {
    files::open_regular(dump)?.sync_all()?;
    fs::rename(dump, path)?;
    let directory = path.parent().unwrap_or(path);
    File::open(directory)?.sync_all()
}

/// A tar archive ends with two blocks of zeros (POSIX.1-2024, pax, "ustar Interchange Format").
const END: usize = 1024;

/// The first bytes of a file compressed by gzip (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

const CUT_OFF: &str = "it lacks the end of a tar archive";
const UNKNOWN_FORMAT: &str =
    "the broker failed, and only archives in the formats tar and tar.gz can be checked";

/// Checks that the tar archive at `path`, compressed by gzip or not, goes to its end. The checksum
/// of gzip is checked as well.
pub(super) fn check_whole(path: &Path) -> io::Result<()> {
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

/// The content of the tar archive at `path`, whose first bytes tell whether it is compressed by gzip.
fn unpacked(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::new(files::open_regular(path)?);
    let is_packed = file.fill_buf()?.starts_with(&GZIP);
    Ok(if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
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
