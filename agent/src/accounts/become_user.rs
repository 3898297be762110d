//! `flux-agent exec`: becomes another user and then another program, under the same process id.
//!
//! A re-execution instead of a closure between fork and exec, which could not be written without
//! `unsafe`.

use crate::process::exit_status::start_failure_code;
use crate::system::output::chain;
use crate::system::subcommand::{EXEC, call};
use caps::errors::CapsError;
use caps::{CapSet, CapsHashSet};
use clap::Args;
use flux_contract::Exit;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Whom to become.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct Target {
    /// User id.
    #[arg(long)]
    pub uid: u32,
    /// Group id.
    #[arg(long)]
    pub gid: u32,
    /// Supplementary groups.
    #[arg(long, value_delimiter = ',')]
    pub groups: Vec<u32>,
    /// Root's capabilities to keep, as Kubernetes writes them (`IPC_LOCK`, `ALL`); those that the
    /// container does not have are left out.
    #[arg(long, value_delimiter = ',')]
    pub capabilities: Vec<String>,
}

impl Target {
    /// The command line of `agent` that becomes this user and then `words`.
    pub(crate) fn command(&self, agent: &Path, words: &[String]) -> Vec<String> {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        let mut all = call(agent, EXEC);
        all.extend([format!("--uid={}", self.uid), format!("--gid={}", self.gid)]);
        if !groups.is_empty() {
            all.push(format!("--groups={}", groups.join(",")));
        }
        if !self.capabilities.is_empty() {
            all.push(format!("--capabilities={}", self.capabilities.join(",")));
        }
        all.push("--".to_owned());
        all.extend_from_slice(words);
        all
    }
}

/// Why the program did not become another.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecError {
    /// The kernel refused another user or group.
    #[error(
        "become uid {uid} gid {gid}: the container lacks the capabilities SETUID and SETGID; keep them, or start the container as another user than root"
    )]
    Identity {
        /// The user asked for.
        uid: u32,
        /// The group asked for.
        gid: u32,
        #[source]
        source: io::Error,
    },
    /// The kernel refused to keep capabilities.
    #[error("keep the capabilities {names} as uid {uid}")]
    Capabilities {
        /// Those asked for.
        names: String,
        /// The user who was to have them.
        uid: u32,
        #[source]
        source: CapsError,
    },
    /// The program could not be executed.
    #[error("start {program:?}")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
}

impl ExecError {
    /// The code to end with: 126 or 127 as shells do, or that of a failed preparation.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Identity { .. } | Self::Capabilities { .. } => Exit::Prepare.code(),
            Self::Start { source, .. } => start_failure_code(source),
        }
    }

    pub(crate) fn text(&self) -> String {
        chain(self)
    }
}

/// Becomes `target`, if there is one, and then `words`; returns only when that failed.
pub(crate) fn exec(target: Option<&Target>, words: &[String]) -> ExecError {
    if let Some(Err(error)) = target.map(change_user) {
        return error;
    }
    let program = words.first().cloned().unwrap_or_default();
    let source = Command::new(&program).args(words.iter().skip(1)).exec();
    ExecError::Start { program, source }
}

/// Groups first: afterwards the right to change them is gone.
pub(crate) fn change_user(target: &Target) -> Result<(), ExecError> {
    let Target { uid, gid, groups, capabilities } = target;
    let denied =
        |errno: nix::Error| ExecError::Identity { uid: *uid, gid: *gid, source: errno.into() };
    let lost =
        |source| ExecError::Capabilities { names: capabilities.join(", "), uid: *uid, source };
    let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
    let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
    let retained = capabilities_to_retain(capabilities).map_err(lost)?;
    caps::securebits::set_keepcaps(!retained.is_empty()).map_err(lost)?;
    setgroups(&groups).map_err(denied)?;
    setresgid(gid, gid, gid).map_err(denied)?;
    setresuid(uid, uid, uid).map_err(denied)?;
    if !retained.is_empty() {
        // What is ambient stays through execve(2) of programs without privileges (capabilities(7)).
        for set in [CapSet::Inheritable, CapSet::Ambient, CapSet::Permitted] {
            caps::set(None, set, &retained).map_err(lost)?;
        }
    }
    Ok(())
}

/// Those of `wanted` that this process has.
fn capabilities_to_retain(wanted: &[String]) -> Result<CapsHashSet, CapsError> {
    if wanted.is_empty() {
        return Ok(CapsHashSet::new());
    }
    let mut had = caps::read(None, CapSet::Permitted)?;
    let wanted: Vec<String> = wanted.iter().map(|name| caps::to_canonical(name)).collect();
    let all = wanted.iter().any(|name| name == "CAP_ALL");
    had.retain(|capability| all || wanted.contains(&capability.to_string()));
    Ok(had)
}
