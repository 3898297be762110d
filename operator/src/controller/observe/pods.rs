//! The Job's pods, and why some of them do not start.

use super::cached_client::CachedClient;
use super::pending_check::BEGIN;
use super::pending::check;
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
    /// The newest pod with index 0; where that says that an earlier one has ended the run, the earlier one.
    pub(crate) lead: Option<Pod>,
    /// The newest pod with index 0 before that.
    pub(crate) earlier_lead: Option<Pod>,
    /// How many pods of index 0 were there before each that failed without having been started, in order.
    pub(crate) unstarted_leads: Vec<u32>,
    /// A pod with index 0 whose runner has ended, while other containers of it run.
    pub(crate) held: Option<Pod>,
    pub(crate) failed_worker: Option<Pod>,
    pub(crate) waiting: Option<Waiting>,
    /// Why the Job gets fewer pods than it asks for.
    pub(crate) refused: Option<String>,
    /// The namespace is being deleted, and the Job gets no pods there any more.
    pub(crate) namespace_ends: bool,
    /// When to ask for these again; absent where nothing is awaited.
    pub(crate) next: Option<Duration>,
}

/// Reads the lead's pod; why pods do not start, while some do not; and, when the Job has failed
/// through no fault of the lead, a worker's pod that did.
pub(super) async fn pods(
    client: &CachedClient<'_>,
    identity: &Identity,
    job: &Job,
    now: &Time,
) -> Result<Pods, Error> {
    let runner = identity.name.as_str();
    let of_job = format!("{}={runner}", labels::JOB_NAME);
    let uid = job.uid().unwrap_or_default();
    let watched = client.stores.leads_of(&client.cluster.0, &uid);
    let leads = if let Some(leads) = watched.filter(|leads| is_all_there_is(leads, job)) {
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
        // Of a large Job's pods thousands may have failed: one is in memory.
        let likelier = async |found: Option<Pod>, pod: Pod| {
            Ok(found.into_iter().chain([pod]).min_by_key(|pod| failure_rank(pod, runner)))
        };
        pods.failed_worker = client.pods_of(job, all).try_fold(None, likelier).await?;
    }
    if begins(job, now) {
        pods.next = Some(BEGIN);
    } else if lacks_pods(job) || lacks_brokers(job) {
        let others = parallelism(job) - ready_pods(job) - 1;
        let lead = pods.lead.as_ref();
        let said = lead.filter(|_| lacks_brokers(job)).and_then(|it| lead_waiting(it, others, now));
        let (found, next) = check(client, job, lead, said.is_some(), now).await?;
        pods.next = Some(next);
        pods.waiting = said.or(found.waiting).filter(|_| lacks_brokers(job));
        // What was found before may be of a Job that has its pods by now.
        if lacks_pods(job) {
            (pods.refused, pods.namespace_ends) = (found.refused, found.namespace_ends);
        }
    }
    let lead = pods.lead.as_ref().filter(|_| !is_suspended(job));
    let unstarted = lead.filter(|lead| is_unstarted(lead, runner)).map(not_started);
    pods.refused = unstarted.or(pods.refused);
    Ok(pods)
}

/// False where the API server is asked although a watch has brought these leads of `job`: how a run has ended, as the
/// watch of the Job may be ahead of that of its pods; and where a Job that has pods has no lead among them, as the pods
/// of other operators lack the label that the watch selects by.
fn is_all_there_is(leads: &[Pod], job: &Job) -> bool {
    let active = job.status.as_ref().and_then(|status| status.active).unwrap_or_default();
    !is_finished(job) && (!leads.is_empty() || active == 0)
}

fn unstarted_leads(leads: &[Pod], runner: &str) -> Vec<u32> {
    let unstarted = leads.iter().filter(|lead| is_unstarted(lead, runner));
    let mut places: Vec<u32> = unstarted.map(replaced_before).collect();
    places.sort_unstable();
    places
}

fn begins(job: &Job, now: &Time) -> bool {
    start_time(job).is_some_and(|start| now.0.duration_since(start.0).unsigned_abs() < BEGIN)
}

/// The newest of the lead's pods, and the one before. One that refuses to repeat a command gives way to the one whose command
/// that was, where that is still there.
fn select_lead(mut leads: Vec<Pod>, runner: &str) -> (Option<Pod>, Option<Pod>) {
    leads.sort_by_key(age);
    let refuses = |pod: &Pod| exit_code(pod, runner) == Some(Exit::LeadLost.code().into());
    let first = leads.iter().position(|pod| shows_end_of_command(pod, runner));
    match first.filter(|_| leads.last().is_some_and(refuses)) {
        Some(first) => (Some(leads.swap_remove(first)), None),
        None => (leads.pop(), leads.pop()),
    }
}

/// Orders pods by how likely it is that their failure was their Job's, the likeliest first: the oldest of those that
/// nobody stopped, then those that were killed, of which it is one whose index was most often.
fn failure_rank(pod: &Pod, runner: &str) -> impl Ord + use<> {
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

/// Reasons of containerd and of the kubelet for a container whose end they did not see, as when the node lost its power.
const UNSEEN: [&str; 2] = ["Unknown", "ContainerStatusUnknown"];

/// True when the end of the pod's runner was seen, or the kubelet has a reason for it, and it may be that of the command.
fn shows_end_of_command(pod: &Pod, runner: &str) -> bool {
    let has_reason = pod.status.as_ref().is_some_and(|status| status.reason.is_some());
    let seen = |end: &&ContainerStateTerminated| {
        has_reason || end.reason.as_deref().is_none_or(|reason| !UNSEEN.contains(&reason))
    };
    end_of(pod, runner).filter(seen).is_some_and(|end| {
        let message = end.message.as_deref().and_then(TerminationMessage::from_json);
        message.is_none_or(|message| message.command_began())
    })
}

fn age(pod: &Pod) -> (Option<jiff::Timestamp>, String) {
    (pod.creation_timestamp().map(|time| time.0), pod.name_any())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{at, ended, pod, running};
    use flux_contract::invocation::REPLACED_VARIABLES;
    use k8s_openapi::api::core::v1::{ContainerState, PodCondition};

    /// A pod that ended with `code`, or runs; made at second `second`.
    fn made(second: i64, code: Option<i32>) -> Pod {
        let refusal = r#"{"exitCode":77,"commandRan":false}"#;
        let said = |code| (code == 77).then_some(refusal);
        let state = code.map_or_else(running, |code| ended(code, "Error", said(code)));
        with_runner(second, state)
    }

    fn with_runner(second: i64, state: ContainerState) -> Pod {
        let phase = if state.running.is_some() { "Running" } else { "Failed" };
        let mut pod = pod(&format!("hello-0-{second}"), phase, "hello", state);
        pod.metadata.creation_timestamp = Some(at(second));
        pod
    }

    #[test]
    fn unstarted_leads_are_listed_by_their_place() {
        let unstarted = |second, before: &str| {
            let mut pod = made(second, Some(137));
            pod.status.as_mut().unwrap().container_statuses = None;
            pod.annotations_mut().insert(REPLACED_VARIABLES[1].1.to_owned(), before.to_owned());
            pod
        };
        let leads = [unstarted(3, "1"), made(2, Some(137)), unstarted(1, "0"), made(4, None)];
        assert_eq!(unstarted_leads(&leads, "hello"), [0, 1]);
    }

    fn second(pod: Option<Pod>) -> Option<i64> {
        pod?.metadata.creation_timestamp.map(|time| time.0.as_second())
    }

    #[test]
    fn the_lead_is_the_newest_or_the_one_that_ran() {
        for (codes, expected) in [
            (&[Some(137), None][..], Some(2)),
            (&[Some(137), Some(77)], Some(1)),
            // Who ran the command came first.
            (&[Some(75), Some(137), Some(77)], Some(1)),
            (&[Some(77)], Some(1)),
            (&[], None),
        ] {
            let pods = (1..).zip(codes).map(|(second, code)| made(second, *code));
            assert_eq!(second(select_lead(pods.collect(), "hello").0), expected);
        }
        let stopped = ended(75, "Error", Some(r#"{"exitCode":75,"commandRan":false}"#));
        for first in [stopped, ended(255, "Unknown", None)] {
            let leads = vec![with_runner(1, first), made(2, Some(77))];
            let (lead, _) = select_lead(leads, "hello");
            assert_eq!(second(lead), Some(2), "it names why nothing was run");
        }
        let mut evicted = with_runner(1, ended(137, "ContainerStatusUnknown", None));
        evicted.status.as_mut().unwrap().reason = Some("Evicted".to_owned());
        let (lead, _) = select_lead(vec![evicted, made(2, Some(77))], "hello");
        assert_eq!(second(lead), Some(1), "the kubelet has a reason");
        let (lead, earlier) =
            select_lead((1..4).map(|second| made(second, None)).collect(), "hello");
        assert_eq!((second(lead), second(earlier)), (Some(3), Some(2)));
    }

    #[test]
    fn own_failures_rank_before_kills_and_kills_before_stops() {
        let failed = |second, code| made(second, Some(code));
        let killed = |second, before: &str| {
            let mut pod = failed(second, 137);
            pod.annotations_mut().insert(REPLACED_VARIABLES[0].1.to_owned(), before.to_owned());
            pod
        };
        let mut disrupted = made(1, None);
        let condition = PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            ..PodCondition::default()
        };
        disrupted.status.as_mut().unwrap().conditions.as_mut().unwrap().push(condition);
        for (pods, first) in [
            (vec![killed(1, "6"), failed(2, 69)], 2),
            (vec![killed(1, "0"), killed(2, "5"), killed(3, "6")], 3),
            // The Job does not count by index.
            (vec![failed(1, 137), failed(2, 137)], 1),
            (vec![failed(1, 75), failed(2, 137)], 2),
            (vec![disrupted, failed(2, 137)], 2),
        ] {
            let found = pods.into_iter().min_by_key(|pod| failure_rank(pod, "hello"));
            assert_eq!(second(found), Some(first));
        }
    }
}
