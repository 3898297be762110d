//! What a broker leaves behind: the shells of its jobs lead process groups of their own (flux-core,
//! libsubprocess), so that they outlive a broker that was killed, and would work on beside its
//! replacement.
//!
//! Orphans of this process' descendants are handed to it, because it is PID 1 or because it asked for
//! them (`PR_SET_CHILD_SUBREAPER`, where the pod shares one process namespace). So a leftover is a
//! child of ours that nobody here started and that was not there before the broker: not a daemon of
//! a hook, nor what such a daemon has started since, by its process group or its session. Whoever
//! entered the pod (`kubectl exec`) has another parent.

use crate::process::children::Children;
use crate::process::processes::{Process, processes};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Pause before looking whether a killed process is gone, and what it has left in turn.
const PAUSE: Duration = Duration::from_millis(10);

/// The processes that there were when this one had no broker.
#[derive(Debug)]
pub(crate) struct Before {
    processes: BTreeSet<(i32, u64)>,
    /// Their process groups and sessions, but for this process' own.
    groups: BTreeSet<i32>,
}

impl Before {
    pub(crate) fn now() -> Self {
        Self::of(&processes(), own_id())
    }

    fn of(processes: &[Process], own: i32) -> Self {
        let mut groups: BTreeSet<i32> =
            processes.iter().flat_map(|process| [process.group, process.session]).collect();
        for process in processes.iter().filter(|process| process.pid == own) {
            groups.remove(&process.group);
            groups.remove(&process.session);
        }
        let processes = processes.iter().map(|process| (process.pid, process.started)).collect();
        Self { processes, groups }
    }

    /// Whether `process` was there, or comes from what was.
    fn has(&self, process: &Process) -> bool {
        // Who leads a group has made it, whatever had its id before.
        let is_in = |group| group != process.pid && self.groups.contains(&group);
        self.processes.contains(&(process.pid, process.started))
            || is_in(process.group)
            || is_in(process.session)
    }

    /// Kills all that has come since and is not among `children`, until nothing is left or `patience`
    /// is over: what is killed leaves orphans in turn. Returns how many were killed, and how many of them
    /// are there all the same.
    pub(crate) async fn kill_newcomers(
        &self,
        children: &Children,
        patience: Duration,
    ) -> (usize, usize) {
        // Where there is no time at all: that of the kernel.
        let until = Instant::now() + patience.max(10 * PAUSE);
        let mut killed = BTreeSet::new();
        loop {
            let own = |pid| children.are_own(pid);
            let left = leftovers(&processes(), own_id(), own, self);
            for &pid in &left {
                killed.insert(pid);
                // It may have ended just now; or it is another user's and we may not.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            if left.is_empty() || Instant::now() >= until {
                return (killed.len(), left.len());
            }
            sleep(PAUSE).await;
        }
    }
}

/// The processes that are to go: children of `parent` that are neither its `own` nor were there `before`. What is below
/// them comes to this process when they are gone.
fn leftovers(
    processes: &[Process],
    parent: i32,
    own: impl Fn(i32) -> bool,
    before: &Before,
) -> Vec<i32> {
    let is_left = |process: &&Process| {
        process.parent == parent && !process.ended && !own(process.pid) && !before.has(process)
    };
    processes.iter().filter(is_left).map(|process| process.pid).collect()
}

fn own_id() -> i32 {
    nix::unistd::getpid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process in the session of process 1, with a group of its own.
    fn process_of(pid: i32, parent: i32, started: u64) -> Process {
        let name = String::new();
        Process { pid, name, parent, group: pid, session: 1, started, ended: false }
    }

    #[test]
    fn leftovers_are_orphans_since_the_broker_and_nobody_elses() {
        let before = [
            process_of(1, 0, 0),
            // Daemons of a hook, of which one has a session of its own.
            process_of(10, 1, 5),
            Process { session: 17, ..process_of(17, 1, 6) },
            process_of(9, 1, 4),
        ];
        let ended = Process { ended: true, ..process_of(16, 1, 70) };
        let processes = [
            process_of(1, 0, 0),
            // A daemon, with a child that came later and one that has lost its parent.
            process_of(10, 1, 5),
            process_of(11, 10, 60),
            Process { group: 10, ..process_of(18, 1, 61) },
            // The other daemon has ended; what it started goes on.
            Process { session: 17, ..process_of(19, 1, 62) },
            // Our own child, with one of its own.
            process_of(12, 1, 50),
            process_of(13, 12, 51),
            // The shell of a job, and its task.
            process_of(14, 1, 55),
            process_of(15, 14, 56),
            ended,
            // Somebody in the pod.
            process_of(20, 0, 80),
            process_of(21, 20, 81),
            // A new process with the id of an old one.
            process_of(9, 1, 90),
        ];
        let before = Before::of(&before, 1);
        assert_eq!(leftovers(&processes, 1, |pid| pid == 12, &before), [14, 9]);
    }
}
