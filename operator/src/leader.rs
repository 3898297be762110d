//! Leader election: only the operator that holds the Lease reconciles.
//!
//! The rules are client-go's: a holder renews the Lease every [`RETRY_PERIOD`] and stops acting when no renewal was
//! confirmed for [`RENEW_DEADLINE`]. Another operator takes the Lease when it has seen no renewal for [`DURATION`] by
//! its own clock, and writes with the resource version that it has seen (docs/design/operator.md).

use anyhow::{Context as _, Error, Result, anyhow, bail};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Time without a renewal after which another operator may take the Lease.
pub const DURATION: Duration = Duration::from_secs(15);
/// Time after which a holder that cannot renew the Lease stops acting.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Time between two attempts to get or to renew the Lease.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Timeout of one attempt, so that a dead connection cannot use up the deadline.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(4);

/// A candidate for the Lease, and its holder once [`Self::gain`] has resolved.
pub struct Candidate {
    api: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    seen: Option<SeenLease>,
    /// When the last successful write of the Lease was sent.
    confirmed: Instant,
}

struct SeenLease {
    lease: Lease,
    since: Instant,
    /// The API server returned this Lease for our own write, so the next write needs no read before it.
    written_by_us: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum LeaseState {
    /// This operator holds the Lease for [`DURATION`].
    Held,
    Theirs(String),
    /// The Lease changed between the read and the write.
    Unclear,
}

impl Candidate {
    /// A candidate for the Lease `name` in `namespace`. No other process may use `identity`.
    pub fn new(client: Client, namespace: &str, name: &str, identity: String) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity,
            seen: None,
            confirmed: Instant::now(),
        }
    }

    /// Resolves when this operator holds the Lease; calls `standing_by` after each attempt that shows another holder.
    pub async fn gain(&mut self, standing_by: impl Fn()) {
        loop {
            match self.attempt().await {
                Ok(LeaseState::Held) => return,
                Ok(LeaseState::Theirs(_) | LeaseState::Unclear) => standing_by(),
                Err(error) => warn(&error),
            }
            sleep(RETRY_PERIOD).await;
        }
    }

    /// Renews the Lease; returns the reason when it is lost, before another operator can take it.
    pub async fn keep(&mut self) -> Error {
        loop {
            let deadline = self.confirmed + RENEW_DEADLINE;
            let next = async {
                sleep(RETRY_PERIOD).await;
                self.attempt().await
            };
            match timeout_at(deadline, next).await {
                Ok(Ok(LeaseState::Theirs(holder))) => {
                    return anyhow!("the Lease is held by {holder}");
                }
                Ok(Ok(LeaseState::Held | LeaseState::Unclear)) => {}
                Ok(Err(error)) => warn(&error),
                Err(_) => {
                    let seconds = RENEW_DEADLINE.as_secs();
                    return anyhow!("the Lease could not be renewed for {seconds} s");
                }
            }
        }
    }

    /// Releases the Lease if this operator holds it, so that another operator need not wait until it expires.
    pub async fn release(mut self) {
        let Some(SeenLease { mut lease, written_by_us: true, .. }) = self.seen.take() else {
            return;
        };
        let spec = lease.spec.get_or_insert_default();
        (spec.holder_identity, spec.renew_time) = (None, Some(MicroTime(Timestamp::now())));
        let parameters = PostParams::default();
        match timeout(ATTEMPT_TIMEOUT, self.api.replace(&self.name, &parameters, &lease)).await {
            Ok(Ok(_)) => tracing::info!("released the Lease"),
            Ok(Err(error)) => tracing::warn!(%error, "release the Lease"),
            Err(_) => tracing::warn!("release the Lease: the API server did not respond"),
        }
    }

    async fn attempt(&mut self) -> Result<LeaseState> {
        if let Ok(result) = timeout(ATTEMPT_TIMEOUT, self.try_once()).await {
            return result;
        }
        // The API server may have done the write although no response came.
        self.invalidate_cached_lease();
        bail!("no response for {} s: the Lease {}", ATTEMPT_TIMEOUT.as_secs(), self.display_name())
    }

    async fn try_once(&mut self) -> Result<LeaseState> {
        let begin = Instant::now();
        let found = self.read().await?;
        let claim = claim(found.as_ref(), &self.identity, self.has_expired(), Timestamp::now());
        let Some(spec) = claim else {
            return Ok(LeaseState::Theirs(found.as_ref().and_then(holder).unwrap_or_default()));
        };
        let parameters = PostParams::default();
        let (action, written) = if let Some(found) = found {
            // The write carries the resource version that was read, so that it fails if the Lease has changed.
            let lease = Lease { spec: Some(spec), ..found };
            ("renew", self.api.replace(&self.name, &parameters, &lease).await)
        } else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            ("create", self.api.create(&parameters, &Lease { metadata, spec: Some(spec) }).await)
        };
        match written {
            Ok(lease) => {
                self.confirmed = begin;
                self.seen = Some(SeenLease { lease, since: begin, written_by_us: true });
                Ok(LeaseState::Held)
            }
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                self.invalidate_cached_lease();
                Ok(LeaseState::Unclear)
            }
            Err(error) => {
                self.invalidate_cached_lease();
                Err(error).with_context(|| format!("{action} the Lease {}", self.display_name()))
            }
        }
    }

    /// The current Lease: the result of our last write, else read from the API server.
    async fn read(&mut self) -> Result<Option<Lease>> {
        if let Some(SeenLease { lease, written_by_us: true, .. }) = &self.seen {
            return Ok(Some(lease.clone()));
        }
        let found = self.api.get_opt(&self.name).await;
        let found = found.with_context(|| format!("read the Lease {}", self.display_name()))?;
        let Some(lease) = found else { return Ok(None) };
        let same = self.seen.as_ref().filter(|seen| seen.lease.spec == lease.spec);
        let since = same.map_or_else(Instant::now, |seen| seen.since);
        self.seen = Some(SeenLease { lease: lease.clone(), since, written_by_us: false });
        Ok(Some(lease))
    }

    fn invalidate_cached_lease(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.written_by_us = false;
        }
    }

    fn has_expired(&self) -> bool {
        self.seen.as_ref().is_some_and(|SeenLease { lease, since, .. }| {
            let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
            let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
            since.elapsed() >= seconds.map_or(DURATION, Duration::from_secs)
        })
    }

    fn display_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The new specification by which `identity` takes or renews the Lease; `None` while another operator holds it.
fn claim(
    found: Option<&Lease>,
    identity: &str,
    expired: bool,
    now: Timestamp,
) -> Option<LeaseSpec> {
    let holder = found.and_then(holder);
    let is_ours = holder.as_deref() == Some(identity);
    if holder.is_some() && !is_ours && !expired {
        return None;
    }
    let old = found.and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let transitions = old.lease_transitions.unwrap_or_default();
    Some(LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: if is_ours { old.acquire_time } else { Some(MicroTime(now)) },
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(if is_ours { transitions } else { transitions.saturating_add(1) }),
        ..LeaseSpec::default()
    })
}

fn holder(lease: &Lease) -> Option<String> {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
    holder.filter(|holder| !holder.is_empty())
}

fn warn(error: &Error) {
    let cause = error.source().map(ToString::to_string);
    tracing::warn!(%error, cause, "the Lease could not be taken or renewed; next attempt follows");
}
