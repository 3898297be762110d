//! What a stop may take: the pod's grace period, shared out among everything that comes between
//! SIGTERM and the kubelet's SIGKILL.

use crate::plan::submission::runs_one_job;
use flux_contract::{AgentConfig, SidecarConfig, Workload};
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Longest grace period that is counted with, in seconds: some 136 years.
const LONGEST: u64 = u32::MAX as u64;

/// What is to be done in a stop besides ending the main process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Duties {
    /// The initial program ends when the user's command has: it passes signals on to that, and what that
    /// prints to the log.
    command: bool,
    dump: bool,
    post: bool,
}

/// The shares of a grace period. No step of a stop has a limit of its own: all are here.
///
/// A worker first lets the jobs on its rank end, while the instance goes on. Else, in the order of a stop: the
/// command, Flux's cleanup (in which its jobs end), the brokers that
/// leave, the dump, what the broker itself needs, `commands.post`, and the reserve. What one does
/// not use is there for those that follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Budget {
    /// How long a worker lets the jobs on its rank run that nobody has ended.
    pub drain: Duration,
    /// How long the initial program may take to end before it is killed.
    pub command: Duration,
    /// How long Flux's cleanup may take (`broker.cleanup-timeout`).
    pub cleanup: Duration,
    /// How long, within the cleanup, a job has from SIGTERM to SIGKILL (`exec.kill-timeout`).
    pub jobs: Duration,
    /// How long the broker waits for those that it leads to leave (`broker.shutdown-timeout`).
    pub leave: Duration,
    /// How long after the stop the main process, the broker or a sidecar's command, is killed.
    pub main: Duration,
    /// How long after the stop `commands.post` is asked to end.
    pub post: Duration,
    /// How long after the stop whatever is left is killed, and nothing more is waited for.
    pub all: Duration,
    /// What is kept for the marker, the termination message and the exit code.
    pub reserve: Duration,
}

/// When a process is to end once a stop was asked for, counted from the stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub ask: Duration,
    pub kill: Duration,
    /// How long it is waited for after that: a process in the kernel's hands cannot be killed.
    pub patience: Duration,
}

impl Budget {
    pub(crate) fn of_runner(config: &AgentConfig) -> Self {
        let command = match &config.workload {
            Workload::Launcher { .. } => true,
            Workload::Submit { submission } => runs_one_job(submission),
            Workload::Interactive { .. } | Workload::Batch { .. } | Workload::Diagnostics {} => {
                false
            }
        };
        let (dump, post) = (config.archive.is_some(), config.hooks.post.is_some());
        Self::new(config.shutdown.grace_seconds, Duties { command, dump, post })
    }

    pub(crate) fn of_sidecar(config: &AgentConfig, sidecar: &SidecarConfig) -> Self {
        let post = sidecar.post.is_some();
        Self::new(config.shutdown.grace_seconds, Duties { post, ..Duties::default() })
    }

    /// Shares `grace_seconds` out among `duties`.
    ///
    /// Each share is a part of what is left by those before it; the caps are on those shares that a
    /// longer grace period is not asked for. What is left in the end is the cleanup's, and of it all
    /// but a rest is the jobs': who sets ten minutes so that jobs can save their state gets them.
    fn new(grace_seconds: u64, duties: Duties) -> Self {
        let share = |of: u64, part: u64, cap: u64| (of / part).min(cap);
        let when = |holds: bool, share: u64| if holds { share } else { 0 };
        let grace = grace_seconds.min(LONGEST) * 1000;
        let reserve = share(grace, 10, 2_000);
        let all = grace - reserve;
        let post = when(duties.post, share(all, 5, u64::MAX));
        let main = all - post;
        let dump = when(duties.dump, share(main, 4, u64::MAX));
        // rc3, unloading modules, and the end of the process.
        let broker = share(main, 10, 5_000);
        let rest = main - dump - broker;
        let leave = share(rest, 4, 10_000);
        // Any other command of Flux ends at the first signal.
        let command = if duties.command { (rest - leave) / 4 * 3 } else { share(rest, 10, 2_000) };
        let cleanup = rest - command - leave;
        // Nothing else of a worker takes its time: its broker kills what is left, and leaves.
        let drain = main - broker - share(main, 5, 5_000);
        let jobs = cleanup - share(cleanup, 4, 5_000);
        let post = all - share(post, 4, 1_000);
        let [drain, command, cleanup, jobs, leave, main, post, all, reserve] =
            [drain, command, cleanup, jobs, leave, main, post, all, reserve]
                .map(Duration::from_millis);
        Self { drain, command, cleanup, jobs, leave, main, post, all, reserve }
    }

    /// The limits of whatever runs when the stop comes: it is asked at once.
    pub(crate) fn for_main(&self) -> Limits {
        Limits { ask: Duration::ZERO, kill: self.main, patience: self.reserve / 2 }
    }

    /// The limits of `commands.post`, which is what there is to do in a stop: it is not asked to end
    /// before its time is over.
    pub(crate) const fn for_post(&self) -> Limits {
        Limits { ask: self.post, kill: self.all, patience: Duration::ZERO }
    }
}

impl Display for Budget {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { drain, command, cleanup, jobs, leave, main, post, all, reserve } = self;
        write!(
            out,
            "when told to stop: a worker's jobs {drain:?}; command {command:?}, cleanup {cleanup:?} \
             (jobs {jobs:?}), brokers that leave {leave:?}; the broker is killed after {main:?}; commands.post is asked to end after \
             {post:?} and killed after {all:?}; {reserve:?} are kept for the termination message"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn duties() -> impl Strategy<Value = Duties> {
        any::<(bool, bool, bool)>().prop_map(|(command, dump, post)| Duties { command, dump, post })
    }

    proptest! {
        #[test]
        fn the_shares_never_exceed_the_grace_period_less_the_reserve(
            grace in prop_oneof![Just(0), 0..1_000_u64, any::<u64>()],
            duties in duties(),
        ) {
            let budget = Budget::new(grace, duties);
            let grace = Duration::from_secs(grace.min(LONGEST));
            prop_assert_eq!(budget.all + budget.reserve, grace);
            prop_assert!(budget.command + budget.cleanup + budget.leave <= budget.main);
            prop_assert!(budget.jobs <= budget.cleanup);
            prop_assert!(budget.drain <= budget.main);
            prop_assert!(budget.main <= budget.post && budget.post <= budget.all);
            prop_assert_eq!(budget.main < budget.all, duties.post && grace > Duration::ZERO);
            // The time must be one that a clock can show.
            prop_assert!(std::time::Instant::now().checked_add(grace).is_some());
        }

        #[test]
        fn every_duty_has_a_share_wherever_there_is_a_second(grace in 1..100_000_u64) {
            let all = Duties { command: true, dump: true, post: true };
            let budget = Budget::new(grace, all);
            let others = budget.command + budget.cleanup + budget.leave;
            let dump = budget.main.saturating_sub(others);
            for share in [budget.command, budget.cleanup, budget.jobs, budget.leave, dump] {
                prop_assert!(share >= Duration::from_millis(50) * u32::try_from(grace.min(20)).unwrap());
            }
            prop_assert!(budget.all.saturating_sub(budget.main) >= Duration::from_millis(150));
        }
    }

    type Share = fn(Budget) -> Duration;

    /// Kubernetes' own grace period leaves jobs about as long as a pod would have, a command that has something to
    /// save gets most of the time, and who gives ten minutes gets nearly all of them for the jobs.
    #[test]
    fn shares_are_as_users_are_promised() {
        let (none, saves) = (Duties::default(), Duties { command: true, ..Duties::default() });
        let all = Duties { command: true, dump: true, post: true };
        let shares: [(u64, Duties, Share, f64); 11] = [
            (30, none, |budget| budget.jobs, 12.0),
            (30, none, |budget| budget.leave, 6.0),
            (30, none, |budget| budget.drain, 20.0),
            (30, all, |budget| budget.command, 8.0),
            (30, all, |budget| budget.jobs, 2.0),
            (30, saves, |budget| budget.command, 14.0),
            (60, saves, |budget| budget.command, 32.0),
            (600, saves, |budget| budget.command, 420.0),
            (600, none, |budget| budget.jobs, 570.0),
            (600, none, |budget| budget.drain, 585.0),
            (2, none, |budget| budget.jobs, 0.5),
        ];
        for (grace, duties, share, least) in shares {
            let budget = Budget::new(grace, duties);
            assert!(share(budget).as_secs_f64() > least, "{grace} {duties:?}: {budget:?}");
        }
        let plain = Budget::new(30, none);
        assert_eq!((plain.main.as_secs(), plain.reserve.as_secs()), (28, 2));
    }
}
