//! An operator as a process beside the API server, and what the kernel accounts to it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    time::clock_getcpuclockid,
    unistd::Pid,
};
use serde::Serialize;

use crate::programs;

/// An operator with less than this much work in [`QUIET`] has nothing to do.
const IDLE: Duration = Duration::from_millis(20);
/// How long it is watched for that.
const QUIET: Duration = Duration::from_secs(2);
/// How long it may go on working once all is done: one that never rests is measured up to here.
const RESTLESS: Duration = Duration::from_secs(30);

/// A process's memory in bytes, by `proc_pid_status(5)`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Memory {
    /// Resident now.
    pub(super) resident: u64,
    /// The part of it that is no file.
    pub(super) anonymous: u64,
    /// The most that was resident.
    pub(super) peak: u64,
}

/// A running operator; it is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Operator {
    process: Child,
    log: PathBuf,
}

impl Operator {
    /// Starts `program`, which finds the API server by `kubeconfig`, and writes to `log`.
    pub(super) fn start(
        program: &Path,
        arguments: &[&str],
        kubeconfig: &Path,
        log: &Path,
    ) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("making {}", log.display()))?;
        let errors = output.try_clone().with_context(|| format!("opening {}", log.display()))?;
        let mut command = Command::new(program);
        command.args(arguments).env("KUBECONFIG", kubeconfig);
        let process = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        let process = process.with_context(|| format!("starting {}", program.display()))?;
        Ok(Self { process, log: log.to_owned() })
    }

    /// Fails with the end of its log where it has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        let ended = self.process.try_wait().context("looking at the operator")?;
        let Some(status) = ended else { return Ok(()) };
        bail!("the operator has ended with {status}:\n{}", programs::tail(&self.log, 15))
    }

    /// The processor time of all its threads so far.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        let clock = clock_getcpuclockid(self.pid()?).context("finding the operator's clock")?;
        Ok(clock.now().context("reading the operator's clock")?.into())
    }

    /// Its memory.
    pub(super) fn memory(&self) -> Result<Memory> {
        let path = format!("/proc/{}/status", self.process.id());
        let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        memory(&text).with_context(|| format!("{path} has no line on memory"))
    }

    /// Waits until it has nothing to do.
    pub(super) async fn rest(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < RESTLESS {
            self.check()?;
            let before = self.processor_time()?;
            tokio::time::sleep(QUIET).await;
            if self.processor_time()?.saturating_sub(before) < IDLE {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Asks it to stop, and waits.
    pub(super) fn stop(mut self) -> Result<()> {
        kill(self.pid()?, Signal::SIGTERM).context("asking the operator to stop")?;
        let ended = self.process.wait().context("waiting for the operator's end")?;
        ensure!(ended.success(), "the operator: {ended}:\n{}", programs::tail(&self.log, 15));
        Ok(())
    }

    fn pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.process.id()).context("reading a process id")?))
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads `proc_pid_status(5)`, which counts in KiB.
fn memory(status: &str) -> Option<Memory> {
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kibibytes * 1024)
    };
    Some(Memory { resident: bytes("VmRSS")?, anonymous: bytes("RssAnon")?, peak: bytes("VmHWM")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{Look, until};

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tflux\nVmHWM:\t   30 kB\nVmRSS:\t  20 kB\nRssAnon:\t   8 kB\n";
        let expected = Memory { resident: 20 << 10, anonymous: 8 << 10, peak: 30 << 10 };
        assert_eq!(memory(status), Some(expected));
        assert_eq!(memory("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn a_process_is_measured_until_it_ends_and_then_its_log_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let start = |command| {
            Operator::start(Path::new("sh"), &["-c", command], Path::new("/"), &log).unwrap()
        };
        let mut running = start("exec sleep 600");
        running.check().unwrap();
        assert!(running.processor_time().unwrap() < Duration::from_secs(5));
        assert!(running.memory().unwrap().peak > 0);
        let mut ended = start("echo no API server; exit 3");
        let failed = until("its end", Duration::from_secs(20), || {
            Ok(match ended.check() {
                Ok(()) => Look::NotYet("it runs".into()),
                Err(error) => Look::Ready(error.to_string()),
            })
        });
        assert!(failed.unwrap().contains("no API server"));
    }
}
