//! The state of an instance that runs, written beside the archive for a lead that is lost without a stop.
//!
//! `flux dump` reads a snapshot of the key-value store, whatever happens meanwhile: the store adds and never overwrites. What
//! has no place in a snapshot is repaired when it is restored (`flux_protocol::dump`).

use crate::execute::run::Run;
use crate::flux::client::FluxClient;
use crate::pid1::archive::{check_whole, take_place};
use crate::plan::step::ArchiveRun;
use crate::process::exit_status::end_text;
use crate::system::files;
use rustix::process::{Pid, setpriority_process};
use std::io;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

/// Nothing else waits for a dump.
const LOWEST_PRIORITY: i32 = 19;
/// How many times as long as the last dump took the next one waits at least: a tenth of the time goes into dumps at most.
const TIMES: u32 = 9;

/// Writes the state while the broker runs, if the specification asks for that.
pub(crate) fn write_regularly(
    run: &Run,
    archive: &ArchiveRun,
    client: FluxClient,
) -> impl Future<Output = ()> + Send + use<> {
    let paths = [&archive.next_checkpoint(), &archive.checkpoint].map(|path| run.root.at(path));
    let (every, report) = (archive.every_seconds, run.failure_reporter());
    async move {
        if let Some(every) = every {
            write_every(Duration::from_secs(every.into()), client, paths, report).await;
        }
    }
}

/// Only the first of equal failures is reported.
async fn write_every(
    every: Duration,
    client: FluxClient,
    paths: [PathBuf; 2],
    report: impl Fn(&str) + Send,
) {
    // On a volume that is read only there is no place for it.
    let place = paths[0].clone();
    let has_place = move || place.parent().is_some_and(files::is_directory);
    if !spawn_blocking(has_place).await.unwrap_or_default() {
        return;
    }
    let (mut pause, mut reported) = (every, None);
    loop {
        sleep(pause).await;
        if !runs(&client).await {
            continue;
        }
        let began = Instant::now();
        let failure = write(&client, paths.clone()).await.err();
        pause = pause_after(began.elapsed(), every);
        // In the end the content goes while it is dumped.
        if failure.is_some() && !runs(&client).await {
            continue;
        }
        if let Some(why) = failure.as_ref().filter(|_| failure != reported) {
            report(&format!("checkpoint {} stays as it was: {why}", paths[1].display()));
        }
        reported = failure;
    }
}

async fn runs(client: &FluxClient) -> bool {
    client.broker.state().await.is_ok_and(|state| state == "run")
}

fn pause_after(took: Duration, every: Duration) -> Duration {
    every.saturating_sub(took).max(took * TIMES)
}

/// Lets Flux dump to the first path. The dump becomes the checkpoint, the second, when it is whole; the error is why there
/// is no new one.
async fn write(client: &FluxClient, [dump, checkpoint]: [PathBuf; 2]) -> Result<(), String> {
    let words = [&*client.flux, "dump", "--quiet", &dump.display().to_string()];
    let mut command = client.command(&words.map(str::to_owned));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let shown = words.join(" ");
    let failed = |error: io::Error| format!("{shown}: {error}");
    let running = client.children.spawn(&mut command).map_err(failed)?;
    // Without this right it competes with the jobs of the lead.
    let _ = setpriority_process(Pid::from_raw(running.pid.as_raw()), LOWEST_PRIORITY);
    let Output { status, stderr, .. } = running.output().await.map_err(failed)?;
    if !status.success() {
        let why =
            format!("{shown} {}: {}", end_text(status), String::from_utf8_lossy(&stderr).trim());
        return Err(why.trim_end_matches([' ', ':']).to_owned());
    }
    let replace = move || {
        files::with_rights_of_owner(&dump, || {
            check_whole(&dump)?;
            take_place(&dump, &checkpoint)
        })
    };
    let replaced = spawn_blocking(replace).await.map_err(io::Error::other).flatten();
    replaced.map_err(|error| format!("use the dump: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_time_goes_into_dumps_at_most() {
        for (took, every, pause) in [(0, 60, 60), (6, 60, 54), (7, 60, 63), (100, 60, 900)] {
            let [took, every, pause] = [took, every, pause].map(Duration::from_secs);
            assert_eq!(pause_after(took, every), pause);
        }
    }
}
