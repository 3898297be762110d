//! The status of a MiniCluster. The operator never decides by it, but keeps in it facts of a finished run whose pods
//! are gone, such as timeline and size.

use arrayvec::ArrayString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::fmt;

/// What the operator observed.
#[skip_serializing_none]
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MiniClusterStatus {
    /// Pods of the Job, as the scale subresource reports them.
    #[serde(default)]
    pub size: i32,

    /// Label selector of the pods, for autoscalers.
    #[serde(default)]
    pub selector: String,

    /// Flux's id of the command's job, once that has ended; empty where the command was no single job.
    #[serde(default)]
    pub jobid: String,

    /// Hosts registered with Flux: the size cannot exceed it.
    #[serde(default)]
    pub maximum_size: i32,

    /// The conditions in one word.
    /// - `Pending`: accepted; no pod runs yet.
    /// - `Starting`: pods run; not enough brokers are online.
    /// - `Running`: the brokers that are needed are online.
    /// - `Degraded`: the lead was ready and is not any more, for longer than a moment.
    /// - `Ending`: the lead has ended, or the Job was suspended, and pods are left; or another lead is to follow.
    /// - `Complete`: the command ended with exit code 0.
    /// - `Failed`: the command failed, or could not be run.
    /// - `Suspended`: the Job is suspended.
    /// - `Invalid`: the specification was refused: see the condition `Accepted`.
    pub state: Option<State>,

    /// The reason of the most important condition: of `Complete` or `Failed` after the end, of `Accepted` if nothing
    /// runs because the specification was refused, else of `Progressing`.
    pub reason: Option<String>,

    /// Brokers that are online, in pods of which no sidecar has failed; none once it has finished.
    #[serde(default)]
    pub ready_brokers: i32,

    /// Exit code of the command, once it has ended; of the broker where it never ran.
    pub exit_code: Option<i32>,

    /// How the run ended and what of it failed, once it has ended. It stays when the pods are gone.
    pub result: Option<RunResult>,

    /// `spec.runId` with which the run was started.
    pub run_id: Option<String>,

    /// When the Job was started.
    pub start_time: Option<Time>,

    /// When the run ended: when the lead's container did, or the Job.
    pub completion_time: Option<Time>,

    /// Generation of the specification this status answers; -1 until the operator has written one.
    pub observed_generation: Option<i64>,

    /// Conditions: Accepted, Progressing, Ready, Suspended, Complete, Failed; with `autoscale` also Autoscaling, with
    /// `flux.rest` also `RestReady`; and Stalled or Reconciling where they hold, as kstatus defines them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,

    /// How the agent and the view came into the pods.
    pub install: Option<Installed>,

    /// Phases of the lead's run, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(length(max = 64))]
    pub timeline: Vec<TimelineEntry>,

    /// The last five runs that have ended, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(length(max = 16))]
    pub history: Vec<PastRun>,
}

impl MiniClusterStatus {
    /// True when the run has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.state, Some(State::Complete | State::Failed))
    }

    /// When the run has ended; `None` before the end.
    pub fn ended_at(&self) -> Option<&Time> {
        let end = self.end()?;
        Some(self.completion_time.as_ref().unwrap_or(&end.last_transition_time))
    }

    /// The condition with the end of the run; `None` before the end.
    pub fn end(&self) -> Option<&Condition> {
        let type_ = self.state.filter(|_| self.is_over())?.summary_condition();
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

/// How a run has ended, and what of it failed.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// Exit code of what failed; 0 if nothing did.
    pub exit_code: i32,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Rank of the task that failed, in the command's job. Absent if another task had ended before: Flux records only
    /// the first end.
    pub rank: Option<i32>,
    /// Host name of the pod in which it failed, `<MiniCluster>-<index>`, with which the name of the pod begins.
    pub host: Option<String>,
    /// The container that failed.
    pub container: Option<String>,
    /// Flux's id of the command's job, if it was a single one.
    pub jobid: Option<String>,
    /// The last lines of its standard error, at most 1024 bytes. A launcher has none. Anyone who may read the
    /// MiniCluster can read them.
    pub output: Option<String>,
    /// How many jobs the instance had. Absent if the lead's broker ended without having answered that.
    pub jobs: Option<JobNumbers>,
}

/// Numbers of the jobs of an instance by their ends, with those that its archive had. The jobs in an instance of their
/// own, as the lines of a batch, are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobNumbers {
    /// Jobs that have succeeded.
    pub successful: i64,
    /// Jobs that have failed.
    pub failed: i64,
    /// Jobs that were canceled, before or while they ran.
    pub canceled: i64,
    /// Jobs that have reached their time limits.
    pub timed_out: i64,
    /// Jobs that still ran when the instance ended.
    pub unfinished: i64,
    /// Jobs that still waited when the instance ended, and never ran.
    pub not_run: i64,
}

/// A run that has ended.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PastRun {
    /// `spec.runId` with which it was started.
    pub run_id: Option<String>,
    /// When its Job was started.
    pub start_time: Option<Time>,
    /// When it ended.
    pub completion_time: Option<Time>,
    /// Complete or Failed.
    pub state: Option<State>,
    /// Reason of the condition of that name.
    pub reason: Option<String>,
    /// Exit code of the command.
    pub exit_code: Option<i32>,
    /// Pods of its Job.
    pub size: i32,
    /// How many jobs its instance had, if that is known.
    pub jobs: Option<JobNumbers>,
}

/// How the agent and the view came into the pods. It stays what it is as long as the Job exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Installed {
    /// `Image`: their images are mounted. `Copy`: init containers copied them.
    pub method: InstallMethod,
    /// Why, and, if the method was requested, what may prevent it from working.
    pub reason: String,
}

/// A way in which the agent and the view come into pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstallMethod {
    /// Their images are mounted as image volumes.
    Image,
    /// Init containers copy them into a volume of the pod.
    Copy,
}

/// One phase of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// Name of the phase.
    pub name: String,
    /// Begin, in milliseconds since the start of the pod's agent.
    pub start_milliseconds: i64,
    /// Duration in milliseconds.
    pub duration_milliseconds: i64,
}

/// The conditions of a MiniCluster in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum State {
    /// Accepted; no pod runs yet.
    Pending,
    /// Pods run; not enough brokers are online.
    Starting,
    /// The brokers that are needed are online.
    Running,
    /// The lead was ready and is not any more, for longer than a moment.
    Degraded,
    /// The lead has ended, or the Job was suspended; other pods have not ended yet, or another lead is to follow.
    Ending,
    /// The command ended with exit code 0.
    Complete,
    /// The command failed, or could not be run.
    Failed,
    /// The Job is suspended.
    Suspended,
    /// The specification was refused: see the condition Accepted.
    Invalid,
    /// A state that only a newer operator writes.
    #[schemars(skip)]
    #[serde(untagged)]
    Other(ArrayString<32>),
}

impl State {
    /// Type of the condition whose reason is `status.reason` in this state.
    pub const fn summary_condition(self) -> &'static str {
        match self {
            Self::Complete => "Complete",
            Self::Failed => "Failed",
            Self::Invalid => "Accepted",
            Self::Pending
            | Self::Starting
            | Self::Running
            | Self::Degraded
            | Self::Ending
            | Self::Suspended
            | Self::Other(_) => "Progressing",
        }
    }
}

/// The word as it appears in the status.
impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Other(name) = self {
            return fmt::Display::fmt(name, formatter);
        }
        fmt::Debug::fmt(self, formatter)
    }
}
