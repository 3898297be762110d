//! `flux-agent exec`: becomes another user and then another program, under the same process id.
//!
//! A re-execution instead of a closure between fork and exec, which could not be written without
//! `unsafe`.

use crate::output::chain;
use crate::program::start_failure_code;
use flux_contract::Exit;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Whom to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// Why the program did not become another.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The kernel refused another user or group.
    #[error(
        "become uid {uid} gid {gid}: the container lacks the capabilities SETUID and SETGID; keep them, or start the container as another user than root"
    )]
    Identity {
        /// The user asked for.
        uid: u32,
        /// The group asked for.
        gid: u32,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The program could not be executed.
    #[error("start {program:?}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl ExecError {
    /// The code to end with: 126 or 127 as shells do, or that of a failed preparation.
    pub fn code(&self) -> u8 {
        match self {
            Self::Identity { .. } => Exit::Prepare.code(),
            Self::Start { source, .. } => start_failure_code(source),
        }
    }

    /// What to say.
    pub fn text(&self) -> String {
        chain(self)
    }
}

/// Becomes `target` and then `words`; returns only when that failed.
pub fn exec(target: &Target, words: &[String]) -> ExecError {
    if let Err(errno) = change_user(target) {
        let Target { uid, gid, .. } = *target;
        return ExecError::Identity { uid, gid, source: errno.into() };
    }
    let program = words.first().cloned().unwrap_or_default();
    let source = Command::new(&program).args(words.iter().skip(1)).exec();
    ExecError::Start { program, source }
}

/// Groups first: afterwards the right to change them is gone.
fn change_user(target: &Target) -> nix::Result<()> {
    let groups: Vec<Gid> = target.groups.iter().copied().map(Gid::from_raw).collect();
    let (uid, gid) = (Uid::from_raw(target.uid), Gid::from_raw(target.gid));
    setgroups(&groups)?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)
}
