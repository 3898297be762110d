//! The state kept from one MiniCluster to the next.
//!
//! Flux restores its content from a file (`content.restore`) and, once its queue is stopped and
//! idle, dumps it to one (`content.dump`, flux-broker-attributes(7)); the dump is written in place,
//! so it goes to a directory of ours beside the archive. It takes the archive's name only when it
//! is whole: a dump that was cut off never replaces the state of before.

use crate::execute::context::Context;
use crate::execute::error::{StepError, failed};
use crate::pid1::archive_check::{WholeError, check_whole};
use crate::pid1::ending::BrokerEnd;
use crate::plan::step::ArchiveRun;
use crate::system::files;
use crate::system::output::chain;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

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
        .and_then(|()| files::make_directory(&staging, 0o700, context.broker_ids()));
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
    let kept = if ran { try_keep(context, archive, broker).await } else { never_ran(archive) };
    match kept {
        Ok(()) => context.log.info(&format!("the state is kept in {}", archive.path.display())),
        Err(error) => {
            context.failed(&chain(&error));
        }
    }
    // What is left in it is of no use; that it stays is no harm.
    let _ = files::remove_directory(&context.root.at(&archive.staging));
}

fn never_ran(archive: &ArchiveRun) -> Result<(), KeepError> {
    Err(KeepError::NeverRan { path: archive.path.clone() })
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
            .unwrap_or_else(|error| Err(WholeError::Read { source: io::Error::other(error) }))
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
