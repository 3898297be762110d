//! The terminal of a container, where it has one.

use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg};
use nix::unistd::{Pid, tcsetpgrp};
use std::io::{self, IsTerminal};

/// Gives `group` the terminal, if there is one that this process may give. It belongs to one process group at a time, and
/// the kernel stops a process of another group that reads from it.
pub(crate) fn give_terminal(group: Pid) {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return;
    }
    // Once the terminal was given away, this process is in the background. There the kernel refuses (EIO: no process could
    // continue a stopped PID 1) unless this signal is blocked.
    let masked = SigSet::from(Signal::SIGTTOU).thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let _ = tcsetpgrp(stdin, group);
    if let Ok(before) = masked {
        let _ = before.thread_set_mask();
    }
    // The group may have been stopped at a read.
    let _ = killpg(group, Signal::SIGCONT);
}
