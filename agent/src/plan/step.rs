//! What a run does, as a value that can be printed and compared.
//!
//! `Display` gives one line a step: the log line of the run and, with `{:#}`, followed by the
//! content of files and scripts, the answer of `flux-agent plan`.

use crate::plan::budget::Budget;
use crate::system::environment::Change;
use flux_contract::WorkerPolicy;
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Lead,
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileToWrite {
    /// Where.
    pub path: PathBuf,
    /// Permission bits.
    pub mode: u32,
    /// What is in it.
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
pub enum AccountChoice {
    /// Account `name`, made with `uid` unless the image has it.
    Ensure {
        name: String,
        uid: u32,
        home: PathBuf,
        /// Groups to run with besides the account's own.
        more_groups: Vec<u32>,
        capabilities: Vec<String>,
    },
    Keep {
        /// Login name; the configured one when /etc/passwd does not know the uid.
        name: String,
        uid: u32,
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
        /// A link to the copy.
        link: PathBuf,
    },
    /// Copy the munge key (`flux.mungeSecret`) to where munge looks for it, mode 0400.
    InstallMungeKey {
        /// The mounted Secret.
        from: PathBuf,
        /// munge's own place for it.
        to: PathBuf,
        /// uid and gid of the image's account `munge`; the container's user where there is none.
        owner: Option<(u32, u32)>,
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
        /// How many cores of it are left at most.
        cores: usize,
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
            | Self::InstallMungeKey { .. }
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
    /// Host name of the lead: looked up again for every attempt.
    pub name: String,
    /// Port of the overlay network.
    pub port: u16,
    /// Deadline in seconds.
    pub deadline_seconds: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokerRun {
    pub command: Vec<String>,
    /// Brokers that the lead waits for before it runs anything (flux-broker-attributes(7), `broker.quorum`);
    /// `None`: all of its hosts. Only rank 0 asks.
    pub quorum: Option<u32>,
    /// Where the state is restored from and kept, on the lead.
    pub archive: Option<ArchiveRun>,
    /// What the lead runs once its broker does, and ends with; `None` where people end the instance.
    pub lead_command: Option<LeadCommand>,
    /// Run once when the broker is up, beside it.
    pub submission: Option<Vec<String>>,
    /// What people type to enter the instance: said once it is up. `None` where it ends by itself.
    pub entrance: Option<String>,
    pub socket: PathBuf,
    pub flux: String,
    pub timed: bool,
    /// A worker: wait for the lead first, and start again by this policy.
    pub worker: Option<WorkerRun>,
}

impl BrokerRun {
    /// The broker's command with its quorum, where that is not the default.
    pub fn command_with_quorum(&self) -> Vec<String> {
        let quorum = self.quorum.map(|brokers| format!("-Sbroker.quorum={brokers}"));
        self.command.iter().cloned().chain(quorum).collect()
    }

    pub fn uri(&self) -> String {
        format!("local://{}", self.socket.display())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeadCommand {
    pub words: Vec<String>,
    /// Find out, when it has failed, whether Flux refused it.
    pub may_be_refused: bool,
    /// Flux's cleanup is registered when it has ended, if jobs are left.
    pub cleans_up: bool,
    /// Where it may leave a sentence about its failure.
    pub failure: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArchiveRun {
    /// Restored from if it is there when the broker starts; replaced at the end.
    pub path: PathBuf,
    /// Directory in the same place, the broker's own while it runs.
    pub staging: PathBuf,
    /// What Flux dumps to, in that directory.
    pub dump: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerRun {
    pub lead: AwaitLead,
    pub policy: WorkerPolicy,
    /// Where people end the instance, its lead comes back when its pod is lost, and a worker whose broker
    /// has ended well cannot know which of the two it was. If the lead's port closes within these seconds, it
    /// waits for the next lead; if not, it alone was asked to leave.
    pub lead_may_return_seconds: Option<u64>,
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
    /// What a stop may take.
    pub budget: Budget,
    /// Seconds after which this pod ends the run (`spec.deadlineSeconds`), if it is the one to do so.
    pub deadline_seconds: Option<u64>,
    /// A failing hook ends the run.
    pub strict: bool,
    /// Say nothing but errors.
    pub quiet: bool,
    /// Certificate with which a worker asks the lead; where it is mounted.
    pub certificate: PathBuf,
    /// What is done before the broker starts, in order.
    pub steps: Vec<Step>,
    /// The broker.
    pub broker: BrokerRun,
    /// What is done at the end, whatever happened.
    pub finish: Vec<Step>,
}
