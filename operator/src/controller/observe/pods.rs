//! Reads the lead's pods, and why pods do not start.

use super::cached_client::CachedClient;
use super::pending::{Source, check};
use super::pending_check::CHECK_DELAY;
use super::waiting::{Waiting, lead_waiting, not_started};
use crate::controller::error::Error;
use crate::controller::job_ext::{
    is_failed, is_finished, is_suspended, lacks_brokers, lacks_pods, parallelism, ready_pods,
    start_time,
};
use crate::controller::pod_ext::{
    disruption, end_of, has_failed, is_unstarted, replaced_before, running_beside,
};
use flux_api::cluster::Identity;
use flux_api::objects::KILLED;
use flux_contract::{Exit, TerminationMessage, labels};
use futures::TryStreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::ListParams;
use std::cmp::Reverse;
use std::time::Duration;

#[derive(Debug, Clone, Default)]
pub(crate) struct Pods {
    /// The newest pod with index 0, or an earlier one, if that has ended the run and the newest refused to repeat it.
    pub(crate) lead: Option<Pod>,
    /// The newest pod with index 0 before [`Self::lead`].
    pub(crate) earlier_lead: Option<Pod>,
    /// For each pod of index 0 that failed before it was started: the number of pods before it, in order.
    pub(crate) unstarted_leads: Vec<u32>,
    /// A pod with index 0 whose runner has ended while other containers still run.
    pub(crate) held: Option<Pod>,
    pub(crate) failed_worker: Option<Pod>,
    pub(crate) waiting: Option<Waiting>,
    /// Why the Job controller creates fewer pods than the Job asks for.
    pub(crate) refused: Option<String>,
    /// The namespace is being deleted, so the Job gets no more pods.
    pub(crate) namespace_ends: bool,
    /// Time to the next check why pods do not start; absent while none is missing.
    pub(crate) next: Option<Duration>,
}

/// Reads the lead's pod, why pods do not start, and a failed worker if the Job failed for another reason than its lead. The
/// brokers of a MiniCluster that `joins` have their lead in another one.
pub(super) async fn pods(
    client: &CachedClient<'_>,
    identity: &Identity,
    job: &Job,
    joins: bool,
    now: &Time,
) -> Result<Pods, Error> {
    let runner = identity.name.as_str();
    let of_job = format!("{}={runner}", labels::JOB_NAME);
    let uid = job.uid().unwrap_or_default();
    let stored = client.stores.leads_of(&client.name.0, &uid);
    let leads = if let Some(leads) = stored.filter(|leads| is_complete(leads, job)) {
        leads
    } else {
        let leads = format!("{of_job},{}=0", labels::COMPLETION_INDEX);
        client.pods_of(job, ListParams::default().labels(&leads)).try_collect().await?
    };
    let mut pods = Pods {
        unstarted_leads: unstarted_leads(&leads, runner),
        held: leads.iter().find(|lead| running_beside(lead, runner).is_some()).cloned(),
        ..Pods::default()
    };
    (pods.lead, pods.earlier_lead) = select_lead(leads, runner);
    let failed = job.status.as_ref().and_then(|status| status.failed).unwrap_or_default() > 0;
    let lead_failed = pods.lead.as_ref().is_some_and(has_failed);
    if is_failed(job) && failed && !lead_failed {
        let all = ListParams::default().labels(&of_job).fields("status.phase=Failed");
        // Thousands of pods of a large Job may have failed, so only one is kept in memory.
        let likelier = async |found: Option<Pod>, pod: Pod| {
            Ok(found.into_iter().chain([pod]).min_by_key(|pod| failure_rank(pod, runner)))
        };
        pods.failed_worker = client.pods_of(job, all).try_fold(None, likelier).await?;
    }
    if just_started(job, now) {
        pods.next = Some(CHECK_DELAY);
    } else if lacks_pods(job) || lacks_brokers(job) {
        let others = parallelism(job) - ready_pods(job) - 1;
        let lead = pods.lead.as_ref();
        let of_lead =
            lead.filter(|_| lacks_brokers(job)).and_then(|it| lead_waiting(it, others, now));
        let source = match (&of_lead, joins) {
            (Some(_), _) => Source::Lead,
            (None, true) => Source::Agent,
            (None, false) => Source::Pods,
        };
        let (findings, next) = check(client, job, lead, source, now).await?;
        pods.next = Some(next);
        pods.waiting = of_lead.or(findings.waiting).filter(|_| lacks_brokers(job));
        pods.namespace_ends = findings.namespace_ends;
        // The findings of an earlier check may be outdated if the Job has its pods by now.
        pods.refused = findings.refused.filter(|_| lacks_pods(job));
    }
    let lead = pods.lead.as_ref().filter(|_| !is_suspended(job));
    let unstarted = lead.filter(|lead| is_unstarted(lead, runner)).map(not_started);
    pods.refused = unstarted.or(pods.refused);
    Ok(pods)
}

/// False if the API server must be asked although the store has these leads of `job`: for a finished Job, because the
/// watch of the pods may be behind that of the Job; and for a Job with pods whose lead is not in the store, because
/// pods of other operators lack the label that the watch selects by, and a first list stores no lead that has
/// succeeded.
fn is_complete(leads: &[Pod], job: &Job) -> bool {
    let has_had_pods = job.status.as_ref().is_some_and(|status| {
        let uncounted = status.uncounted_terminated_pods.as_ref();
        let uncounted = uncounted.and_then(|it| it.succeeded.as_ref());
        [status.active, status.succeeded].iter().flatten().any(|count| *count > 0)
            || uncounted.is_some_and(|pods| !pods.is_empty())
    });
    !is_finished(job) && (!leads.is_empty() || !has_had_pods)
}

pub(super) fn unstarted_leads(leads: &[Pod], runner: &str) -> Vec<u32> {
    let unstarted = leads.iter().filter(|lead| is_unstarted(lead, runner));
    let mut places: Vec<u32> = unstarted.map(replaced_before).collect();
    places.sort_unstable();
    places
}

fn just_started(job: &Job, now: &Time) -> bool {
    start_time(job).is_some_and(|start| now.0.duration_since(start.0).unsigned_abs() < CHECK_DELAY)
}

/// The newest of the lead's pods, and the one before it. If the newest refuses to repeat a command, the pod that ran
/// the command takes its place, if it still exists.
pub(super) fn select_lead(mut leads: Vec<Pod>, runner: &str) -> (Option<Pod>, Option<Pod>) {
    leads.sort_by_key(age);
    let refuses = |pod: &Pod| exit_code(pod, runner) == Some(Exit::LeadLost.code().into());
    let first = leads.iter().position(|pod| shows_end_of_command(pod, runner));
    match first.filter(|_| leads.last().is_some_and(refuses)) {
        Some(first) => (Some(leads.swap_remove(first)), None),
        None => (leads.pop(), leads.pop()),
    }
}

/// Orders failed pods by how likely they made the Job fail, the likeliest first: the oldest of those that nobody
/// stopped, then killed pods, those with most replacements first.
pub(super) fn failure_rank(pod: &Pod, runner: &str) -> impl Ord + use<> {
    let code = exit_code(pod, runner);
    let is_killed = is_unstarted(pod, runner) || code.is_some_and(|code| KILLED.contains(&code));
    let is_stopped =
        code == Some(Exit::Stopped.code().into()) || (!is_killed && disruption(pod).is_some());
    let kills = if is_killed { replaced_before(pod) } else { 0 };
    (is_stopped, is_killed, Reverse(kills), age(pod))
}

fn exit_code(pod: &Pod, runner: &str) -> Option<i32> {
    end_of(pod, runner).map(|end| end.exit_code)
}

/// Reasons of containerd and the kubelet for a container whose end they did not see, as after a power failure.
const UNSEEN_ENDS: [&str; 2] = ["Unknown", "ContainerStatusUnknown"];

/// True when the pod's runner may have ended with the command: its end was seen, or the kubelet has a reason for it.
fn shows_end_of_command(pod: &Pod, runner: &str) -> bool {
    let has_reason = pod.status.as_ref().is_some_and(|status| status.reason.is_some());
    let seen = |end: &&ContainerStateTerminated| {
        has_reason || end.reason.as_deref().is_none_or(|reason| !UNSEEN_ENDS.contains(&reason))
    };
    end_of(pod, runner).filter(seen).is_some_and(|end| {
        let message = end.message.as_deref().and_then(TerminationMessage::from_json);
        message.is_none_or(|message| message.command_began())
    })
}

fn age(pod: &Pod) -> (Option<jiff::Timestamp>, String) {
    (pod.creation_timestamp().map(|time| time.0), pod.name_any())
}
