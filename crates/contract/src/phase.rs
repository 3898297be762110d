//! Names of the phases of a run, for [`crate::Phase::name`].

/// Files, accounts, environment.
pub const PREPARE: &str = "prepare";
/// Scripts of the user before the broker starts.
pub const HOOKS: &str = "hooks";
/// A worker waits for the lead.
pub const WAIT_FOR_LEAD: &str = "wait-for-lead";
/// From the start of the broker to the start of the command (on workers: to being online).
pub const QUORUM: &str = "quorum";
/// The command runs; on workers: the broker is online.
pub const COMMAND: &str = "command";
/// From the end of the command to the end of the broker.
pub const SHUTDOWN: &str = "shutdown";
/// `commands.post`.
pub const POST: &str = "post";

/// All phases.
pub const ALL: [&str; 7] = [PREPARE, HOOKS, WAIT_FOR_LEAD, QUORUM, COMMAND, SHUTDOWN, POST];
