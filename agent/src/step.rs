//! What a run does, as a value that can be printed and compared.
//!
//! `Display` gives one line a step: the log line of the run and, with `{:#}`, followed by the
//! content of files and scripts, the answer of `flux-agent plan`.

use crate::environment::Change;
use flux_contract::WorkerPolicy;
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::path::PathBuf;

/// What a pod is within its Flux instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Rank 0: runs the command.
    Lead,
    /// Any other rank.
    Worker,
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Lead => "lead",
            Self::Worker => "worker",
        })
    }
}

/// Whose a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The container's own user, who the agent runs as.
    Container,
    /// The user the broker runs as.
    Broker,
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Container => "container's user",
            Self::Broker => "broker's user",
        })
    }
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileToWrite {
    /// Where.
    pub path: PathBuf,
    /// Permission bits.
    pub mode: u32,
    /// Whose it becomes.
    pub owner: Owner,
    /// What is in it.
    pub content: String,
}

/// A script of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hook {
    /// Field of the specification it comes from, as `commands.pre`.
    pub name: &'static str,
    /// The shell that runs it; `None` when neither image nor view has one.
    pub shell: Option<PathBuf>,
    /// Its text.
    pub script: String,
}

/// Who the broker runs as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccountChoice {
    /// Account `name`, made with `uid` unless the image has it.
    Ensure {
        /// Login name.
        name: String,
        /// uid and gid of a new account.
        uid: u32,
        /// Home directory of a new account.
        home: PathBuf,
    },
    /// The container's own user.
    Keep {
        /// Login name; the configured one when /etc/passwd does not know the uid.
        name: String,
        /// uid.
        uid: u32,
        /// gid.
        gid: u32,
        /// Home directory: of the account, else of the environment, if there is one.
        home: Option<PathBuf>,
    },
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Run a script of the user and take over the environment it leaves.
    RunHook(Hook),
    /// Decide who the broker runs as, and make the account if need be.
    UseAccount {
        /// The choice.
        choice: AccountChoice,
        /// Home directory when the account's own is neither there nor can be made.
        fallback_home: PathBuf,
    },
    /// Make a directory and its parents.
    MakeDirectory {
        /// Where.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
        /// Whose it becomes.
        owner: Owner,
        /// True: it is the agent's own. False: one that exists is the image's or a volume's, and
        /// is handed over only as a working directory is.
        ours: bool,
        /// False: the run goes on without it.
        required: bool,
    },
    /// Remove what an earlier run left.
    RemoveFile {
        /// Which file.
        path: PathBuf,
    },
    /// Write a file in one step: under a temporary name, then renamed.
    WriteFile(FileToWrite),
    /// Check the CURVE certificate and copy it for the broker, mode 0600.
    InstallCertificate {
        /// The mounted Secret.
        from: PathBuf,
        /// The broker's copy.
        to: PathBuf,
    },
    /// Change the environment of everything that follows.
    ChangeEnvironment {
        /// In this order.
        changes: Vec<Change>,
    },
    /// Check that `flux` is on the `PATH` (the view is disabled).
    FindFlux,
    /// Hand the working directory to the broker's user if it is the image's own.
    AdoptWorkingDirectory,
    /// Ask Flux what this pod has and write it down for all hosts.
    EncodeResources {
        /// Command that prints the resource set.
        command: Vec<String>,
        /// Where it goes.
        path: PathBuf,
    },
    /// Write the batch script into the working directory; its path goes into a variable.
    WriteBatchScript {
        /// File name within the working directory.
        name: &'static str,
        /// Used when the working directory is closed to the broker's user.
        fallback_directory: PathBuf,
        /// Variable that names the file.
        variable: &'static str,
        /// The script.
        content: String,
    },
    /// Leave a marker for other containers.
    MarkComplete {
        /// The marker.
        path: PathBuf,
    },
}

impl Step {
    /// Whether the step is housekeeping, of interest only to somebody who looks for a fault.
    pub const fn is_detail(&self) -> bool {
        match self {
            Self::MakeDirectory { .. }
            | Self::RemoveFile { .. }
            | Self::WriteFile(_)
            | Self::ChangeEnvironment { .. }
            | Self::FindFlux
            | Self::AdoptWorkingDirectory
            | Self::MarkComplete { .. } => true,
            Self::RunHook(_)
            | Self::UseAccount { .. }
            | Self::InstallCertificate { .. }
            | Self::EncodeResources { .. }
            | Self::WriteBatchScript { .. } => false,
        }
    }
}

/// Where a worker expects the lead, and how long it waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AwaitLead {
    /// Address of the lead's Service.
    pub address: Option<IpAddr>,
    /// Host name of the lead.
    pub name: String,
    /// Port of the overlay network.
    pub port: u16,
    /// Deadline in seconds.
    pub deadline_seconds: u64,
    /// The broker's configuration when only the name led to the lead.
    pub by_name: Option<FileToWrite>,
}

/// The broker and what belongs to its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokerRun {
    /// Broker command without a program.
    pub command: Vec<String>,
    /// Archive that the broker's content is restored from if it exists when the broker starts.
    pub restore: Option<PathBuf>,
    /// The initial program.
    pub program: Vec<String>,
    /// Where the program's wrapper keeps its record; `None` without a program.
    pub record: Option<PathBuf>,
    /// Run once when the broker is up, beside it.
    pub submission: Option<Vec<String>>,
    /// The broker's own socket.
    pub socket: PathBuf,
    /// Prints the broker's state, where its socket does not answer.
    pub uptime: Vec<String>,
    /// Print the `FLUXTIME` line.
    pub timed: bool,
    /// A worker: wait for the lead first, and start again by this policy.
    pub worker: Option<WorkerRun>,
}

/// What only a worker does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerRun {
    /// Whom to wait for.
    pub lead: AwaitLead,
    /// What to do when the broker ends.
    pub policy: WorkerPolicy,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// What this pod is.
    pub role: Role,
    /// Its host name.
    pub hostname: String,
    /// Its rank.
    pub rank: u32,
    /// A failing hook ends the run.
    pub strict: bool,
    /// Say nothing but errors.
    pub quiet: bool,
    /// The agent's own binary.
    pub agent: PathBuf,
    /// Certificate with which a worker asks the lead; where it is mounted.
    pub certificate: PathBuf,
    /// What is done before the broker starts, in order.
    pub steps: Vec<Step>,
    /// The broker.
    pub broker: BrokerRun,
    /// What is done at the end, whatever happened.
    pub finish: Vec<Step>,
}

/// `words` as a person would type them.
pub fn shown(words: &[String]) -> String {
    let quoted: Vec<String> = words
        .iter()
        .map(|word| shlex::try_quote(word).map_or_else(|_| format!("{word:?}"), Into::into))
        .collect();
    quoted.join(" ")
}

fn indented(text: &str) -> String {
    text.lines().fold(String::new(), |mut all, line| {
        let _ = write!(all, "\n    {line}");
        all
    })
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = formatter.alternate();
        match self {
            Self::RunHook(Hook { name, shell, script }) => {
                match shell {
                    Some(shell) => write!(formatter, "run {name} with {}", shell.display())?,
                    None => write!(formatter, "run {name}: there is no shell")?,
                }
                if full { formatter.write_str(&indented(script)) } else { Ok(()) }
            }
            Self::UseAccount { choice, fallback_home } => match choice {
                AccountChoice::Ensure { name, uid, home } => write!(
                    formatter,
                    "run Flux as user {name}, made with uid {uid} and home {} unless the image has it",
                    home.display()
                ),
                AccountChoice::Keep { name, uid, gid, home } => write!(
                    formatter,
                    "run Flux as the container's own user {name} ({uid}:{gid}), home {}",
                    home.as_ref().unwrap_or(fallback_home).display()
                ),
            },
            Self::MakeDirectory { path, mode, owner, ours: _, required } => {
                let optional = if *required { "" } else { ", if possible" };
                write!(
                    formatter,
                    "make directory {} ({mode:04o}, {owner}{optional})",
                    path.display()
                )
            }
            Self::RemoveFile { path } => write!(formatter, "remove {}", path.display()),
            Self::WriteFile(file) => file.fmt(formatter),
            Self::InstallCertificate { from, to } => write!(
                formatter,
                "copy the CURVE certificate {} to {} (0600, broker's user)",
                from.display(),
                to.display()
            ),
            Self::ChangeEnvironment { changes } => {
                formatter.write_str("change the environment:")?;
                changes.iter().try_for_each(|change| write!(formatter, " {change}"))
            }
            Self::FindFlux => formatter.write_str("find flux on the PATH"),
            Self::AdoptWorkingDirectory => formatter
                .write_str("hand the working directory to the broker's user if it is the image's"),
            Self::EncodeResources { command, path } => {
                write!(formatter, "write what {:?} prints to {}", shown(command), path.display())
            }
            Self::WriteBatchScript { name, fallback_directory, variable: _, content } => {
                write!(
                    formatter,
                    "write {name} in the working directory, else in {}",
                    fallback_directory.display()
                )?;
                if full { formatter.write_str(&indented(content)) } else { Ok(()) }
            }
            Self::MarkComplete { path } => write!(formatter, "leave marker {}", path.display()),
        }
    }
}

impl fmt::Display for FileToWrite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, mode, owner, content } = self;
        write!(formatter, "write {} ({mode:04o}, {owner})", path.display())?;
        if formatter.alternate() { formatter.write_str(&indented(content)) } else { Ok(()) }
    }
}

impl fmt::Display for AwaitLead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, name, port, deadline_seconds, by_name: _ } = self;
        write!(formatter, "wait for the lead broker at ")?;
        if let Some(address) = address {
            write!(formatter, "{address}, else ")?;
        }
        write!(formatter, "{name}, port {port}, at most {deadline_seconds} s")
    }
}

impl fmt::Display for BrokerRun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(WorkerRun { lead, policy }) = &self.worker {
            writeln!(formatter, "{lead}")?;
            writeln!(formatter, "when the broker ends: {}", policy_text(*policy))?;
        }
        write!(formatter, "start the broker: {}", shown(&self.command))?;
        if let Some(archive) = &self.restore {
            write!(formatter, "\n    restored from {} if it exists", archive.display())?;
        }
        if !self.program.is_empty() {
            write!(formatter, "\n    program: {}", shown(&self.program))?;
        }
        if let Some(submission) = &self.submission {
            write!(formatter, "\n    once it runs: {}", shown(submission))?;
        }
        Ok(())
    }
}

const fn policy_text(policy: WorkerPolicy) -> &'static str {
    match policy {
        WorkerPolicy::LeaveWhenDone => "leave when it ended with 0, else start it again",
        WorkerPolicy::LeaveAlways => "leave",
        WorkerPolicy::Rejoin => "start it again",
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{} {} rank {}", self.role, self.hostname, self.rank)?;
        let finish = self.finish.iter();
        for step in &self.steps {
            if formatter.alternate() {
                writeln!(formatter, "{step:#}")?;
            } else {
                writeln!(formatter, "{step}")?;
            }
        }
        writeln!(formatter, "{}", self.broker)?;
        for step in finish {
            if formatter.alternate() {
                writeln!(formatter, "finally: {step:#}")?;
            } else {
                writeln!(formatter, "finally: {step}")?;
            }
        }
        Ok(())
    }
}
