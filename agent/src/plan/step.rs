//! What a run does, as a value that can be printed and compared.
//!
//! `Display` prints a line for each step, as the log has it; with `{:#}` the content of files and scripts follows, as in the
//! output of `flux-agent plan`.

use crate::plan::grace_period::GracePeriod;
use crate::system::environment::Change;
use crate::system::words::shown;
use flux_contract::WorkerPolicy;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

pub(crate) const BATCH_SCRIPT: &str = "flux-job.batch";
/// Names the file that the batch script was written to.
pub(crate) const BATCH_SCRIPT_VARIABLE: &str = "FLUX_BATCH_SCRIPT";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    Lead,
    Worker,
}

impl Display for Role {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(if *self == Self::Lead { "lead" } else { "worker" })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Owner {
    /// The container's own user, which is the agent's.
    Container,
    Broker,
}

impl Display for Owner {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}'s user", if *self == Self::Broker { "broker" } else { "container" })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileToWrite {
    pub path: PathBuf,
    pub mode: u32,
    pub content: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hook {
    /// Field of the specification it comes from, as `commands.pre`.
    pub name: &'static str,
    /// The shell that runs it; `None` when neither image nor view has one.
    pub shell: Option<PathBuf>,
    pub script: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccountChoice {
    /// Account `name`, made with `uid` unless the image has it.
    Ensure {
        name: String,
        uid: u32,
        home: PathBuf,
        /// Groups to run with besides the account's own.
        #[serde(rename = "more_groups")]
        extra_groups: Vec<u32>,
        capabilities: Vec<String>,
    },
    Keep {
        /// Login name; the configured one when /etc/passwd does not know the uid.
        name: String,
        uid: u32,
        gid: u32,
        home: PathBuf,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    /// Run a script of the user and take over the environment it leaves.
    RunHook(Hook),
    /// Choose the user of the broker, and make the account if need be.
    UseAccount(AccountChoice),
    MakeDirectory {
        path: PathBuf,
        mode: u32,
        owner: Owner,
        /// True: it is the agent's own. False: an existing one is the image's or a volume's, and is given to the broker's
        /// user only as a working directory is.
        ours: bool,
        /// False: the run goes on without it.
        required: bool,
    },
    /// Remove what an earlier run left.
    RemoveFile(PathBuf),
    /// Write a file in one step: under a temporary name, then renamed.
    WriteFile(FileToWrite),
    /// Check the CURVE certificate and copy it for the broker, mode 0600; `link` leads to the copy.
    InstallCertificate {
        from: PathBuf,
        to: PathBuf,
        link: PathBuf,
    },
    /// Copy the munge key (`flux.mungeSecret`) to its place for munge, mode 0400.
    InstallMungeKey {
        from: PathBuf,
        to: PathBuf,
        /// uid and gid of the image's account `munge`; the container's user where there is none.
        owner: Option<(u32, u32)>,
    },
    ChangeEnvironment(Vec<Change>),
    /// Check that `flux` is on the `PATH` (the view is disabled).
    FindFlux,
    /// Give the working directory to the broker's user if it is the image's own.
    AdoptWorkingDirectory,
    /// Write the batch script into the working directory; its path goes into a variable.
    WriteBatchScript {
        /// Used when the working directory is closed to the broker's user.
        fallback_directory: PathBuf,
        script: String,
    },
    /// Leave a marker for other containers.
    MarkComplete(PathBuf),
}

impl Step {
    /// Whether the step is housekeeping, of interest only to somebody who looks for a fault.
    pub(crate) const fn is_detail(&self) -> bool {
        !matches!(
            self,
            Self::RunHook(_)
                | Self::UseAccount(_)
                | Self::InstallCertificate { .. }
                | Self::InstallMungeKey { .. }
                | Self::WriteBatchScript { .. }
        )
    }
}

/// Where a worker expects the lead, and how long it waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AwaitLead {
    /// Address of the lead's Service.
    pub address: Option<IpAddr>,
    /// Host name of the lead: looked up again for every attempt.
    pub name: String,
    /// Port of the overlay network.
    pub port: u16,
    /// Deadline in seconds.
    pub deadline_seconds: u64,
    /// Hosts of the instance: each of many asks the lead less often.
    pub hosts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokerRun {
    pub command: Vec<String>,
    /// Brokers that the lead waits for before it runs anything (flux-broker-attributes(7), `broker.quorum`);
    /// `None`: all of its hosts. Only rank 0 asks.
    pub quorum: Option<u32>,
    /// Where the state is restored from and kept, on the lead.
    pub archive: Option<ArchiveRun>,
    /// The command with which a lead's run ends; `None` where people end the instance.
    pub lead_command: Option<LeadCommand>,
    /// Run once when the broker is up, beside it.
    pub submission: Option<Vec<String>>,
    /// What people type to enter the instance: said once it is up. `None` where it ends by itself.
    #[serde(rename = "entrance")]
    pub attach_hint: Option<String>,
    pub socket: PathBuf,
    pub flux: String,
    pub timed: bool,
    /// A worker: wait for the lead first, and start again by this policy.
    pub worker: Option<WorkerRun>,
}

/// Who makes a command a job, and submits it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Submitter {
    /// `flux-agent submit`, without Python.
    Agent,
    /// `flux run`, for this reason.
    Flux(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeadCommand {
    pub words: Vec<String>,
    /// The program that makes its job; `None` where it is no job, or several.
    pub submitter: Option<Submitter>,
    /// Find out, when it has failed, whether Flux refused it.
    pub may_be_refused: bool,
    /// Signals go to its job, as `flux run` of this release does not pass them on and would end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub signals_job: bool,
    /// Flux's cleanup is registered when it has ended, if jobs are left.
    pub cleans_up: bool,
    /// A file in which it may leave an error.
    #[serde(rename = "failure")]
    pub error_file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArchiveRun {
    /// Restored from if it is there when the broker starts; replaced at the end.
    pub path: PathBuf,
    /// Directory in the same place, the broker's own while it runs.
    pub staging: PathBuf,
    /// What Flux dumps to, in that directory.
    pub dump: PathBuf,
    /// The state while the instance runs. If it is there, it is newer than the archive, and restored in the place of it.
    pub checkpoint: PathBuf,
    /// How often that is written, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<u32>,
}

impl ArchiveRun {
    /// What Flux dumps to while the instance runs.
    pub(crate) fn next_checkpoint(&self) -> PathBuf {
        self.beside_dump("checkpoint")
    }

    /// What is restored of a checkpoint.
    pub(crate) fn repaired(&self) -> PathBuf {
        self.beside_dump("restored")
    }

    /// A file in the format of the dump.
    fn beside_dump(&self, prefix: &str) -> PathBuf {
        let mut name = OsString::from(prefix);
        name.push("-");
        name.push(self.dump.file_name().unwrap_or_default());
        self.staging.join(name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerRun {
    pub lead: AwaitLead,
    pub policy: WorkerPolicy,
    /// Where people end the instance, its lead comes back when its pod is lost. A worker whose broker has ended with the
    /// lead's waits this number of seconds for that lead to close its port, and then for the next one.
    pub lead_may_return_seconds: Option<u64>,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub(crate) role: Role,
    pub(crate) hostname: String,
    pub(crate) rank: u32,
    #[serde(rename = "budget")]
    pub(crate) grace: GracePeriod,
    /// Seconds after which this pod ends the run (`spec.deadlineSeconds`), if it is the one to do so.
    pub(crate) deadline_seconds: Option<u64>,
    /// Seconds without a job and a session after which this pod ends the instance, if it is the lead.
    pub(crate) idle_seconds: Option<u64>,
    /// A failing hook ends the run.
    pub(crate) strict: bool,
    pub(crate) steps: Vec<Step>,
    /// What this release of Flux lacks that the configuration asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The broker.
    pub broker: BrokerRun,
    /// The last steps, whatever happened.
    pub(crate) finish: Vec<Step>,
}

impl Plan {
    /// What the steps change in the environment of the broker.
    pub(crate) fn environment_changes(&self) -> impl Iterator<Item = &Change> {
        let changes = self.steps.iter().filter_map(|step| {
            if let Step::ChangeEnvironment(changes) = step { Some(changes) } else { None }
        });
        changes.flatten()
    }

    /// The content of the file at `path`, if a step writes it.
    pub(crate) fn file(&self, path: &Path) -> Option<&str> {
        self.steps.iter().find_map(|step| {
            let Step::WriteFile(file) = step else { return None };
            (file.path == path).then_some(file.content.as_str())
        })
    }
}

/// With `{:#}`, the lines of `content`.
fn content(out: &mut Formatter<'_>, content: &str) -> fmt::Result {
    let content = if out.alternate() { content } else { "" };
    content.lines().try_for_each(|line| write!(out, "\n    {line}"))
}

impl Display for Step {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunHook(Hook { name, shell, script }) => {
                let shell = shell.as_ref().map(|shell| format!(" with {}", shell.display()));
                let shell = shell.as_deref().unwrap_or(": there is no shell");
                write!(out, "run {name}{shell}")?;
                content(out, script)
            }
            Self::UseAccount(choice) => account(out, choice),
            Self::MakeDirectory { path, mode, owner, ours: _, required } => {
                let optional = if *required { "" } else { ", if possible" };
                write!(out, "make directory {} ({mode:04o}, {owner}{optional})", path.display())
            }
            Self::RemoveFile(path) => write!(out, "remove {}", path.display()),
            Self::WriteFile(file) => {
                write!(out, "write {} ({:04o})", file.path.display(), file.mode)?;
                content(out, &file.content)
            }
            Self::InstallCertificate { from, to, link } => {
                let [from, to, link] = [from, to, link].map(|path| path.display());
                write!(
                    out,
                    "copy the CURVE certificate {from} to {to} (0600, broker's user) and link {link} to it"
                )
            }
            Self::InstallMungeKey { from, to, owner } => {
                let (from, to) = (from.display(), to.display());
                write!(out, "copy the munge key {from} to {to} (0400, ")?;
                match owner {
                    Some((uid, gid)) => write!(out, "munge's user {uid}:{gid})"),
                    None => out.write_str("container's user)"),
                }
            }
            Self::ChangeEnvironment(changes) => {
                out.write_str("change the environment:")?;
                changes.iter().try_for_each(|change| write!(out, " {change}"))
            }
            Self::FindFlux => out.write_str("find flux on the PATH"),
            Self::AdoptWorkingDirectory => out
                .write_str("hand the working directory to the broker's user if it is the image's"),
            Self::WriteBatchScript { fallback_directory, script } => {
                let fallback = fallback_directory.display();
                write!(out, "write {BATCH_SCRIPT} in the working directory, else in {fallback}")?;
                content(out, script)
            }
            Self::MarkComplete(path) => write!(out, "leave marker {}", path.display()),
        }
    }
}

fn account(out: &mut Formatter<'_>, choice: &AccountChoice) -> fmt::Result {
    match choice {
        AccountChoice::Ensure { name, uid, home, extra_groups, capabilities } => {
            write!(
                out,
                "run Flux as user {name}, made with uid {uid} and home {} unless the image has it",
                home.display()
            )?;
            if !extra_groups.is_empty() {
                write!(out, ", with the pod's groups {extra_groups:?}")?;
            }
            if !capabilities.is_empty() {
                write!(out, ", with the capabilities {}", capabilities.join(", "))?;
            }
            Ok(())
        }
        AccountChoice::Keep { name, uid, gid, home } => write!(
            out,
            "run Flux as the container's own user {name} ({uid}:{gid}), home {}",
            home.display()
        ),
    }
}

impl Display for AwaitLead {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { address, name, port, deadline_seconds, hosts: _ } = self;
        write!(out, "wait for the lead broker at ")?;
        if let Some(address) = address {
            write!(out, "{address}, else ")?;
        }
        write!(out, "{name}, port {port}, at most {deadline_seconds} s")
    }
}

impl Display for BrokerRun {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if let Some(WorkerRun { lead, policy, lead_may_return_seconds }) = &self.worker {
            writeln!(out, "{lead}")?;
            write!(out, "when the broker ends: {}", policy_text(*policy))?;
            if let Some(seconds) = lead_may_return_seconds {
                write!(out, ", and wait at most {seconds} s for the lead's port to close")?;
            }
            out.write_str("\n")?;
        }
        write!(out, "start the broker: {}", shown(&self.command))?;
        if let Some(archive) = &self.archive {
            let (path, dump) = (archive.path.display(), archive.dump.display());
            let checkpoint = archive.checkpoint.display();
            write!(out, "\n    restored from {path} if it exists")?;
            write!(out, "\n    dumped to {dump}, renamed to {path} when whole")?;
            if let Some(seconds) = archive.every_seconds {
                write!(out, "\n    every {seconds} s while it runs: written to {checkpoint}")?;
            }
        }
        if let Some(command) = &self.lead_command {
            write!(out, "\n    once it runs, and ending with it: {}", shown(&command.words))?;
            match &command.submitter {
                Some(Submitter::Agent) => out.write_str("\n    submitted by the agent itself")?,
                Some(Submitter::Flux(why)) => write!(out, "\n    submitted by flux run: {why}")?,
                None => {}
            }
            if command.signals_job {
                out.write_str("\n    signals are sent to its job")?;
            }
        }
        if let Some(submission) = &self.submission {
            write!(out, "\n    once it runs: {}", shown(submission))?;
        }
        if let Some(hint) = &self.attach_hint {
            write!(out, "\n    to enter it: {hint}")?;
        }
        Ok(())
    }
}

const fn policy_text(policy: WorkerPolicy) -> &'static str {
    match policy {
        WorkerPolicy::LeaveWhenDone => {
            "leave if it ended with 0 because the lead ends the instance, else start it again"
        }
        WorkerPolicy::LeaveAlways => "leave",
        WorkerPolicy::Rejoin => "start it again",
    }
}

impl Display for Plan {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} {} rank {}", self.role, self.hostname, self.rank)?;
        self.notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
        for step in &self.steps {
            step.fmt(out)?;
            out.write_str("\n")?;
        }
        writeln!(out, "{}", self.broker)?;
        if let Some(seconds) = self.deadline_seconds {
            writeln!(out, "after {seconds} s: end the run")?;
        }
        if let Some(seconds) = self.idle_seconds {
            writeln!(out, "after {seconds} s without a job and a session: end the instance")?;
        }
        writeln!(out, "{}", self.grace)?;
        for step in &self.finish {
            out.write_str("finally: ")?;
            step.fmt(out)?;
            out.write_str("\n")?;
        }
        Ok(())
    }
}
