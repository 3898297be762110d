//! The lifecycle of a run: one value, computed from the objects that were read, on which decision, status, Events,
//! metrics and the next reconcile depend.

use super::pod_view::{Outcome, PodView, exit_code_of_lost_lead, failure_of_lost_lead};
use super::pods::Pods;
use crate::controller::job_ext::{
    IDLE_PREFIX, LATE_START_ANNOTATION, counts_by_index, has_pods, is_ending, is_own, is_suspended,
    job_condition, noted_suspension, ready_pods,
};
use crate::controller::pod_ext::{end_of, has_failed};
use crate::controller::run_record::RunRecord;
use flux_api::cluster::QUEUE_LABEL;
use flux_api::crd::{Reason, State};
use flux_api::objects::is_replaced;
use flux_contract::labels;
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

/// Finalizer of a pod that the Job controller has not counted yet.
const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Lifecycle {
    /// There is no Job, and no record of a run that the specification would only repeat.
    #[default]
    New,
    /// The Job is suspended, and its pods are gone.
    Suspended(Suspender),
    /// The Job is suspended, and its pods have not ended.
    Suspending,
    /// The Job waits for its lead.
    Pending,
    /// Pods of the Job run, and the lead has no quorum.
    Starting,
    Running,
    /// The lead was ready and no longer is.
    Degraded,
    /// The lead has ended, and other pods or containers have not.
    Ending,
    /// The Job has failed, and the end of the lead, which has the exit code, is about to arrive.
    Failing,
    Ended(Box<End>),
}

/// The actor that has suspended a Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Suspender {
    Specification,
    /// The operator, because no job of Flux needs a pod.
    Idle,
    Queue(String),
    Other,
}

/// How and when a run has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct End {
    pub(crate) complete: bool,
    pub(crate) at: Option<Time>,
    pub(crate) outcome: Outcome,
    /// The record of the run: it has the end, or its Job is gone.
    pub(crate) record: Option<RunRecord>,
}

impl Lifecycle {
    /// The lifecycle by `record`, which has the end of the run or is the only trace of it, else by the Job and its pods.
    pub(crate) fn of(
        job: Option<&Job>,
        record: Option<RunRecord>,
        pods: &Pods,
        interactive: bool,
        now: &Time,
    ) -> Self {
        if let Some(run) = record {
            return End::recorded(run).into();
        }
        let Some(job) = job else { return Self::New };
        let name = job.name_any();
        let lead = pods.lead.as_ref().filter(|lead| !removed_by_suspension(lead, job));
        let lead = lead.map(|pod| PodView::new(pod, &name, now));
        let lead = lead.as_ref();
        if let Some(ended) = ended(job, lead, pods, interactive, now) {
            return ended;
        }
        if is_suspended(job) {
            let suspended = || Self::Suspended(Suspender::of(job));
            return if has_pods(job) { Self::Suspending } else { suspended() };
        }
        lead.map_or(Self::Pending, |lead| by_lead(job, lead, interactive))
    }

    /// True when the run has ended for good, even if its result is not known yet.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self, Self::Failing | Self::Ended(_))
    }

    pub(crate) fn end(&self) -> Option<&End> {
        if let Self::Ended(end) = self { Some(end) } else { None }
    }

    pub(crate) fn record(&self) -> Option<&RunRecord> {
        self.end()?.record.as_ref()
    }

    /// True when the record of the run has its end.
    pub(crate) fn is_recorded(&self) -> bool {
        self.record().is_some_and(|run| run.end.is_some())
    }

    /// The state in the status of a MiniCluster with a valid specification.
    pub(crate) fn state(&self) -> State {
        match self {
            Self::New | Self::Pending => State::Pending,
            Self::Suspended(_) => State::Suspended,
            Self::Starting => State::Starting,
            Self::Running => State::Running,
            Self::Degraded => State::Degraded,
            Self::Suspending | Self::Ending | Self::Failing => State::Ending,
            Self::Ended(end) if end.complete => State::Complete,
            Self::Ended(_) => State::Failed,
        }
    }
}

impl Suspender {
    fn of(job: &Job) -> Self {
        match (noted_suspension(job), job.labels().get(QUEUE_LABEL)) {
            (Some(note), _) if note.starts_with(IDLE_PREFIX) => Self::Idle,
            (Some(_), _) => Self::Specification,
            (None, Some(queue)) => Self::Queue(queue.clone()),
            (None, None) => Self::Other,
        }
    }
}

impl From<End> for Lifecycle {
    fn from(end: End) -> Self {
        Self::Ended(Box::new(end))
    }
}

impl End {
    const fn new(complete: bool, at: Option<Time>, outcome: Outcome) -> Self {
        Self { complete, at, outcome, record: None }
    }

    fn recorded(run: RunRecord) -> Self {
        let (complete, at, outcome) = match &run.end {
            Some(end) => {
                let outcome = Outcome::new(&end.reason, end.message.clone());
                (end.complete, end.completion_time.clone(), outcome)
            }
            None => (false, None, end_not_seen(&run)),
        };
        Self { record: Some(run), ..Self::new(complete, at, outcome) }
    }
}

/// True when a suspension of `job` has removed the pod `lead`. The Job controller then removes its finalizer before it
/// deletes the pod (`deleteJobPods` of Kubernetes 1.36 and 1.37), as with leftover pods of a Job that ends.
pub(crate) fn removed_by_suspension(lead: &Pod, job: &Job) -> bool {
    let is_left = lead.metadata.deletion_timestamp.is_some()
        && !lead.finalizers().iter().any(|finalizer| finalizer == JOB_TRACKING);
    has_failed(lead) && is_left && !is_ending(job)
}

/// The lifecycle of a run that has ended for good: by the Job's condition, else by the lead's pod.
fn ended(
    job: &Job,
    lead: Option<&PodView<'_>>,
    pods: &Pods,
    interactive: bool,
    now: &Time,
) -> Option<Lifecycle> {
    if let Some(condition) = job_condition(job, "Complete") {
        let at = job.status.as_ref().and_then(|status| status.completion_time.clone());
        let at = at.or_else(|| condition.last_transition_time.clone());
        return Some(End::new(true, at, success(interactive)).into());
    }
    let by_lead = lead.and_then(|lead| end_by_lead(job, lead, interactive));
    let Some(condition) = job_condition(job, "Failed") else {
        return by_lead.map(Lifecycle::from);
    };
    if lead.is_some_and(PodView::is_about_to_end) {
        return Some(Lifecycle::Failing);
    }
    // A container that a webhook has added may have failed the Job of a good run.
    let end = by_lead.filter(|end| end.complete).unwrap_or_else(|| {
        let failure = failure(job, lead, pods.failed_worker.as_ref(), condition, now);
        End::new(false, condition.last_transition_time.clone(), failure)
    });
    Some(end.into())
}

/// The end of the run of `job` as the pod of the lead shows it, once it is certain: success by the Job's success
/// policy, or failure by its failure policy with an exit code for which no pod is replaced, or that is the command's
/// own by the agent's message. All containers of the Job's template must have ended; containers that others have added
/// do not count.
fn end_by_lead(job: &Job, lead: &PodView<'_>, interactive: bool) -> Option<End> {
    if is_suspended(job) || lead.pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let all = lead.pod.status.as_ref()?.container_statuses.as_deref()?;
    let end = end_of(lead.pod, &job.name_any())?;
    let code = |container: &ContainerStatus| {
        Some(container.state.as_ref()?.terminated.as_ref()?.exit_code)
    };
    let own = all.iter().filter(|container| is_own(job, &container.name));
    let codes: Vec<i32> = own.map(code).collect::<Option<_>>()?;
    let complete = codes.iter().all(|code| *code == 0);
    let is_final = !is_replaced(end.exit_code) || lead.command_ended();
    let failed = end.exit_code != 0 && counts_by_index(job) && is_final;
    let at = end.finished_at.clone().filter(|_| complete || failed)?;
    let failure = lead.failure().filter(|_| !complete);
    let complete = failure.is_none();
    Some(End::new(complete, Some(at), failure.unwrap_or_else(|| success(interactive))))
}

/// The lifecycle of a run that has not ended and has this lead.
fn by_lead(job: &Job, lead: &PodView<'_>, interactive: bool) -> Lifecycle {
    if lead.unstarted && counts_by_index(job) {
        Lifecycle::Pending
    } else if lead.over || (lead.ended.is_some() && !restarts(job)) {
        let waits = interactive && is_replaced_later(job, lead);
        if waits { Lifecycle::Pending } else { Lifecycle::Ending }
    } else if lead.ready {
        Lifecycle::Running
    } else if lead.degraded {
        Lifecycle::Degraded
    } else if lead.running || ready_pods(job) > 0 {
        Lifecycle::Starting
    } else {
        Lifecycle::Pending
    }
}

fn is_replaced_later(job: &Job, lead: &PodView<'_>) -> bool {
    counts_by_index(job) && lead.ended.as_ref().is_none_or(|ended| is_replaced(ended.exit_code))
}

fn restarts(job: &Job) -> bool {
    let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    pod.and_then(|pod| pod.restart_policy.as_deref()) == Some("OnFailure")
}

fn success(interactive: bool) -> Outcome {
    let (reason, message) = if interactive {
        (Reason::ShutDown, "the instance was shut down")
    } else {
        (Reason::CommandSucceeded, "the command ended with exit code 0")
    };
    Outcome::new(reason, message.to_owned())
}

/// The outcome of a run that had begun and whose Job was deleted before the operator saw the end.
fn end_not_seen(run: &RunRecord) -> Outcome {
    let (uid, selector) = (&run.job, labels::CONTROLLER_UID);
    let message = format!(
        "the run had begun, and its Job (uid {uid}) is gone: the operator did not see how the run ended, and does not run \
         the command a second time. Pods of the Job that somebody has kept may still run: kubectl get pods --selector \
         {selector}={uid}. Change spec.runId to run it again"
    );
    Outcome::new(Reason::EndNotSeen, message)
}

/// Why the Job failed: by the lead, else by a worker, else by the Job's condition, perhaps with a lost lead's code.
fn failure(
    job: &Job,
    lead: Option<&PodView<'_>>,
    worker: Option<&Pod>,
    condition: &JobCondition,
    now: &Time,
) -> Outcome {
    let reason = condition.reason.clone().unwrap_or_else(|| Reason::JobFailed.as_str().to_owned());
    let message = condition.message.clone().unwrap_or_else(|| "the Job failed".to_owned());
    if reason == Reason::DeadlineExceeded.as_str() {
        if let Some(cause) = job.annotations().get(LATE_START_ANNOTATION) {
            return Outcome::new(Reason::StartDeadlineExceeded, cause.clone());
        }
        let seconds = job.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
        let seconds = seconds.unwrap_or_default();
        let message = format!(
            "the Job's deadline of {seconds} seconds has passed; the lead had not ended the run before"
        );
        return Outcome { reason, message };
    }
    if let Some(failure) = lead.and_then(PodView::failure) {
        return failure;
    }
    let name = job.name_any();
    let of_worker = worker.and_then(|pod| Some((pod, PodView::new(pod, &name, now).failure()?)));
    if let Some((pod, failure)) = of_worker {
        let message = format!("pod {}: {}", pod.name_any(), failure.message);
        return Outcome { message, ..failure };
    }
    exit_code_of_lost_lead(job).map_or(Outcome { reason, message }, failure_of_lost_lead)
}
