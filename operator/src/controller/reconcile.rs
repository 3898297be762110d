//! One look at one MiniCluster: observe, validate, build, apply, status.

use super::Context;
use super::agent_change::{Started, started};
use super::apply;
use super::build::{self, agent_config};
use super::course::{self, Course, Why, course};
use super::ended_run::{self, EndedRun, noted_generation};
use super::error::Error;
use super::events::scaled_down;
use super::job_change::{JobChange, changed_fields, is_finished, job_change, shrinks};
use super::observe::{self, Acceptance, Live, Observed, Trouble};
use super::observe::{broker_is_ready, lacks_brokers, lacks_pods};
use super::read::{Read, read};
use super::report::{publish, report};
use super::services_change::{ServicesChange, services_change};
use super::services_pod;
use super::status::{is_over, status};
use crate::cluster::{Cluster, Identity, Violations, validate};
use crate::crd::{MiniCluster, MiniClusterStatus, State};
use crate::curve;
use flux_contract::{AgentConfig, Bootstrap, ClusterName, Workload};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::PartialObjectMeta;
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Wait before the next look where no watch tells what happens: at pods that do not start, at a Job
/// that gets fewer pods than it asks for, at one that another operator made.
const POLL: Duration = Duration::from_secs(10);
/// Wait before the next attempt at the short name of a Service that somebody else has.
const NAME_TAKEN: Duration = Duration::from_mins(1);

/// Brings one MiniCluster in line with its specification and says how it stands.
pub(super) async fn reconcile(
    marker: Arc<PartialObjectMeta<MiniCluster>>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let (namespace, name) = (marker.namespace().unwrap_or_default(), marker.name_any());
    let api: Api<MiniCluster> = Api::namespaced(context.client.clone(), &namespace);
    // Read afresh: a watch may lag behind what was written a moment ago, and a decision taken on
    // an old specification would have to be taken back.
    let read = read(&context.client, &namespace, &name).await?;
    let Some(Read { object, unreadable }) = read else { return Ok(Action::await_change()) };
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let look = Look { context: &context, object: &object, unreadable, now: now() };
    let mut observed = Observed {
        generation: object.metadata.generation.unwrap_or_default(),
        cleanup: object.spec.cleanup,
        ..Observed::default()
    };
    let mut live = Live::default();
    let result = Box::pin(look.observe_and_act(&mut live, &mut observed)).await;
    if let Err(conflict @ Error::Conflict { .. }) = result {
        // What was read is out of date already: no reason to tell of it.
        return Err(conflict);
    }
    observed.trouble = result.as_ref().err().map(Trouble::from);
    let status = status(object.status.as_ref(), &name, &observed, look.now.clone());
    let ended = look.note_end(&live, &observed, &status).await;
    let reported = report(&api, &context.recorder(), &object, &status).await;
    if let (Err(_), Err(error)) = (&result, &reported) {
        // The first error is the cause, and is the one that is returned.
        tracing::warn!(error = error.chain(), "the status could not be written either");
    }
    result?;
    reported.and(ended)?;
    if object.spec.cleanup && is_over(&status) {
        tracing::info!("delete the MiniCluster: its lead has finished and cleanup is asked for");
        apply::delete(&api, &object).await?;
    }
    Ok(next_look(&observed, status.state, &name))
}

/// When to look again although no watch has told of anything.
fn next_look(observed: &Observed, state: Option<State>, name: &str) -> Action {
    let Some(job) = &observed.job else { return Action::await_change() };
    // A lead that is not ready any more ends in a moment, or is found degraded.
    let ready = observed.lead.as_ref().is_some_and(|lead| broker_is_ready(lead, name));
    let starts = state != Some(State::Running) || observed.waiting.is_some() || !ready;
    let foreign = observed.left_alone == Some(Why::AnotherOperator);
    if lacks_pods(job) || (lacks_brokers(job) && starts) || foreign {
        Action::requeue(POLL)
    } else if !observed.names_taken.is_empty() && state == Some(State::Running) {
        Action::requeue(NAME_TAKEN)
    } else {
        Action::await_change()
    }
}

/// One look: what it works with.
struct Look<'look> {
    context: &'look Context,
    object: &'look MiniCluster,
    /// Why the specification in `object` is not the one that was read.
    unreadable: Option<Violations>,
    now: Time,
}

impl Look<'_> {
    /// Reads what there is, decides what is to be done, does it, and notes all of it in `observed`
    /// on the way, so that the status is as complete as can be even if a step fails.
    async fn observe_and_act(&self, live: &mut Live, observed: &mut Observed) -> Result<(), Error> {
        let validated = self
            .unreadable
            .clone()
            .map_or_else(|| validate(self.object, &self.context.defaults), Err);
        let cluster = match validated {
            Ok(cluster) => {
                observed.acceptance = Acceptance::Accepted(cluster.not_acted_on.clone());
                observed.maximum_size = Some(cluster.max_size);
                Some(cluster)
            }
            Err(violations) => {
                tracing::warn!(%violations, "the specification is invalid");
                observed.acceptance = Acceptance::Refused(violations);
                None
            }
        };
        // Under a name that cannot be one nothing was ever made.
        let Ok(identity) = Identity::of(self.object) else { return Ok(()) };
        let client = &self.context.client;
        let services = cluster.as_ref().is_some_and(|cluster| cluster.services.is_some());
        *live = observe::live(client, &identity, services).await?;
        observed.job.clone_from(&live.job);
        observed.services.clone_from(&live.services_pod);
        if let Some(config) = course::agent_config(live.config_map.as_ref()) {
            observed.interactive =
                matches!(config.workload, Workload::Interactive { .. } | Workload::Diagnostics {});
            observed.maximum_size = maximum_size(&identity.name, &config).or(observed.maximum_size);
        }
        if let (Some(job), Some(cluster)) = (&live.job, &cluster) {
            observed.refused = changed_fields(job, &cluster.fixed_fields);
        }
        let images = &self.context.images;
        match course(live, cluster.as_ref(), observed.generation, images) {
            Course::Pursue => {
                if let Some(cluster) = &cluster {
                    Box::pin(self.realise(cluster, live, observed)).await?;
                }
            }
            Course::Over(run) => observed.ended = run,
            Course::LeaveAlone(why) => observed.left_alone = Some(why),
            Course::Refused => {}
        }
        observe::pods(client, &identity, observed, &self.now).await?;
        if observed.ended.is_some() || observed.job.as_ref().is_some_and(is_finished) {
            services_pod::retire(client, &identity, live.services_pod.as_ref()).await?;
        }
        Ok(())
    }

    /// Applies all objects.
    async fn realise(
        &self,
        cluster: &Cluster,
        live: &Live,
        observed: &mut Observed,
    ) -> Result<(), Error> {
        let Context { client, images, .. } = self.context;
        let live = Live {
            config_map: ended_run::forget(client, &cluster.identity(), live).await?,
            ..live.clone()
        };
        let lead = apply::services(client, cluster, &build::services(cluster)).await?;
        let Started { cluster, config, refused } =
            fitted(cluster, lead, &live, observed.generation);
        observed.refused.splice(0..0, refused);
        observed.maximum_size = maximum_size(&cluster.name, &config).or(observed.maximum_size);
        let failed = |source| Error::Build { source };
        let mut desired =
            build::build(&cluster, lead, images, observed.generation).map_err(failed)?;
        desired.config_map = build::config_map(&cluster, &config).map_err(failed)?;
        let services_change = services_change(
            live.services_pod.as_ref(),
            desired.services_pod.as_ref(),
            cluster.services.as_ref(),
        );
        if let ServicesChange::Refuse(fields) = &services_change {
            observed.refused.extend(fields.iter().cloned());
        }
        let refused = !observed.refused.is_empty();
        let change = job_change(live.job.as_ref(), &desired.job, refused);
        if matches!(change, JobChange::Create) {
            let text = curve::certificate(&cluster, getrandom::fill)
                .map_err(|source| Error::Curve { source })?;
            if let Some(secret) = text.and_then(|text| build::secret(&cluster, &text)) {
                apply::secret(client, &cluster, &secret).await?;
            }
        }
        let services_pod = live.services_pod.clone();
        observed.services =
            services_pod::realise(client, &cluster, services_pod, &services_change).await?;
        let shrinks = shrinks(live.job.as_ref(), &change);
        let applied = Box::pin(apply::desired(client, &cluster, desired, live, &change)).await?;
        if let Some((from, to)) = shrinks {
            let event = scaled_down(cluster.name.as_str(), from, to);
            publish(&self.context.recorder(), self.object, &event).await;
        }
        observed.job = Some(applied.job);
        observed.names_taken = applied.names_taken;
        Ok(())
    }

    /// Notes that the run has ended and how, before the status says so: somebody may delete the Job
    /// as soon as it does.
    async fn note_end(
        &self,
        live: &Live,
        observed: &Observed,
        status: &MiniClusterStatus,
    ) -> Result<(), Error> {
        let Some(job) = observed.job.as_ref().filter(|_| observed.ended.is_none()) else {
            return Ok(());
        };
        let run = EndedRun::of(job, status, observed.generation);
        let (Some(run), Ok(identity)) = (run, Identity::of(self.object)) else { return Ok(()) };
        ended_run::note(&self.context.client, &identity, live.config_map.as_ref(), &run).await
    }
}

/// The cluster and its agents' configuration, cut to what a running instance can take.
fn fitted(cluster: &Cluster, lead: Option<IpAddr>, live: &Live, generation: i64) -> Started {
    let running = live.job.as_ref().zip(course::agent_config(live.config_map.as_ref()));
    let Some((job, config)) = running else {
        return Started {
            cluster: cluster.clone(),
            config: agent_config(cluster, lead),
            refused: Vec::new(),
        };
    };
    let backoff_limit = job.spec.as_ref().and_then(|spec| spec.backoff_limit).unwrap_or_default();
    let fitted = started(cluster.clone(), &config, backoff_limit.unsigned_abs(), lead);
    if noted_generation(job) == Some(generation) {
        // Nothing was asked for since: what differs is a newer operator's way to say the same.
        let mut config = config;
        config.network.lead_address = fitted.config.network.lead_address;
        return Started { config, refused: Vec::new(), ..fitted };
    }
    fitted
}

/// Hosts that a size may reach: all of Flux's that are this MiniCluster's pods.
fn maximum_size(name: &ClusterName, config: &AgentConfig) -> Option<u32> {
    match &config.network.bootstrap {
        Bootstrap::Child { .. } => None,
        Bootstrap::Root { hosts } => Some(hosts.indexes_of(name.as_str())),
    }
}

/// The time in whole seconds, as Kubernetes writes it.
pub(super) fn now() -> Time {
    let now = Timestamp::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
