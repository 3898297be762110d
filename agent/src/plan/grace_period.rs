//! The pod's grace period, divided among everything that comes between SIGTERM and the kubelet's SIGKILL.

use crate::plan::bulk::runs_one_job;
use flux_contract::{AgentConfig, SidecarConfig, Workload};
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Longest grace period that is counted with, in seconds: some 136 years.
const LONGEST: u64 = u32::MAX as u64;

/// Steps of a shutdown besides the end of the main process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ShutdownSteps {
    /// The lead's command ends when the user's job has: it passes signals on to the job, and the output of that to the log.
    command: bool,
    dump: bool,
    post: bool,
}

/// The shares of a grace period. No step of a stop has a limit of its own: all are here.
///
/// A worker first lets the jobs on its rank end, while the instance goes on. The order of a lead is: the command, Flux's
/// cleanup (in which its jobs end), the brokers that leave, the dump, the end of the broker itself, `commands.post`, and
/// the reserve. The time that one step does not use is left for the next ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct GracePeriod {
    /// How long a worker lets the jobs on its rank go on.
    pub drain: Duration,
    /// How long the command may take to end before it is killed.
    pub command: Duration,
    /// How long Flux's cleanup may take (`broker.cleanup-timeout`).
    pub cleanup: Duration,
    /// How long, within the cleanup, a job has from SIGTERM to SIGKILL (`exec.kill-timeout`).
    pub jobs: Duration,
    /// How long the broker waits for its children to leave (`broker.shutdown-timeout`).
    pub leave: Duration,
    /// How long after the stop the main process, the broker or a sidecar's command, is killed.
    pub main: Duration,
    /// How long after the stop `commands.post` is asked to end.
    pub post: Duration,
    /// How long after the stop everything that is left is killed.
    pub all: Duration,
    /// The time that is kept for the marker, the termination message and the exit code.
    pub reserve: Duration,
}

/// When a process gets SIGTERM and SIGKILL, counted from the stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StopTimeouts {
    pub term: Duration,
    pub kill: Duration,
    /// How long after SIGKILL the end is waited for: a process that waits in the kernel cannot be killed.
    pub give_up: Duration,
}

impl GracePeriod {
    pub(crate) fn of_runner(config: &AgentConfig) -> Self {
        let command = match &config.workload {
            Workload::Launcher { .. } => true,
            Workload::Submit { submission } => runs_one_job(submission),
            Workload::Interactive { .. } | Workload::Batch { .. } | Workload::Diagnostics {} => {
                false
            }
        };
        let (dump, post) = (config.archive.is_some(), config.hooks.post.is_some());
        Self::new(config.shutdown.grace_seconds, ShutdownSteps { command, dump, post })
    }

    pub(crate) fn of_sidecar(config: &AgentConfig, sidecar: &SidecarConfig) -> Self {
        let post = sidecar.post.is_some();
        Self::new(config.shutdown.grace_seconds, ShutdownSteps { post, ..ShutdownSteps::default() })
    }

    /// Divides `grace_seconds` among `steps`.
    ///
    /// Each share is a part of the time that the shares before it have left. Shares for which nobody sets a longer grace
    /// period have a limit. The cleanup has the rest, and nearly all of that is the jobs': users set ten minutes so that
    /// jobs can save their state.
    fn new(grace_seconds: u64, steps: ShutdownSteps) -> Self {
        let share = |of: u64, part: u64, cap: u64| (of / part).min(cap);
        let when = |holds: bool, share: u64| if holds { share } else { 0 };
        let grace = grace_seconds.min(LONGEST) * 1000;
        let reserve = share(grace, 10, 2_000);
        let all = grace - reserve;
        let post = when(steps.post, share(all, 5, u64::MAX));
        let main = all - post;
        let dump = when(steps.dump, share(main, 4, u64::MAX));
        // rc3, unloading modules, and the end of the process.
        let broker = share(main, 10, 5_000);
        let rest = main - dump - broker;
        let leave = share(rest, 4, 10_000);
        // Any other command of Flux ends at the first signal.
        let command = if steps.command { (rest - leave) / 4 * 3 } else { share(rest, 10, 2_000) };
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

    /// Those of a process that runs when the stop comes.
    pub(crate) fn of_main_process(&self) -> StopTimeouts {
        StopTimeouts { term: Duration::ZERO, kill: self.main, give_up: self.reserve / 2 }
    }

    /// Those of `commands.post`, which a stop leaves its time.
    pub(crate) const fn of_post_hook(&self) -> StopTimeouts {
        StopTimeouts { term: self.post, kill: self.all, give_up: Duration::ZERO }
    }
}

impl Display for GracePeriod {
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

    proptest! {
        #[test]
        fn the_shares_never_exceed_the_grace_period_less_the_reserve(
            grace in prop_oneof![Just(0), 0..1_000_u64, any::<u64>()],
            [command, dump, post] in any::<[bool; 3]>(),
        ) {
            let steps = ShutdownSteps { command, dump, post };
            let period = GracePeriod::new(grace, steps);
            let grace = Duration::from_secs(grace.min(LONGEST));
            prop_assert_eq!(period.all + period.reserve, grace);
            prop_assert!(period.command + period.cleanup + period.leave <= period.main);
            prop_assert!(period.jobs <= period.cleanup);
            prop_assert!(period.drain <= period.main);
            prop_assert!(period.main <= period.post && period.post <= period.all);
            prop_assert_eq!(period.main < period.all, steps.post && grace > Duration::ZERO);
            // The time must be one that a clock can show.
            prop_assert!(std::time::Instant::now().checked_add(grace).is_some());
        }

        #[test]
        fn every_step_has_a_share_wherever_there_is_a_second(grace in 1..100_000_u64) {
            let all = ShutdownSteps { command: true, dump: true, post: true };
            let period = GracePeriod::new(grace, all);
            let others = period.command + period.cleanup + period.leave;
            let dump = period.main.saturating_sub(others);
            for share in [period.command, period.cleanup, period.jobs, period.leave, dump] {
                prop_assert!(share >= Duration::from_millis(50) * u32::try_from(grace.min(20)).unwrap());
            }
            prop_assert!(period.all.saturating_sub(period.main) >= Duration::from_millis(150));
        }
    }

    type Share = fn(GracePeriod) -> Duration;

    /// Kubernetes' own grace period leaves jobs about as long as a pod would have, a command that has something to
    /// save gets most of the time, and who gives ten minutes gets nearly all of them for the jobs.
    #[test]
    fn shares_are_as_users_are_promised() {
        let (none, saves) =
            (ShutdownSteps::default(), ShutdownSteps { command: true, ..ShutdownSteps::default() });
        let all = ShutdownSteps { command: true, dump: true, post: true };
        let shares: [(u64, ShutdownSteps, Share, f64); 11] = [
            (30, none, |period| period.jobs, 12.0),
            (30, none, |period| period.leave, 6.0),
            (30, none, |period| period.drain, 20.0),
            (30, all, |period| period.command, 8.0),
            (30, all, |period| period.jobs, 2.0),
            (30, saves, |period| period.command, 14.0),
            (60, saves, |period| period.command, 32.0),
            (600, saves, |period| period.command, 420.0),
            (600, none, |period| period.jobs, 570.0),
            (600, none, |period| period.drain, 585.0),
            (2, none, |period| period.jobs, 0.5),
        ];
        for (grace, steps, share, least) in shares {
            let period = GracePeriod::new(grace, steps);
            assert!(share(period).as_secs_f64() > least, "{grace} {steps:?}: {period:?}");
        }
        let plain = GracePeriod::new(30, none);
        assert_eq!((plain.main.as_secs(), plain.reserve.as_secs()), (28, 2));
    }
}
