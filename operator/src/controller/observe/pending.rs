//! Asks why pods do not start, which no watch tells: for everything when the Job or its lead has changed. As long as
//! they have not, each check asks for one thing, and as little of it as tells whether there is something new.

use super::cached_client::{CachedClient, is_owned};
use super::pending_check::{BEGIN, Check, Found};
use super::waiting::{SILENT_LIMIT, event_time, is_silent, not_started, waiting, warning};
use crate::controller::error::{Error, Verb};
use crate::controller::job_ext::{lacks_brokers, lacks_pods};
use crate::controller::pod_ext::{is_unstarted, phase};
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

/// Pods that are asked why they do not start.
const ASKED: u32 = 100;

enum Question<'found> {
    Refusal,
    Namespace,
    Pods,
    Events(&'found str, &'found Option<String>),
}

/// Finds out why pods of `job` do not start; also, after what time to ask again. `lead_says`: no pod is asked, as the
/// lead's, which is watched, says what it waits for.
pub(super) async fn check(
    client: &CachedClient<'_>,
    job: &Job,
    lead: Option<&Pod>,
    lead_says: bool,
    now: &Time,
) -> Result<(Found, Duration), Error> {
    let checker = Checker { client, job, asks_pods: lacks_brokers(job) && !lead_says };
    let versions = [job.resource_version(), lead.and_then(Pod::resource_version)];
    let recent = &client.context.recent;
    let last = client.context.watches().then(|| recent.check(&client.cluster)).flatten();
    if let Some(last) = &last
        && let Some(rest) = checker.pause(last, &versions)
    {
        return Ok((last.found(), rest));
    }
    let next = match last.filter(|last| last.versions == versions) {
        Some(last) => checker.check_again(last, now).await?,
        None => Check::new(versions, Instant::now(), checker.ask_all(now).await?),
    };
    let answer = (next.found(), next.pause());
    recent.set_check(&client.cluster, next);
    Ok(answer)
}

/// Who asks why pods of `job` do not start.
struct Checker<'job> {
    client: &'job CachedClient<'job>,
    job: &'job Job,
    /// Whether the pods themselves are asked.
    asks_pods: bool,
}

impl Checker<'_> {
    /// How long nothing is asked after `last`. Who has no reason to think that there is something new waits for the rate limit.
    fn pause(&self, last: &Check, versions: &[Option<String>; 2]) -> Option<Duration> {
        let is_same = last.versions == *versions;
        let rest = if is_same { last.rest() } else { BEGIN.saturating_sub(last.at.elapsed()) };
        let asks = is_same && (self.asks_pods || lacks_pods(self.job));
        let limited = || self.client.context.check_rate.rest(&self.client.cluster);
        Some(rest).filter(|rest| !rest.is_zero()).or_else(|| asks.then(limited).flatten())
    }

    /// Asks one thing, and only if that is not what it was, everything.
    async fn check_again(&self, last: Check, now: &Time) -> Result<Check, Error> {
        let questions = self.questions(&last.found);
        let question = questions.get(last.number % questions.len().max(1));
        let is_new = match question {
            Some(question) => self.is_new(question, &last.found).await?,
            None => false,
        };
        let found = if is_new { self.ask_all(now).await? } else { last.found.clone() };
        // Pods that have changed and tell the same are nothing new.
        let since = if found.tells_the_same(&last.found) { last.since } else { Instant::now() };
        Ok(Check { since, at: Instant::now(), number: last.number + 1, found, ..last })
    }

    fn questions<'found>(&self, found: &'found Found) -> Vec<Question<'found>> {
        let mut all = Vec::new();
        if lacks_pods(self.job) {
            all.extend([Question::Refusal, Question::Namespace]);
        }
        if self.asks_pods {
            all.push(Question::Pods);
            let events = |(uid, says): &'found (String, Option<String>)| {
                [Question::Events(uid, says), Question::Pods]
            };
            all.extend(found.silent.iter().flat_map(events));
        }
        all
    }

    async fn is_new(&self, question: &Question<'_>, found: &Found) -> Result<bool, Error> {
        Ok(match question {
            Question::Refusal => self.refusal().await? != found.refused,
            Question::Namespace => self.namespace_ends().await? != found.namespace_ends,
            Question::Pods => self.versions_of_pending().await? != found.pods,
            Question::Events(uid, says) => warning(uid, &self.warnings(uid).await?) != **says,
        })
    }

    async fn ask_all(&self, now: &Time) -> Result<Found, Error> {
        let mut found = Found::default();
        if lacks_pods(self.job) {
            found.refused = self.refusal().await?;
            found.namespace_ends = self.namespace_ends().await?;
        }
        if self.asks_pods {
            self.ask_pods(now, &mut found).await?;
        }
        Ok(found)
    }

    /// Why pods that wait do not start, if they do not only need more time.
    async fn ask_pods(&self, now: &Time, found: &mut Found) -> Result<(), Error> {
        let pending = self.client.pods_of(self.job, self.pending()).take(ASKED as usize);
        let mut pods: Vec<Pod> = pending.try_collect().await?;
        found.pods = hash_of(pods.iter().map(|pod| &pod.metadata));
        pods.retain(|pod| phase(pod) == Some("Pending"));
        pods.sort_by_key(index);
        let silent = pods.iter().filter(|pod| is_silent(pod)).take(SILENT_LIMIT);
        let silent: Vec<String> = silent.filter_map(Pod::uid).collect();
        let warnings = try_join_all(silent.iter().map(|uid| self.warnings(uid))).await?;
        let warnings: Vec<Event> = warnings.into_iter().flatten().collect();
        let says = |uid: String| {
            let says = warning(&uid, &warnings);
            (uid, says)
        };
        found.silent = silent.into_iter().map(says).collect();
        let name = self.job.name_any();
        found.waiting = waiting(&pods, &warnings, now).map(|it| it.with_remedy(&name));
        Ok(())
    }

    fn pending(&self) -> ListParams {
        let uid = self.job.uid().unwrap_or_default();
        let of_job = ListParams::default().labels(&format!("{}={uid}", labels::CONTROLLER_UID));
        of_job.fields("status.phase=Pending")
    }

    /// As [`hash_of`] has it, of as many pods as are asked. Only their metadata are read.
    async fn versions_of_pending(&self) -> Result<u64, Error> {
        let api = self.client.objects::<Pod>().api;
        let pods = api.list_metadata(&self.pending().limit(ASKED)).await;
        let pods = pods.map_err(Error::of(Verb::Read, "Pods of Job", &self.job.name_any()))?;
        let uid = self.job.uid().unwrap_or_default();
        let of_job = pods.items.iter().filter(|pod| is_owned(*pod, &uid));
        Ok(hash_of(of_job.map(|pod| &pod.metadata)))
    }

    /// What an admission plugin says about pods that it refuses (Pod Security, a quota): it is in Events alone. Else,
    /// what a kubelet says about the last one that it has refused.
    async fn refusal(&self) -> Result<Option<String>, Error> {
        let uid = self.job.uid().unwrap_or_default();
        let fields = format!("involvedObject.uid={uid},reason=FailedCreate");
        let newest = self.events("Job", &fields).await?.into_iter().max_by_key(event_time);
        if let Some(message) = newest.and_then(|event| event.message) {
            return Ok(Some(refused(&message)));
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

    /// Whether the namespace is being deleted. Its pods go first (KEP-5080), and the Job keeps those that have failed
    /// until it can make others, which it cannot there: the two wait for each other until the Job goes.
    async fn namespace_ends(&self) -> Result<bool, Error> {
        let api: Api<Namespace> = Api::all(self.client.context.client.clone());
        let name = &self.client.cluster.0;
        let found = api.get_metadata_opt(name).await;
        let found = found.map_err(Error::of(Verb::Read, "Namespace", name))?;
        Ok(found.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some()))
    }

    /// The Warning Events of the pod with this uid.
    async fn warnings(&self, uid: &str) -> Result<Vec<Event>, Error> {
        self.events("Pod", &format!("involvedObject.uid={uid},type=Warning")).await
    }

    async fn events(&self, kind: &str, fields: &str) -> Result<Vec<Event>, Error> {
        let (parameters, kind) =
            (ListParams::default().fields(fields), format!("Events of {kind}"));
        Ok(self.client.list(&parameters, &kind, &self.job.name_any()).await?.items)
    }
}

/// A hash that is another one when other pods are there, or one has another version.
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

/// The Job controller's words without the pod's name: it makes another pod each time.
fn refused(message: &str) -> String {
    let text = message.strip_prefix("Error creating: ").unwrap_or(message);
    let rest = text.strip_prefix("pods \"").and_then(|rest| rest.split_once("\" "));
    let rest = rest.map_or(text, |(_, rest)| rest.strip_prefix("is ").unwrap_or(rest));
    format!("pods are refused: {rest}")
}
