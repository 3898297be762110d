//! Gathers from the cluster what explains the state of a MiniCluster.

use crate::commands::logs::is_of_flux;
use crate::error;
use crate::log_stream::whole;
use crate::minicluster::{layout, rank, runner, runner_state};
use crate::output::age;
use crate::prelude::*;
use crate::rank_pod::agent_report;
use flux_api::crd::{MiniClusterStatus, Reason};
use flux_api::waiting;
use flux_contract::TerminationMessage;
use flux_contract::labels::CONTROLLER_UID;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, LogParams};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeSet;

const MAX_RANKS: usize = 8;
const OUTPUT_LINES: usize = 10;
/// Number of lines of the log in which these are searched: the last lines may be Flux's own.
const READ_LINES: i64 = 200;
const MAX_EVENTS: usize = 12;

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Evidence {
    pub conditions: Vec<Line>,
    /// Position in the queue, counted from 0, and the queue's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueuePosition>,
    pub ranks: Vec<Rank>,
    pub events: Vec<Line>,
    /// The limits that a `LimitRange` has added to the lead's pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// The last lines of the lead's log or, if that is gone, of the output in the status.
    pub output: Vec<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub unread: BTreeSet<String>,
}

/// A message, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub(super) struct Line {
    pub about: String,
    pub message: String,
}

impl From<Line> for String {
    fn from(Line { about, message }: Line) -> Self {
        if message.is_empty() { about } else { format!("{about}: {message}") }
    }
}

impl Line {
    /// The line, without its message if one of those in `shown` has it. Adds it to them.
    pub(super) fn once(self, shown: &mut Vec<String>) -> String {
        let Self { about, message } = &self;
        // A single word, such as a phase, is no sentence of its own.
        let is_in =
            |text: &String| text == message || message.contains(' ') && text.contains(message);
        if shown.iter().any(is_in) {
            return about.clone();
        }
        shown.push(message.clone());
        self.into()
    }
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct QueuePosition {
    pub queue: String,
    pub position: u64,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rank {
    #[serde(rename = "rank")]
    pub number: u32,
    pub pod: String,
    pub state: String,
    /// Why: the message of its agent, of the kubelet or of the scheduler.
    #[serde(rename = "says", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The message is why the pod cannot start.
    #[serde(skip)]
    pub waits: bool,
}

/// What could not be read so far: the rest explains without it.
#[derive(Default)]
struct Unread(RefCell<BTreeSet<String>>);

impl Unread {
    /// The value that was read; without it, notes the error of the read of `source`.
    fn note<T, E: Into<anyhow::Error>>(&self, source: &str, read: Result<T, E>) -> Option<T> {
        let note = |error: E| {
            let text = format!("{source}: {}", error::reason(&error.into()));
            self.0.borrow_mut().insert(text);
        };
        read.map_err(note).ok()
    }
}

pub(super) async fn gather(
    target: &MiniClusterRef,
    cluster: &MiniCluster,
    now: Timestamp,
) -> Evidence {
    let unread = Unread::default();
    let pods = unread.note("pods", target.pods().await).unwrap_or_default();
    let (ranks, events, output, queue) = tokio::join!(
        ranks(target, cluster, &pods, &unread),
        events(target, cluster, &pods, now),
        output(target, cluster, &pods),
        queue(&target.connection, cluster),
    );
    let events = unread.note("Events", events).unwrap_or_default();
    let output = unread.note("output of the lead", output).unwrap_or_default();
    let queue = unread.note("queue", queue).flatten();
    let conditions = conditions(cluster, now);
    let output = if output.is_empty() { output_of_status(cluster) } else { output };
    let added = pods.get(&0).and_then(|pod| added(pod, &target.name)).into_iter().collect();
    Evidence { conditions, queue, ranks, events, added, output, unread: unread.0.into_inner() }
}

fn conditions(cluster: &MiniCluster, now: Timestamp) -> Vec<Line> {
    let all = cluster.status.iter().flat_map(|status| &status.conditions);
    // These three explain nothing while they are false.
    let all = all.filter(|it| {
        it.status == "True" || !["Suspended", "Complete", "Failed"].contains(&it.type_.as_str())
    });
    all.map(|it| {
        let age = age(it.last_transition_time.0, now);
        let about = format!("{}={}, {}, for {age}", it.type_, it.status, it.reason);
        Line { about, message: it.message.clone() }
    })
    .collect()
}

fn is_over(cluster: &MiniCluster) -> bool {
    cluster.status.as_ref().is_some_and(MiniClusterStatus::is_over)
}

/// The API server's note on `pod` about what a `LimitRange` has added, and the limits of its runner.
fn added(pod: &Pod, runner: &str) -> Option<String> {
    let note = pod.annotations().get("kubernetes.io/limit-ranger")?;
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let limits =
        containers.find(|it| it.name == runner)?.resources.as_ref()?.limits.iter().flatten();
    let limits: Vec<String> = limits.map(|(name, limit)| format!("{name} {}", limit.0)).collect();
    let limits = if limits.is_empty() { "none".to_owned() } else { limits.join(", ") };
    Some(format!("{note}; limits of {runner}: {limits}"))
}

async fn ranks(
    target: &MiniClusterRef,
    cluster: &MiniCluster,
    pods: &BTreeMap<u32, Pod>,
    unread: &Unread,
) -> Vec<Rank> {
    let is_over = is_over(cluster);
    let needs_attention = |pod: &&Pod| {
        let state = runner(pod, &target.name);
        let has_failed = state
            .and_then(|it| it.state.as_ref()?.terminated.as_ref())
            .is_some_and(|it| it.exit_code != 0);
        has_failed || (!is_over && !state.is_some_and(|it| it.ready))
    };
    let mut all: Vec<_> = pods.values().filter(needs_attention).collect();
    // The others wait for these.
    all.sort_by_key(|pod| why_it_waits(pod, &target.name).is_none());
    join_all(all.into_iter().take(MAX_RANKS).map(async |pod| {
        let why = why_it_waits(pod, &target.name);
        let waits = why.is_some();
        Rank {
            number: rank(pod).unwrap_or_default(),
            pod: pod.name_any(),
            state: anstream::adapter::strip_str(&crate::commands::status::pod_state(cluster, pod))
                .to_string(),
            message: if waits { why } else { message_of(target, cluster, pod, unread).await },
            waits,
        }
    }))
    .await
}

/// Why the pod cannot start, unless its runner has ended. The operator reads the same, but writes it later.
fn why_it_waits(pod: &Pod, name: &str) -> Option<String> {
    let has_ended = runner_state(pod, name).is_some_and(|state| state.terminated.is_some());
    waiting::of_pod(pod).filter(|_| !has_ended)
}

/// The message of the kubelet about a container that waits, or of the agent about its run.
async fn message_of(
    target: &MiniClusterRef,
    cluster: &MiniCluster,
    pod: &Pod,
    unread: &Unread,
) -> Option<String> {
    let state = runner_state(pod, &target.name)?;
    if let Some(waiting) = &state.waiting {
        return waiting.message.clone();
    }
    if let Some(end) = &state.terminated {
        return TerminationMessage::from_json(end.message.as_deref()?)?.last_error;
    }
    let report = agent_report(target, &pod.name_any(), &layout(cluster).agent()).await;
    let report = unread.note("reports of agents", report)?;
    let phase = report["phase"].as_str()?;
    Some(match (report["lastError"].as_str(), report["doing"].as_str()) {
        (Some(error), _) => format!("{phase}: {error}"),
        (None, Some(doing)) => format!("{phase}: {doing}"),
        (None, None) => phase.to_owned(),
    })
}

/// The last Warning Events of the MiniCluster, its Job and its `pods`, but not of earlier ones with the same names.
async fn events(
    target: &MiniClusterRef,
    cluster: &MiniCluster,
    pods: &BTreeMap<u32, Pod>,
    now: Timestamp,
) -> Result<Vec<Line>> {
    let (name, is_over) = (&target.name, is_over(cluster));
    let created = cluster.creation_timestamp().map(|time| time.0);
    let parameters = ListParams::default().fields("type=Warning");
    let events = target.connection.api::<Event>().list(&parameters).await;
    let events = events.with_context(|| format!("list the Events of {name}"))?;
    let is_of = |event: &&Event| {
        // Probes fail when a run ends, which is no fault.
        let is_noise = is_over && event.reason.as_deref() == Some("Unhealthy");
        !is_noise && time(event) >= created && is_about(event, name, pods)
    };
    let mut events: Vec<(Timestamp, Line)> = events
        .items
        .iter()
        .filter(is_of)
        .filter_map(|event| Some((time(event)?, line(event, now))))
        .collect();
    events.sort();
    let first = events.len().saturating_sub(MAX_EVENTS);
    Ok(events.split_off(first).into_iter().map(|(_, line)| line).collect())
}

/// Whether the Event is about the MiniCluster `name`, about one of `pods`, or about their Job.
fn is_about(event: &Event, name: &str, pods: &BTreeMap<u32, Pod>) -> bool {
    let object = &event.involved_object;
    let of = object.name.as_deref().unwrap_or_default();
    if of != name {
        return pods.values().any(|pod| pod.metadata.name.as_deref() == Some(of));
    }
    // The Job of another run has the same name.
    let job = pods.values().find_map(|pod| pod.labels().get(CONTROLLER_UID));
    let is_of_job = object.kind.as_deref() == Some("Job");
    !is_of_job || job.is_none() || object.uid.as_ref() == job
}

fn time(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    last.or_else(|| event.event_time.as_ref().map(|time| time.0))
        .or_else(|| event.creation_timestamp().map(|time| time.0))
}

fn line(event: &Event, now: Timestamp) -> Line {
    let age = time(event).map(|at| age(at, now)).unwrap_or_default();
    let object = &event.involved_object;
    let about = format!(
        "{age} ago, {} {}: {}",
        object.kind.as_deref().unwrap_or_default(),
        object.name.as_deref().unwrap_or_default(),
        event.reason.as_deref().unwrap_or_default()
    );
    Line { about, message: event.message.as_deref().unwrap_or_default().trim_end().to_owned() }
}

/// The last lines of the lead's output or, if there are none or the broker has failed, of all that its log has.
async fn output(
    target: &MiniClusterRef,
    cluster: &MiniCluster,
    pods: &BTreeMap<u32, Pod>,
) -> Result<Vec<String>> {
    let Some(pod) = pods.get(&0) else { return Ok(Vec::new()) };
    let parameters = LogParams {
        container: Some(target.name.clone()),
        tail_lines: Some(READ_LINES),
        ..LogParams::default()
    };
    let bytes = match whole(&target.connection.api(), &pod.name_any(), &parameters).await {
        Err(error) => match error.downcast_ref() {
            // A container that has not started has no log, which is no failure.
            Some(kube::Error::Api(status)) if [400, 404].contains(&status.code) => Vec::new(),
            _ => return Err(error),
        },
        Ok(bytes) => bytes,
    };
    let log = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = log.lines().collect();
    let own: Vec<&str> = all.iter().copied().filter(|line| !is_of_flux(line)).collect();
    let reason = cluster.status.as_ref().and_then(|status| status.reason.as_deref());
    let is_of_broker = reason == Some(Reason::BrokerFailed.as_str());
    Ok(last(if own.is_empty() || is_of_broker { &all } else { &own }))
}

fn last(lines: &[&str]) -> Vec<String> {
    lines[lines.len().saturating_sub(OUTPUT_LINES)..].iter().map(ToString::to_string).collect()
}

fn output_of_status(cluster: &MiniCluster) -> Vec<String> {
    let result = cluster.status.as_ref().and_then(|status| status.result.as_ref());
    let output = result.and_then(|result| result.output.as_deref()).unwrap_or_default();
    last(&output.lines().collect::<Vec<_>>())
}

async fn queue(connection: &Connection, cluster: &MiniCluster) -> Result<Option<QueuePosition>> {
    let Some(queue) = cluster.labels().get(flux_api::cluster::QUEUE_LABEL) else { return Ok(None) };
    for version in ["v1beta2", "v1beta1"] {
        let path = format!(
            "/apis/visibility.kueue.x-k8s.io/{version}/namespaces/{}/localqueues/{queue}/pendingworkloads",
            connection.namespace
        );
        let request = kube::core::Request::new(path).list(&ListParams::default())?;
        match connection.client.request::<Value>(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            list => return Ok(position(&list?, &cluster.name_any(), queue)),
        }
    }
    Ok(None)
}

fn position(list: &Value, job: &str, queue: &str) -> Option<QueuePosition> {
    let mut items = list["items"].as_array()?.iter();
    let item = items.find(|item| {
        let owners = item["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| owners.iter().any(|owner| owner["name"] == job))
    })?;
    let position = item["positionInLocalQueue"].as_u64()?;
    Some(QueuePosition { queue: queue.to_owned(), position })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn limits_of_a_limit_range_are_shown() {
        let pod = |annotations: Value| -> Pod {
            let container = json!({ "name": "s", "resources": { "limits": { "cpu": "500m" } } });
            let metadata = json!({ "annotations": annotations });
            let pod = json!({ "metadata": metadata, "spec": { "containers": [container] } });
            serde_json::from_value(pod).unwrap()
        };
        let note = "LimitRanger plugin set: cpu limit for container s";
        let noted = added(&pod(json!({ "kubernetes.io/limit-ranger": note })), "s");
        assert_eq!(noted.unwrap(), format!("{note}; limits of s: cpu 500m"));
        assert_eq!(added(&pod(json!({})), "s"), None);
    }

    #[test]
    fn events_are_those_of_what_exists() {
        let pod = json!({ "metadata": { "name": "hello-0-b", "labels": { CONTROLLER_UID: "2" } } });
        let pods = BTreeMap::from([(0, serde_json::from_value(pod).unwrap())]);
        let is_shown = |kind: &str, name: &str, pods: &BTreeMap<u32, Pod>| {
            let object = json!({ "kind": kind, "name": name, "uid": "1" });
            let event = json!({ "metadata": {}, "involvedObject": object });
            is_about(&serde_json::from_value(event).unwrap(), "hello", pods)
        };
        for (kind, name, expected) in [
            ("MiniCluster", "hello", true),
            ("Pod", "hello-0-b", true),
            ("Pod", "hello-0-a", false),
            ("Pod", "hello-1-b", false),
            ("Job", "hello", false),
        ] {
            assert_eq!(is_shown(kind, name, &pods), expected, "{kind} {name}");
        }
        assert!(is_shown("Job", "hello", &BTreeMap::new()), "it may have made no pod");
    }

    #[test]
    fn a_message_is_shown_once() {
        let mut shown = vec!["pod a has no node: 0/1 nodes. Rank 1 (a-1): run".to_owned()];
        let lines = [
            ("Ready=False", "pod a has no node: 0/1 nodes"),
            ("Pod a: FailedScheduling", "0/1 nodes"),
            ("1 (a-1)", "run"),
            ("Stalled=True", "another message"),
            ("Event", "another message"),
        ];
        let lines = lines.map(|(about, message)| {
            Line { about: about.to_owned(), message: message.to_owned() }.once(&mut shown)
        });
        let expected = [
            "Ready=False",
            "Pod a: FailedScheduling",
            "1 (a-1): run",
            "Stalled=True: another message",
            "Event",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_position_is_that_of_the_jobs_workload() {
        let item = |job: &str, position: u64| json!({ "metadata": { "ownerReferences": [{ "name": job }] }, "positionInLocalQueue": position });
        let list = json!({ "items": [item("other", 0), item("mine", 1)] });
        assert_eq!(position(&list, "mine", "q").unwrap().position, 1);
        assert!(position(&list, "gone", "q").is_none());
    }
}
