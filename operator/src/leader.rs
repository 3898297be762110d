//! One operator acts at a time: who holds the Lease.
//!
//! The rules are client-go's: a holder renews every [`RETRY_PERIOD`] and gives up when no renewal
//! was confirmed for [`RENEW_DEADLINE`]; another takes the Lease when it has seen no renewal for
//! [`DURATION`], by its own clock, and only as the version that it has seen (docs/design/operator.md).

use anyhow::{Context as _, Error, Result, anyhow, bail};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Time after which the Lease of an operator that does not renew it may be taken.
pub const DURATION: Duration = Duration::from_secs(15);
/// Time after which a holder that cannot renew the Lease stops acting.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Time between two attempts to get or to renew the Lease.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Longest time for one attempt: a connection that died must not use up the deadline.
const ATTEMPT: Duration = Duration::from_secs(4);

/// A candidate for the Lease, and its holder once [`Self::gain`] has resolved.
pub struct Candidate {
    api: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    seen: Option<Seen>,
    /// When the request began that last made the Lease ours.
    confirmed: Instant,
}

struct Seen {
    lease: Lease,
    since: Instant,
    /// It is what our own write was answered with: no need to read it before the next one.
    ours: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Standing {
    /// The Lease is ours for [`DURATION`].
    Held,
    Theirs(String),
    /// It changed between the read and the write.
    Unclear,
}

impl Candidate {
    /// A candidate for the Lease `name` in `namespace`. `identity` is this process's and no other's.
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

    /// Resolves when the Lease is ours; calls `standing_by` when the API server says that it is not.
    pub async fn gain(&mut self, standing_by: impl Fn()) {
        loop {
            match self.attempt().await {
                Ok(Standing::Held) => return,
                Ok(Standing::Theirs(_) | Standing::Unclear) => standing_by(),
                Err(error) => warn(&error),
            }
            sleep(RETRY_PERIOD).await;
        }
    }

    /// Renews the Lease; resolves when it is lost, before another can take it, with the reason.
    pub async fn keep(&mut self) -> Error {
        loop {
            let deadline = self.confirmed + RENEW_DEADLINE;
            let next = async {
                sleep(RETRY_PERIOD).await;
                self.attempt().await
            };
            match timeout_at(deadline, next).await {
                Ok(Ok(Standing::Theirs(holder))) => {
                    return anyhow!("the Lease is held by {holder}");
                }
                Ok(Ok(Standing::Held | Standing::Unclear)) => {}
                Ok(Err(error)) => warn(&error),
                Err(_) => {
                    let seconds = RENEW_DEADLINE.as_secs();
                    return anyhow!("the Lease could not be renewed for {seconds} s");
                }
            }
        }
    }

    /// Gives the Lease back if it is ours, so that another operator need not wait for its end.
    pub async fn release(mut self) {
        let Some(Seen { mut lease, ours: true, .. }) = self.seen.take() else { return };
        let spec = lease.spec.get_or_insert_default();
        (spec.holder_identity, spec.renew_time) = (None, Some(MicroTime(Timestamp::now())));
        let parameters = PostParams::default();
        match timeout(ATTEMPT, self.api.replace(&self.name, &parameters, &lease)).await {
            Ok(Ok(_)) => tracing::info!("released the Lease"),
            Ok(Err(error)) => tracing::warn!(%error, "release the Lease"),
            Err(_) => tracing::warn!("release the Lease: no answer"),
        }
    }

    async fn attempt(&mut self) -> Result<Standing> {
        if let Ok(answer) = timeout(ATTEMPT, self.try_once()).await {
            return answer;
        }
        // It may have been done all the same.
        self.mistrust();
        bail!("no answer about the Lease {} for {} s", self.lease(), ATTEMPT.as_secs())
    }

    async fn try_once(&mut self) -> Result<Standing> {
        let begin = Instant::now();
        let found = self.read().await?;
        let claim = claim(found.as_ref(), &self.identity, self.has_expired(), Timestamp::now());
        let Some(spec) = claim else {
            return Ok(Standing::Theirs(found.as_ref().and_then(holder).unwrap_or_default()));
        };
        let parameters = PostParams::default();
        let (action, written) = if let Some(found) = found {
            // With the resource version that was read: if it changed since, nothing is written.
            let lease = Lease { spec: Some(spec), ..found };
            ("renew", self.api.replace(&self.name, &parameters, &lease).await)
        } else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            ("create", self.api.create(&parameters, &Lease { metadata, spec: Some(spec) }).await)
        };
        match written {
            Ok(lease) => {
                self.confirmed = begin;
                self.seen = Some(Seen { lease, since: begin, ours: true });
                Ok(Standing::Held)
            }
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                self.mistrust();
                Ok(Standing::Unclear)
            }
            Err(error) => {
                self.mistrust();
                Err(error).with_context(|| format!("{action} the Lease {}", self.lease()))
            }
        }
    }

    /// The Lease as it is: as our last write was answered, else read now.
    async fn read(&mut self) -> Result<Option<Lease>> {
        if let Some(Seen { lease, ours: true, .. }) = &self.seen {
            return Ok(Some(lease.clone()));
        }
        let found = self.api.get_opt(&self.name).await;
        let found = found.with_context(|| format!("read the Lease {}", self.lease()))?;
        let Some(lease) = found else { return Ok(None) };
        let same = self.seen.as_ref().filter(|seen| seen.lease.spec == lease.spec);
        let since = same.map_or_else(Instant::now, |seen| seen.since);
        self.seen = Some(Seen { lease: lease.clone(), since, ours: false });
        Ok(Some(lease))
    }

    fn mistrust(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.ours = false;
        }
    }

    fn has_expired(&self) -> bool {
        self.seen.as_ref().is_some_and(|Seen { lease, since, .. }| {
            let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
            let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
            since.elapsed() >= seconds.map_or(DURATION, Duration::from_secs)
        })
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// What the Lease has to say to be `identity`'s; `None` while it is another's.
fn claim(
    found: Option<&Lease>,
    identity: &str,
    expired: bool,
    now: Timestamp,
) -> Option<LeaseSpec> {
    let holder = found.and_then(holder);
    let ours = holder.as_deref() == Some(identity);
    if holder.is_some() && !ours && !expired {
        return None;
    }
    let old = found.and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let transitions = old.lease_transitions.unwrap_or_default();
    Some(LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: if ours { old.acquire_time } else { Some(MicroTime(now)) },
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(if ours { transitions } else { transitions.saturating_add(1) }),
        ..LeaseSpec::default()
    })
}

fn holder(lease: &Lease) -> Option<String> {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
    holder.filter(|holder| !holder.is_empty())
}

fn warn(error: &Error) {
    let cause = error.source().map(ToString::to_string);
    tracing::warn!(%error, cause, "try for the Lease again");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_gives_up_before_another_may_take_over() {
        assert!(RETRY_PERIOD + ATTEMPT < RENEW_DEADLINE && RENEW_DEADLINE < DURATION);
    }
}
