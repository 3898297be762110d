//! The terminal of a container, where it has one.

use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg};
use nix::unistd::{Pid, tcsetpgrp};
use std::io::{self, IsTerminal};

/// Gives `group` the terminal. It belongs to one process group at a time, and who reads from it in another
/// one is stopped. Where there is none, or it is not ours, nothing happens.
pub(crate) fn give_terminal(group: Pid) {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return;
    }
    // Once it was given away, this process is in the background. There the kernel refuses (EIO: nobody
    // could continue a stopped PID 1) unless this signal is blocked.
    let masked = SigSet::from(Signal::SIGTTOU).thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let _ = tcsetpgrp(stdin, group);
    if let Ok(before) = masked {
        let _ = before.thread_set_mask();
    }
    // It may have read already, and have been stopped.
    let _ = killpg(group, Signal::SIGCONT);
}
