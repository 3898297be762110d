//! States and results of jobs (RFC 21), and the numbers that flux-core gives them (`src/common/libjob/job.h`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// State of a job. A job that Flux has not validated yet has none of these: Flux does not list it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// The job waits for its dependencies.
    Depend = 2,
    /// The job waits for its priority.
    Priority = 4,
    /// The job waits for resources.
    Sched = 8,
    /// The job runs.
    Run = 16,
    /// The job has run; Flux frees its resources.
    Cleanup = 32,
    /// The job has ended.
    Inactive = 64,
}

impl JobState {
    /// All states, in the order in which a job has them.
    pub const ALL: [Self; 6] =
        [Self::Depend, Self::Priority, Self::Sched, Self::Run, Self::Cleanup, Self::Inactive];
    /// Numbers of the states before a job runs, added.
    pub const PENDING: u32 = Self::Depend.number() | Self::Priority.number() | Self::Sched.number();
    /// Numbers of the states in which a job has resources, added.
    pub const RUNNING: u32 = Self::Run.number() | Self::Cleanup.number();
    /// Numbers of the states of a job that has not ended, added.
    pub const ACTIVE: u32 = Self::PENDING | Self::RUNNING;

    /// The number of the state.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The state with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.number() == number)
    }

    /// The name of the state in small letters, as job-list counts jobs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Depend => "depend",
            Self::Priority => "priority",
            Self::Sched => "sched",
            Self::Run => "run",
            Self::Cleanup => "cleanup",
            Self::Inactive => "inactive",
        }
    }

    /// The state that a job reaches with the event `name` of its eventlog, if the event changes the state.
    pub fn after_event(name: &str) -> Option<Self> {
        match name {
            "depend" => Some(Self::Priority),
            "priority" => Some(Self::Sched),
            "alloc" => Some(Self::Run),
            "finish" => Some(Self::Cleanup),
            "clean" => Some(Self::Inactive),
            _ => None,
        }
    }
}

/// Status of a job as `flux jobs` shows it: the state of a job that has not ended, the result of one that has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobStatus {
    /// The job is new, or waits for its dependencies or its priority.
    Depend,
    /// The job waits for resources.
    Sched,
    /// The job runs.
    Run,
    /// The job has run; Flux frees its resources.
    Cleanup,
    /// The job has ended successfully.
    Completed,
    /// The job has failed.
    Failed,
    /// Somebody has canceled the job.
    Canceled,
    /// The job has reached its time limit.
    Timeout,
}

impl JobStatus {
    /// The status of a job by the numbers of its state and its result.
    pub fn from_numbers(state: u32, result: Option<u32>) -> Self {
        match (JobState::from_number(state), result) {
            (Some(JobState::Sched), _) => Self::Sched,
            (Some(JobState::Run), _) => Self::Run,
            (Some(JobState::Cleanup), _) => Self::Cleanup,
            (Some(JobState::Inactive), Some(1)) => Self::Completed,
            (Some(JobState::Inactive), Some(4)) => Self::Canceled,
            (Some(JobState::Inactive), Some(8)) => Self::Timeout,
            (Some(JobState::Inactive), _) => Self::Failed,
            (Some(JobState::Depend | JobState::Priority) | None, _) => Self::Depend,
        }
    }

    /// The job has not ended.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Depend | Self::Sched | Self::Run | Self::Cleanup)
    }

    /// The job waits to run.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::Depend | Self::Sched)
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_numbers_of_flux() {
        assert_eq!((JobState::PENDING, JobState::RUNNING, JobState::ACTIVE), (14, 48, 62));
        for state in JobState::ALL {
            assert_eq!(JobState::from_number(state.number()), Some(state));
        }
        assert_eq!(JobState::from_number(1), None);
    }

    #[test]
    fn a_status_is_a_state_or_a_result() {
        for (state, result, status) in [
            (1, None, JobStatus::Depend),
            (4, None, JobStatus::Depend),
            (16, None, JobStatus::Run),
            (64, Some(1), JobStatus::Completed),
            (64, Some(2), JobStatus::Failed),
            (64, Some(4), JobStatus::Canceled),
            (64, Some(8), JobStatus::Timeout),
            (64, None, JobStatus::Failed),
        ] {
            assert_eq!(JobStatus::from_numbers(state, result), status, "{state} {result:?}");
        }
    }
}
