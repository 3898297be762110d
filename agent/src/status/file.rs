//! The report of PID 1 in a file of its private directory, for the other processes of its container.

use crate::failure::{Failure, NO, Result};
use crate::status::document::StatusReport;
use crate::status::runner_lock::{RunnerState, runner_state};
use crate::status::timing::milliseconds;
use crate::system::files;
use crate::system::output::Log;
use crate::system::root::Root;
use flux_contract::Layout;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Time until a failed write is repeated, unless there is another report before.
const RETRY: Duration = Duration::from_secs(1);

/// Writes the latest of `reports` to the file at `path`, until there are no more. Without the file nothing can ask for the
/// status, but the pod runs.
pub(crate) async fn publish(path: PathBuf, mut reports: watch::Receiver<StatusReport>, log: Log) {
    let mut is_written = true;
    loop {
        let report = reports.borrow_and_update().clone();
        let written = write(&path, report);
        // A full volume may have space again: only the first of several failures is logged.
        if let Err(error) = &written
            && is_written
        {
            log.warn(&format!("write the status to {}: {error}", path.display()));
        }
        is_written = written.is_ok();
        let pause = if is_written { Duration::MAX } else { RETRY };
        if timeout(pause, reports.changed()).await.is_ok_and(|changed| changed.is_err()) {
            return;
        }
    }
}

/// Mode of the agent's private directory: only the agent reads the files of hooks there, and every user of the pod, as in
/// `kubectl flux exec NAME -- flux-agent status`, the status.
pub(crate) const PRIVATE_MODE: u32 = 0o711;

/// Each file has another inode, so a reader gets one whole report.
pub(crate) fn write(path: &Path, mut report: StatusReport) -> io::Result<()> {
    report.phases = report.phases_until(Instant::now());
    files::make_directory(path.parent().unwrap_or(path), PRIVATE_MODE, None)?;
    files::write(path, &serde_json::to_vec(&report)?, 0o644, None)
}

/// The report of the agent that runs here.
pub(crate) fn read(root: &Root, layout: &Layout) -> Result<StatusReport> {
    let failed = |why: String| Failure::with_code(NO, why);
    let path = root.at(layout.agent_status());
    let is_absent = fs::exists(&path).is_ok_and(|is_there| !is_there);
    if is_absent || runner_state(&root.at(layout.runner_lock())) == RunnerState::Gone {
        return Err(failed("no agent runs here".to_owned()));
    }
    let found = fs::read(&path).and_then(|text| Ok((text, fs::metadata(&path)?.modified()?)));
    let (text, written) = found.map_err(|error| {
        failed(format!("read the status of the agent in {}: {error}", path.display()))
    })?;
    let mut report: StatusReport = serde_json::from_slice(&text).map_err(|error| {
        failed(format!("{} is no status of an agent of this release: {error}", path.display()))
    })?;
    if let Some(phase) = report.phases.last_mut().filter(|phase| phase.name == report.phase) {
        phase.duration_milliseconds += milliseconds(written.elapsed().unwrap_or_default());
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::arguments::PodArguments;
    use crate::commands::wait::ready;
    use crate::status::runner_lock::hold;
    use flux_contract::Phase;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_status_is_that_of_the_agent_that_runs() {
        let directory = tempfile::tempdir().unwrap();
        let (root, layout) = (Root::new(directory.path()), Layout::default());
        let refused = || read(&root, &layout).unwrap_err().to_string();
        let path = root.at(layout.agent_status());
        let phase = |name: &str, duration_milliseconds| Phase {
            name: name.to_owned(),
            start_milliseconds: 0,
            duration_milliseconds,
        };
        let report = StatusReport {
            phase: "hooks".to_owned(),
            last_error: Some("\0".repeat(4096)),
            phases: vec![phase("prepare", 7), phase("hooks", 0)],
            since: Instant::now().checked_sub(Duration::from_mins(1)),
            ..StatusReport::default()
        };
        assert_eq!(refused(), "no agent runs here");
        write(&path, report.clone()).unwrap();
        fs::create_dir_all(root.at(layout.mount())).unwrap();
        drop(hold(&root.at(layout.runner_lock())).unwrap());
        assert_eq!(refused(), "no agent runs here");
        let _runs = hold(&root.at(layout.runner_lock())).unwrap();
        let found = read(&root, &layout).unwrap();
        assert_eq!((&found.last_error, &found.phases[0]), (&report.last_error, &report.phases[0]));
        let milliseconds = found.phases[1].duration_milliseconds;
        assert!((60_000..120_000).contains(&milliseconds), "it counts up to the read: {found:?}");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o711, 0o644));
        fs::write(&path, "{").unwrap();
        assert!(refused().contains("status.json is no status of an agent of this release"));
    }

    #[tokio::test]
    async fn ready_ends_when_the_run_is_over() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        let arguments = PodArguments { config: "/none".into(), root: root.clone(), hostname: None };
        let layout = Layout::default();
        fs::create_dir_all(root.at(layout.mount())).unwrap();
        let _runs = hold(&root.at(layout.runner_lock())).unwrap();
        let (reports, receiver) = watch::channel(StatusReport::default());
        tokio::spawn(publish(root.at(layout.agent_status()), receiver, Log::new(true, false)));
        let end = async {
            while read(&root, &layout).is_err() {
                tokio::task::yield_now().await;
            }
            reports.send_modify(|report| report.over = true);
        };
        let done = async { tokio::join!(ready(&arguments, 600), end).0 };
        let done = timeout(Duration::from_mins(1), done).await.unwrap();
        assert_eq!(done.unwrap_err().code, NO);
    }
}
