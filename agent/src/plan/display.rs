//! The text form of a plan.

use crate::plan::step::{
    AccountChoice, ArchiveRun, AwaitLead, BrokerRun, FileToWrite, Hook, Plan, Step, WorkerRun,
};
use crate::system::words::shown;
use flux_contract::WorkerPolicy;
use std::fmt::{self, Write as _};
use std::path::Path;

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
            Self::UseAccount { choice, fallback_home } => account(formatter, choice, fallback_home),
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
            Self::InstallCertificate { from, to, link } => {
                let [from, to, link] = [from, to, link].map(|path| path.display());
                write!(
                    formatter,
                    "copy the CURVE certificate {from} to {to} (0600, broker's user) and link {link} to it"
                )
            }
            Self::InstallMungeKey { from, to, owner } => munge_key(formatter, from, to, *owner),
            Self::ChangeEnvironment { changes } => {
                formatter.write_str("change the environment:")?;
                changes.iter().try_for_each(|change| write!(formatter, " {change}"))
            }
            Self::FindFlux => formatter.write_str("find flux on the PATH"),
            Self::AdoptWorkingDirectory => formatter
                .write_str("hand the working directory to the broker's user if it is the image's"),
            Self::EncodeResources { command, cores, path } => {
                let (command, path) = (shown(command), path.display());
                write!(
                    formatter,
                    "write what {command:?} prints to {path}, at most {cores} cores a host"
                )
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

fn account(
    formatter: &mut fmt::Formatter<'_>,
    choice: &AccountChoice,
    fallback_home: &Path,
) -> fmt::Result {
    match choice {
        AccountChoice::Ensure { name, uid, home, more_groups, capabilities } => {
            write!(
                formatter,
                "run Flux as user {name}, made with uid {uid} and home {} unless the image has it",
                home.display()
            )?;
            if !more_groups.is_empty() {
                write!(formatter, ", with the pod's groups {more_groups:?}")?;
            }
            if !capabilities.is_empty() {
                write!(formatter, ", with the capabilities {}", capabilities.join(", "))?;
            }
            Ok(())
        }
        AccountChoice::Keep { name, uid, gid, home } => write!(
            formatter,
            "run Flux as the container's own user {name} ({uid}:{gid}), home {}",
            home.as_deref().unwrap_or(fallback_home).display()
        ),
    }
}

fn munge_key(
    formatter: &mut fmt::Formatter<'_>,
    from: &Path,
    to: &Path,
    owner: Option<(u32, u32)>,
) -> fmt::Result {
    write!(formatter, "copy the munge key {} to {} (0400, ", from.display(), to.display())?;
    match owner {
        Some((uid, gid)) => write!(formatter, "munge's user {uid}:{gid})"),
        None => formatter.write_str("container's user)"),
    }
}

impl fmt::Display for FileToWrite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, mode, content } = self;
        write!(formatter, "write {} ({mode:04o})", path.display())?;
        if formatter.alternate() { formatter.write_str(&indented(content)) } else { Ok(()) }
    }
}

impl fmt::Display for AwaitLead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, name, port, deadline_seconds } = self;
        write!(formatter, "wait for the lead broker at ")?;
        if let Some(address) = address {
            write!(formatter, "{address}, else ")?;
        }
        write!(formatter, "{name}, port {port}, at most {deadline_seconds} s")
    }
}

impl fmt::Display for BrokerRun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(WorkerRun { lead, policy, lead_may_return_seconds }) = &self.worker {
            writeln!(formatter, "{lead}")?;
            write!(formatter, "when the broker ends: {}", policy_text(*policy))?;
            if let Some(seconds) = lead_may_return_seconds {
                write!(
                    formatter,
                    "; if the lead closes its port within {seconds} s, wait for another"
                )?;
            }
            formatter.write_str("\n")?;
        }
        write!(formatter, "start the broker: {}", shown(&self.command_with_quorum()))?;
        if let Some(ArchiveRun { path, dump, staging: _ }) = &self.archive {
            let (path, dump) = (path.display(), dump.display());
            write!(formatter, "\n    restored from {path} if it exists")?;
            write!(formatter, "\n    dumped to {dump}, renamed to {path} when whole")?;
        }
        if let Some(command) = &self.lead_command {
            write!(formatter, "\n    once it runs, and ending with it: {}", shown(&command.words))?;
        }
        if let Some(submission) = &self.submission {
            write!(formatter, "\n    once it runs: {}", shown(submission))?;
        }
        if let Some(entrance) = &self.entrance {
            write!(formatter, "\n    to enter it: {entrance}")?;
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
        for step in &self.steps {
            step.fmt(formatter)?;
            formatter.write_str("\n")?;
        }
        writeln!(formatter, "{}", self.broker)?;
        if let Some(seconds) = self.deadline_seconds {
            writeln!(formatter, "after {seconds} s: end the run")?;
        }
        writeln!(formatter, "{}", self.budget)?;
        for step in &self.finish {
            formatter.write_str("finally: ")?;
            step.fmt(formatter)?;
            formatter.write_str("\n")?;
        }
        Ok(())
    }
}
