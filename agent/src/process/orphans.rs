//! Orphans of a broker: the shells of its jobs lead process groups of their own (flux-core, libsubprocess), so that they
//! outlive a broker that was killed, and would work on beside the next one.
//!
//! The kernel hands orphans of this process' descendants to it, because it is PID 1 or because it is their subreaper
//! (`PR_SET_CHILD_SUBREAPER`, where the pod shares one process namespace). So an orphan of the broker is a child of this
//! process that this process has not started and that was not there before the broker. A daemon of a hook is none, nor are
//! the processes that such a daemon has started since, by its process group or its session. The
//! processes of `kubectl exec` have another parent.

use crate::process::children::Children;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};
use procfs::process::{Stat, all_processes};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Pause before the next look whether a killed process is gone, and which orphans it has left in turn.
const PAUSE: Duration = Duration::from_millis(10);

/// The processes that there were when this one had no broker.
#[derive(Debug)]
pub(crate) struct ProcessSnapshot {
    processes: BTreeSet<(i32, u64)>,
    /// Their process groups and sessions, but for this process' own.
    groups: BTreeSet<i32>,
}

impl ProcessSnapshot {
    pub(crate) fn now() -> Self {
        Self::of(&processes(), getpid().as_raw())
    }

    fn of(processes: &[Stat], own: i32) -> Self {
        let groups = |process: &Stat| [process.pgrp, process.session];
        let (own, others): (Vec<&Stat>, _) = processes.iter().partition(|it| it.pid == own);
        let own: BTreeSet<i32> = own.into_iter().flat_map(groups).collect();
        let others: BTreeSet<i32> = others.into_iter().flat_map(groups).collect();
        let processes = processes.iter().map(|process| (process.pid, process.starttime)).collect();
        Self { processes, groups: &others - &own }
    }

    /// Whether `process` was there, or comes from a process that was.
    fn has(&self, process: &Stat) -> bool {
        // The leader of a group has made it, whatever process had its id before.
        let is_in = |group| group != process.pid && self.groups.contains(&group);
        self.processes.contains(&(process.pid, process.starttime))
            || is_in(process.pgrp)
            || is_in(process.session)
    }

    /// Kills the orphans that have come since and are not among `children`, until none is left or `patience` is over: a
    /// killed process leaves orphans in turn. The result is how many were killed, and how many of them are still there.
    pub(crate) async fn kill_orphans_since(
        &self,
        children: &Children,
        patience: Duration,
    ) -> (usize, usize) {
        // Without any time, the kernel needs a moment all the same.
        let until = Instant::now() + patience.max(10 * PAUSE);
        let mut killed = BTreeSet::new();
        loop {
            let left = self.orphans(&processes(), getpid().as_raw(), |pid| children.are_own(pid));
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

    /// Those of `processes` that have to be killed: children of `parent` that are neither its `own` nor were there before.
    /// Their children come to this process when they are gone.
    fn orphans(&self, processes: &[Stat], parent: i32, own: impl Fn(i32) -> bool) -> Vec<i32> {
        let has_ended = |process: &Stat| ['Z', 'X', 'x'].contains(&process.state);
        let is_left = |process: &&Stat| {
            process.ppid == parent && !has_ended(process) && !own(process.pid) && !self.has(process)
        };
        processes.iter().filter(is_left).map(|process| process.pid).collect()
    }
}

/// The processes of `group` that have not ended, each with its state (`proc_pid_stat(5)`), for a message.
pub(crate) fn members(group: Pid) -> Vec<String> {
    let all = processes();
    let members = all.iter().filter(|it| it.pgrp == group.as_raw() && it.state != 'Z');
    let shown = |it: &Stat| {
        let waits = if it.state == 'D' { ", which waits in the kernel" } else { "" };
        format!("process {}, {}, state {}{waits}", it.pid, it.comm, it.state)
    };
    members.map(shown).collect()
}

/// The processes that this one sees, without those that have ended meanwhile.
fn processes() -> Vec<Stat> {
    let processes = all_processes().into_iter().flatten().flatten();
    processes.filter_map(|process| process.stat().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead;

    /// A process as `/proc/PID/stat` shows it. The name, in parentheses, may hold anything.
    fn process([pid, parent, group, session, started]: [i32; 5]) -> Stat {
        let times = "0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0";
        let rest = "1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 0 0 0";
        let ids = format!("{parent} {group} {session}");
        let line = format!("{pid} (a) R 7 (b) S {ids} {times} {started} {rest}");
        Stat::from_read(line.as_bytes()).unwrap()
    }

    #[test]
    fn orphans_of_the_broker_are_told_from_other_processes() {
        let before = [
            [1, 0, 1, 1, 0],
            // Daemons of a hook, of which one has a session of its own.
            [10, 1, 10, 1, 5],
            [17, 1, 17, 17, 6],
            [9, 1, 9, 1, 4],
        ];
        let mut processes = [
            // It has ended.
            [16, 1, 16, 1, 70],
            [1, 0, 1, 1, 0],
            // A daemon, with a child that came later and one that has lost its parent.
            [10, 1, 10, 1, 5],
            [11, 10, 11, 1, 60],
            [18, 1, 10, 1, 61],
            // The other daemon has ended; what it started goes on.
            [19, 1, 19, 17, 62],
            // Our own child, with one of its own.
            [12, 1, 12, 1, 50],
            [13, 12, 13, 1, 51],
            // The shell of a job, and its task.
            [14, 1, 14, 1, 55],
            [15, 14, 15, 1, 56],
            // Somebody in the pod.
            [20, 0, 20, 1, 80],
            [21, 20, 21, 1, 81],
            // A new process with the id of an old one.
            [9, 1, 9, 1, 90],
        ]
        .map(process);
        processes[0].state = 'Z';
        let before = ProcessSnapshot::of(&before.map(process), 1);
        assert_eq!(before.orphans(&processes, 1, |pid| pid == 12), [14, 9]);
    }

    #[test]
    fn this_process_is_among_those_that_are_seen() {
        let own = processes().into_iter().find(|process| process.pid == getpid().as_raw());
        assert_eq!(own.unwrap().ppid, nix::unistd::getppid().as_raw());
    }
}
