//! Finds out why pods do not start, which no watch brings. After a change of the Job or its lead, a check reads
//! everything. Later checks send one small request each, and read everything only if its result is new.

use super::agent_port;
use super::cached_client::{CachedClient, is_owned};
use super::pending_check::{CHECK_DELAY, PendingCheck, PendingFindings};
use super::waiting::{
    EVENT_PODS, Waiting, cannot_join, event_time, gives_no_reason, not_started, waiting, warning,
};
use crate::controller::error::{Error, Verb};
use crate::controller::job_ext::{lacks_brokers, lacks_pods};
use crate::controller::pod_ext::{broker_is_ready, has_failed, is_unstarted, phase};
use flux_contract::labels;
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ListParams;
use kube::core::ObjectMeta;
use kube::{Api, ResourceExt as _};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;
use tokio::time::Instant;

/// Number of pending pods that a check reads.
const POD_LIMIT: u32 = 100;

/// One small request that shows whether something is new.
enum Probe<'findings> {
    Refusal,
    Namespace,
    Pods,
    Events(&'findings str, &'findings Option<String>),
    Obstacle,
}

/// What shows why brokers are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The status of the lead, which is watched: no pods are read.
    Lead,
    /// Pending pods and their Events.
    Pods,
    /// The same, and the agent of the first pod: its broker joins a lead in another MiniCluster.
    Agent,
}

/// Finds out why pods of `job` do not start or join; returns also the time to the next check. `lead` is the pod with
/// index 0.
pub(super) async fn check(
    client: &CachedClient<'_>,
    job: &Job,
    lead: Option<&Pod>,
    source: Source,
    now: &Time,
) -> Result<(PendingFindings, Duration), Error> {
    let checks_pods = lacks_brokers(job) && source != Source::Lead;
    let joiner = lead.filter(|lead| {
        let is_up = phase(lead) == Some("Running") && !broker_is_ready(lead, &job.name_any());
        checks_pods && source == Source::Agent && is_up
    });
    let lacks_pods = lacks_pods(job);
    let namespace_may_end = lacks_pods || lead.is_some_and(is_kept);
    let checker = Checker { client, job, joiner, checks_pods, lacks_pods, namespace_may_end };
    let versions = [job.resource_version(), lead.and_then(Pod::resource_version)];
    let cache = &client.context.cache;
    let last = client.context.watches().then(|| cache.check(&client.name)).flatten();
    if let Some(last) = &last
        && let Some(remaining) = checker.interval(last, &versions)
    {
        return Ok((last.findings(), remaining));
    }
    let next = match last.filter(|last| last.versions == versions) {
        Some(last) => checker.check_again(last, now).await?,
        None => PendingCheck::new(versions, Instant::now(), checker.check_all(now).await?),
    };
    let result = (next.findings(), next.interval());
    cache.set_check(&client.name, next);
    Ok(result)
}

/// Checks why pods of `job` do not start.
struct Checker<'job> {
    client: &'job CachedClient<'job>,
    job: &'job Job,
    /// A pod that runs, and whose agent knows why its broker has not joined.
    joiner: Option<&'job Pod>,
    /// True if pods and their Events are read.
    checks_pods: bool,
    /// True if the Job has fewer pods than it should.
    lacks_pods: bool,
    /// True if the Job controller may be unable to make pods because the namespace is being deleted.
    namespace_may_end: bool,
}

/// True for a failed pod that is being deleted: the Job controller keeps it until it has made another, and before that does
/// not count it in the Job's status.
fn is_kept(pod: &Pod) -> bool {
    has_failed(pod) && pod.metadata.deletion_timestamp.is_some()
}

impl Checker<'_> {
    /// Time until the next check. If neither the Job nor its lead has changed, it also waits for the rate limiter.
    fn interval(&self, last: &PendingCheck, versions: &[Option<String>; 2]) -> Option<Duration> {
        let is_same = last.versions == *versions;
        let after_change = CHECK_DELAY.saturating_sub(last.at.elapsed());
        let left = if is_same { last.remaining() } else { after_change };
        let is_repeated = is_same && (self.checks_pods || self.namespace_may_end);
        let limited = || self.client.context.check_rate.remaining(&self.client.name);
        Some(left).filter(|left| !left.is_zero()).or_else(|| is_repeated.then(limited).flatten())
    }

    /// Sends one probe, and reads everything only if its result is new.
    async fn check_again(&self, last: PendingCheck, now: &Time) -> Result<PendingCheck, Error> {
        let probes = self.probes(&last.findings);
        let probe = probes.get(last.number % probes.len().max(1));
        let is_new = match probe {
            Some(probe) => self.is_new(probe, &last.findings, now).await?,
            None => false,
        };
        let findings = if is_new { self.check_all(now).await? } else { last.findings.clone() };
        // Other pods with the same reason are nothing new.
        let since = if findings.is_same(&last.findings) { last.since } else { Instant::now() };
        Ok(PendingCheck { since, at: Instant::now(), number: last.number + 1, findings, ..last })
    }

    fn probes<'findings>(&self, findings: &'findings PendingFindings) -> Vec<Probe<'findings>> {
        let mut all = Vec::new();
        all.extend(self.lacks_pods.then_some(Probe::Refusal));
        all.extend(self.namespace_may_end.then_some(Probe::Namespace));
        if self.checks_pods {
            all.extend(self.joiner.map(|_| Probe::Obstacle));
            all.push(Probe::Pods);
            let events = |(uid, message): &'findings (String, Option<String>)| {
                [Probe::Events(uid, message), Probe::Pods]
            };
            all.extend(findings.pods_without_reason.iter().flat_map(events));
        }
        all
    }

    async fn is_new(
        &self,
        probe: &Probe<'_>,
        findings: &PendingFindings,
        now: &Time,
    ) -> Result<bool, Error> {
        Ok(match probe {
            Probe::Refusal => self.refusal().await? != findings.refused,
            Probe::Namespace => self.namespace_ends().await? != findings.namespace_ends,
            Probe::Obstacle => {
                let message = |waiting: &Waiting| waiting.message.clone();
                let found = self.obstacle(now).await;
                found.as_ref().map(message) != findings.waiting.as_ref().map(message)
            }
            Probe::Pods => self.hash_of_pending().await? != findings.pods,
            Probe::Events(uid, message) => warning(uid, &self.warnings(uid).await?) != **message,
        })
    }

    async fn check_all(&self, now: &Time) -> Result<PendingFindings, Error> {
        let mut findings = PendingFindings::default();
        if self.lacks_pods {
            findings.refused = self.refusal().await?;
        }
        if self.namespace_may_end {
            findings.namespace_ends = self.namespace_ends().await?;
        }
        if self.checks_pods {
            self.check_pods(now, &mut findings).await?;
        }
        Ok(findings)
    }

    /// Finds why pending pods do not start, unless they only need more time.
    async fn check_pods(&self, now: &Time, findings: &mut PendingFindings) -> Result<(), Error> {
        let pending = self.client.pods_of(self.job, self.pending()).take(POD_LIMIT as usize);
        let mut pods: Vec<Pod> = pending.try_collect().await?;
        findings.pods = hash_of(pods.iter().map(|pod| &pod.metadata));
        pods.retain(|pod| phase(pod) == Some("Pending"));
        pods.sort_by_key(index);
        let unexplained = pods.iter().filter(|pod| gives_no_reason(pod)).take(EVENT_PODS);
        let uids: Vec<String> = unexplained.filter_map(Pod::uid).collect();
        let warnings = try_join_all(uids.iter().map(|uid| self.warnings(uid))).await?;
        let warnings: Vec<Event> = warnings.into_iter().flatten().collect();
        let message = |uid: String| {
            let message = warning(&uid, &warnings);
            (uid, message)
        };
        findings.pods_without_reason = uids.into_iter().map(message).collect();
        let name = self.job.name_any();
        findings.waiting = waiting(&pods, &warnings, now).map(|it| it.with_remedy(&name));
        if findings.waiting.is_none() {
            findings.waiting = self.obstacle(now).await;
        }
        Ok(())
    }

    async fn obstacle(&self, now: &Time) -> Option<Waiting> {
        let pod = self.joiner?;
        agent_port::obstacle(pod).await.map(|obstacle| cannot_join(pod, &obstacle, now))
    }

    fn pending(&self) -> ListParams {
        let uid = self.job.uid().unwrap_or_default();
        let of_job = ListParams::default().labels(&format!("{}={uid}", labels::CONTROLLER_UID));
        of_job.fields("status.phase=Pending")
    }

    /// [`hash_of`] the pending pods, from a list of metadata.
    async fn hash_of_pending(&self) -> Result<u64, Error> {
        let api = self.client.objects::<Pod>().api;
        let pods = api.list_metadata(&self.pending().limit(POD_LIMIT)).await;
        let pods = pods.map_err(Error::of(Verb::Read, "Pods of Job", &self.job.name_any()))?;
        let uid = self.job.uid().unwrap_or_default();
        let of_job = pods.items.iter().filter(|pod| is_owned(*pod, &uid));
        Ok(hash_of(of_job.map(|pod| &pod.metadata)))
    }

    /// The message of an admission plugin that refuses pods (Pod Security, a quota), which is only in Events; else
    /// the kubelet's message about the newest pod that it has refused.
    async fn refusal(&self) -> Result<Option<String>, Error> {
        let uid = self.job.uid().unwrap_or_default();
        let fields = format!("involvedObject.uid={uid},reason=FailedCreate");
        let newest = self.events("Job", &fields).await?.into_iter().max_by_key(event_time);
        if let Some(message) = newest.and_then(|event| event.message) {
            return Ok(Some(refusal_message(&message)));
        }
        let failed = self.job.status.as_ref().and_then(|status| status.failed).unwrap_or_default();
        if failed == 0 {
            return Ok(None);
        }
        let failed = ListParams::default().fields("status.phase=Failed");
        let newer = async |found: Option<Pod>, pod: Pod| {
            Ok(found
                .into_iter()
                .chain([pod])
                .max_by_key(|pod| pod.creation_timestamp().map(|time| time.0)))
        };
        let newest = self.client.pods_of(self.job, failed).try_fold(None, newer).await?;
        let unstarted = newest.filter(|pod| is_unstarted(pod, &self.job.name_any()));
        Ok(unstarted.as_ref().map(not_started))
    }

    /// Whether the namespace is being deleted. Its pods are deleted first (KEP-5080), but the Job keeps failed pods
    /// until it can create others, which it cannot in such a namespace: so both wait until the Job is deleted.
    async fn namespace_ends(&self) -> Result<bool, Error> {
        let api: Api<Namespace> = Api::all(self.client.context.client.clone());
        let name = &self.client.name.0;
        let found = api.get_metadata_opt(name).await;
        let found = found.map_err(Error::of(Verb::Read, "Namespace", name))?;
        Ok(found.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some()))
    }

    async fn warnings(&self, uid: &str) -> Result<Vec<Event>, Error> {
        self.events("Pod", &format!("involvedObject.uid={uid},type=Warning")).await
    }

    async fn events(&self, kind: &str, fields: &str) -> Result<Vec<Event>, Error> {
        let (parameters, kind) =
            (ListParams::default().fields(fields), format!("Events of {kind}"));
        Ok(self.client.list(&parameters, &kind, &self.job.name_any()).await?.items)
    }
}

fn hash_of<'pod>(pods: impl Iterator<Item = &'pod ObjectMeta>) -> u64 {
    let mut versions: Vec<_> = pods.map(|it| (&it.uid, &it.resource_version)).collect();
    versions.sort_unstable();
    let mut hasher = DefaultHasher::new();
    versions.hash(&mut hasher);
    hasher.finish()
}

fn index(pod: &Pod) -> (u32, String) {
    let index = pod.labels().get(labels::COMPLETION_INDEX).and_then(|index| index.parse().ok());
    (index.unwrap_or(u32::MAX), pod.name_any())
}

/// The Job controller's message without the pod's name, which differs at each attempt.
fn refusal_message(message: &str) -> String {
    let text = message.strip_prefix("Error creating: ").unwrap_or(message);
    let after_name = text.strip_prefix("pods \"").and_then(|it| it.split_once("\" "));
    let reason = after_name.map_or(text, |(_, it)| it.strip_prefix("is ").unwrap_or(it));
    format!("pods are refused: {reason}")
}
