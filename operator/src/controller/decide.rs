//! Decides what is written and reported, as a function of the specification and the live objects.

mod agent_change;
pub(super) mod autoscale;
pub(super) mod change;
pub(super) mod deletion;
mod dropped;
mod gang;
pub(super) mod held;
pub(super) mod instance_api;
mod job_change;
pub(super) mod queue;
pub(super) mod record;
mod services;
pub(super) mod start_deadline;
pub(super) mod suspension;

use super::error::Error;
use super::job_ext::{lacks_brokers, lacks_pods};
use super::observe::Observed;
use super::observe::demand::Answer;
use super::observe::foreign::Foreign;
use super::observe::lifecycle::Lifecycle;
use super::observe::next_run::is_asked_for;
use super::pod_ext::broker_is_ready;
use agent_change::{ApplicableSpec, limit_to_running};
use autoscale::AutoscaleDecision;
use change::Change;
use dropped::dropped;
use flux_api::cluster::validate::Violations;
use flux_api::cluster::{Cluster, ServicesPod};
use flux_api::crd::Installed;
use flux_api::objects::gang::GangScheduler;
use flux_api::objects::install::{self, ImageVolumeSupport};
use flux_api::objects::{self, Images, RestTokens};
use flux_contract::{AgentConfig, Bootstrap};
use flux_protocol::Redacted;
use instance_api::ApiEndpoint;
use job_change::{changed_fields, end_of_job, expire, job_patch, services_pod_change};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use services::ServiceChanges;
pub(super) use services::address;
use start_deadline::StartDeadline;
use std::iter;
use std::time::Duration;

/// Time to the next reconcile where no watch brings the changes, as for a Job of another operator.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Time to the next attempt at an alias that another object has, or that the API server refuses.
const ALIAS_RETRY_INTERVAL: Duration = Duration::from_mins(1);

/// Time until a run whose end was reported is looked at again, because another one is to follow.
const NEXT_RUN_INTERVAL: Duration = Duration::from_secs(1);

/// Beside a ready lead, pods are checked only while the interval of checks is at most this: by then a replaced worker
/// has started, or its Events have the cause.
const SETTLING_INTERVAL: Duration = Duration::from_secs(40);

pub(super) struct DecisionInput<'input> {
    pub(super) generation: i64,
    pub(super) now: Time,
    /// True when a finished MiniCluster is deleted sooner or later.
    pub(super) expires: bool,
    pub(super) cluster: Result<Cluster, Violations>,
    /// The last answer of the lead about the demand, with `autoscale`.
    pub(super) answer: Answer,
    pub(super) images: &'input Images,
    /// Whether pods can have image volumes; the error is why not.
    pub(super) image_volumes: ImageVolumeSupport,
    /// Random tokens for an API that needs new ones; absent without `flux.rest`.
    pub(super) rest_tokens: Option<RestTokens>,
    pub(super) draw: fn(&mut [u8]) -> Result<(), getrandom::Error>,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) generation: i64,
    pub(super) expires: bool,
    /// Paths of fields of a valid specification that have no effect.
    pub(super) not_acted_on: Vec<String>,
    pub(super) violations: Option<Violations>,
    /// Number of hosts registered with Flux, if it is known.
    pub(super) maximum_size: Option<u32>,
    /// True when the instance runs until a person ends it.
    pub(super) interactive: bool,
    /// How agent and view come into the pods; absent without a Job and for a Job that has no note of it.
    pub(super) install: Option<Installed>,
    pub(super) start_deadline: StartDeadline,
    /// How long containers of others may still keep a pod of the lead running after its runner has ended.
    pub(super) held_pod_remaining: Option<Duration>,
    /// How users reach the API of the instance, if it has one.
    pub(super) api: Option<ApiEndpoint>,
    /// The size and its bounds, with `autoscale`.
    pub(super) autoscale: Option<AutoscaleDecision>,
    /// Changes of the specification that the running or finished instance cannot take.
    pub(super) refused: Vec<String>,
    /// True when `spec.runId` asks for another run after the present one.
    pub(super) runs_again: bool,
    /// Such changes, with `spec.runId` before them, where another run takes them.
    pub(super) deferred: Vec<String>,
    /// Fields that the API server left out of the Job.
    pub(super) dropped: Vec<String>,
    /// Requested features that the cluster lacks and the run does without.
    pub(super) lacking: Vec<String>,
    pub(super) writes: Writes,
    /// The error that keeps the operator from writing.
    pub(super) obstacle: Option<Error>,
}

/// All writes, in the order in which they are done.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// The headless Service, then the lead's, whose address the `ConfigMap` needs.
    pub(super) services: Vec<Change<Service>>,
    /// The CURVE certificate of a new Job, and the tokens of its API.
    pub(super) secrets: Vec<Redacted<Secret>>,
    pub(super) services_pod: Change<Pod>,
    /// A pod of the lead that containers of others keep running.
    pub(super) held_pod: Change<Pod>,
    pub(super) config_map: Change<ConfigMap>,
    pub(super) exposed: Vec<Change<Service>>,
    pub(super) pod_group: Option<(GangScheduler, Change<DynamicObject>)>,
    /// Services with the sidecars' short names, which other objects may have.
    pub(super) aliases: Vec<Change<Service>>,
    pub(super) job: Change<Job>,
}

/// The validated specification, if `decide` would create a Job for it.
pub(super) fn creates_job<'input>(
    input: &'input DecisionInput<'_>,
    live: &Observed,
) -> Option<&'input Cluster> {
    let creates = live.lifecycle == Lifecycle::New && live.cleared.is_none();
    input.cluster.as_ref().ok().filter(|_| creates)
}

pub(super) fn decide(input: &DecisionInput<'_>, live: &Observed) -> Plan {
    let mut plan = for_present_run(input, live);
    if plan.runs_again {
        plan.deferred = iter::once("spec.runId".to_owned()).chain(plan.refused.drain(..)).collect();
    }
    plan
}

fn for_present_run(input: &DecisionInput<'_>, live: &Observed) -> Plan {
    let cluster = input.cluster.as_ref();
    let config = live.config.as_ref();
    let mut plan = Plan {
        generation: input.generation,
        expires: input.expires,
        not_acted_on: cluster.map(|cluster| cluster.not_acted_on.clone()).unwrap_or_default(),
        violations: cluster.err().cloned(),
        maximum_size: (config.and_then(maximum_size))
            .or_else(|| cluster.ok().map(|cluster| cluster.max_size)),
        interactive: config.is_some_and(|config| config.workload.is_interactive()),
        api: config.and_then(instance_api::endpoint),
        held_pod_remaining: held::remaining(live, config, &input.now),
        ..Plan::default()
    };
    plan.install = match (&live.job, creates_job(input, live)) {
        (Some(job), _) => install::noted_on(job),
        (None, Some(cluster)) => Some(install::choose(cluster, &input.image_volumes)),
        (None, None) => None,
    };
    if let (Some(job), Ok(cluster)) = (&live.job, cluster) {
        plan.refused = changed_fields(job, &cluster.fixed_fields);
        plan.runs_again = is_asked_for(cluster, job);
        plan.dropped = dropped(cluster, plan.install.as_ref(), &plan.refused, job);
    }
    if let Some(job) = &live.cleared {
        return Plan { writes: Writes { job: expire(job), ..Writes::default() }, ..plan };
    }
    if live.lifecycle.is_over() {
        return Plan { writes: after_the_end(live, plan.held_pod_remaining), ..plan };
    }
    if let Some(conflict) = live.conflicts.first() {
        return Plan { obstacle: Some(conflict.clone().into()), ..plan };
    }
    match (&live.foreign, cluster) {
        (Some(Foreign::Operator), _) => plan,
        (None, Ok(cluster)) => with_specification(input, cluster, live, plan),
        (Some(Foreign::Release(_)), _) | (None, Err(_)) => {
            let services_pod = suspension::services_pod(live).unwrap_or_default();
            Plan { writes: Writes { services_pod, ..Writes::default() }, ..plan }
        }
    }
}

/// The writes after the end of a run: it keeps neither pods nor Service addresses, even if other objects have its names.
fn after_the_end(live: &Observed, held_pod_remaining: Option<Duration>) -> Writes {
    let holds_too_long = held_pod_remaining.is_some_and(|remaining| remaining.is_zero());
    // The end of the run must be recorded before its Job is ended.
    let ends = holds_too_long && live.lifecycle.is_recorded();
    Writes {
        services: services::ends_of_addresses(live).collect(),
        services_pod: live.services_pod.as_ref().map_or(Change::Keep, Change::delete),
        job: if ends { held::end_job(live) } else { end_of_job(live) },
        ..Writes::default()
    }
}

/// `plan` with the writes that bring all objects in line with the specification, within the limits of the instance
/// that runs.
fn with_specification(
    input: &DecisionInput<'_>,
    cluster: &Cluster,
    live: &Observed,
    plan: Plan,
) -> Plan {
    if let Some(conflict) = live.service_conflicts.first() {
        return Plan { obstacle: Some(conflict.clone().into()), ..plan };
    }
    let running = live.config.as_ref();
    let lead = live.services.get(&cluster.name.lead_service()).and_then(address);
    let install = install::method(plan.install.as_ref());
    let cluster = autoscale::with_size(cluster, running, live, &input.answer);
    let limited = limit_to_running(&cluster, lead, live, input.generation, install);
    let plan = Plan {
        autoscale: autoscale::decide(&limited.cluster, &input.answer),
        refused: [limited.refused.as_slice(), &plan.refused].concat(),
        start_deadline: StartDeadline::of(limited.cluster.start_deadline_seconds, live, &input.now),
        ..plan
    };
    match specified_writes(input, limited, live, &plan) {
        Ok(Specified { writes, maximum_size, refused, lacking }) => Plan {
            writes,
            maximum_size: maximum_size.or(plan.maximum_size),
            lacking,
            refused: [plan.refused, refused].concat(),
            ..plan
        },
        Err(error) => Plan { obstacle: Some(error), ..plan },
    }
}

/// The writes for a specification, and what is reported of it.
struct Specified {
    writes: Writes,
    maximum_size: Option<u32>,
    /// Changed fields that the pod of `spec.services` cannot take.
    refused: Vec<String>,
    lacking: Vec<String>,
}

/// Decides all writes for a specification that the running instance can take.
fn specified_writes(
    input: &DecisionInput<'_>,
    limited: ApplicableSpec,
    live: &Observed,
    plan: &Plan,
) -> Result<Specified, Error> {
    let ApplicableSpec { cluster, mut config, .. } = limited;
    let job = live.job.as_ref();
    let suspended = suspension::reason(&cluster, job, input.answer.demand());
    let is_idle = suspension::needs_no_address(live, &cluster, suspended.as_deref());
    let services = ServiceChanges::of(&cluster, live, is_idle);
    if is_idle {
        config.network.lead_address = None;
    }
    let present = live.config.as_ref().and_then(|running| running.rest.clone());
    // Without a Job no agent knows them yet.
    let present = present.filter(|rest| job.is_some() || instance_api::may_rotate(rest));
    let tokens = instance_api::secret(&cluster, &mut config, present, input.rest_tokens.as_ref());
    let mut desired =
        objects::build(&cluster, &config, input.images, input.generation).map_err(Error::Build)?;
    desired.job.annotations_mut().extend(plan.install.as_ref().map(install::annotation));
    suspension::set_suspend(suspended, job, &mut desired.job);
    plan.start_deadline.set_deadline(job, &mut desired.job);
    let gang = gang::plan_gang(&cluster, &live.gang, job, &mut desired.job)?;
    // An edit of `spec.scheduling` is refused, so the Job does not show what the cluster lacks for it.
    let is_edited = plan.refused.iter().any(|field| field.starts_with("spec.scheduling."));
    let (services_pod, refused) =
        services_pod(live, desired.services_pod, cluster.services_pod.as_ref());
    let in_line = plan.refused.is_empty() && refused.is_empty() && !plan.runs_again;
    let patch = job.and_then(|job| job_patch(job, &desired.job, in_line));
    let holds_too_long = plan.held_pod_remaining.is_some_and(|remaining| remaining.is_zero());
    let config_map = desired.config_map;
    let writes = Writes {
        secrets: secrets(input, &cluster, job, tokens)?,
        services_pod,
        held_pod: if holds_too_long { held::delete_pod(live) } else { Change::Keep },
        config_map: record::with_its_keys(
            job,
            live.config_map.as_ref(),
            config_map,
            services.has_new_address(),
        ),
        services: services.first,
        pod_group: gang.pod_group,
        exposed: services.exposed,
        aliases: services.aliases,
        job: match (job, patch) {
            (None, _) => Change::Create(Box::new(desired.job)),
            (Some(job), Some(patch)) => Change::patch(job, patch),
            (Some(_), None) => Change::Keep,
        },
    };
    let lacking = if is_edited { Vec::new() } else { gang.lacking };
    Ok(Specified { writes, maximum_size: maximum_size(&config), refused, lacking })
}

/// The change of the live pod of `spec.services` to `desired`, and the fields of `asked` that it cannot get.
fn services_pod(
    live: &Observed,
    desired: Option<Pod>,
    asked: Option<&ServicesPod>,
) -> (Change<Pod>, Vec<String>) {
    match suspension::services_pod(live) {
        Some(change) => (change, Vec::new()),
        None => services_pod_change(live.services_pod.as_ref(), desired, asked),
    }
}

/// The Secrets to create: the CURVE certificate of a new Job, and the `tokens` of its API.
fn secrets(
    input: &DecisionInput<'_>,
    cluster: &Cluster,
    job: Option<&Job>,
    tokens: Option<Redacted<Secret>>,
) -> Result<Vec<Redacted<Secret>>, Error> {
    let curve = match job {
        Some(_) => None,
        None => objects::secret(cluster, input.draw).map_err(Error::Curve)?,
    };
    Ok(curve.into_iter().chain(tokens).collect())
}

/// The largest possible size: the number of hosts registered with Flux that are pods of this MiniCluster.
fn maximum_size(config: &AgentConfig) -> Option<u32> {
    match &config.network.bootstrap {
        Bootstrap::Child { .. } => None,
        Bootstrap::Root { hosts } => Some(hosts.indexes_of(config.cluster.name.as_str())),
    }
}

/// Time after which to reconcile although no watch has brought a change.
pub(super) fn next_reconcile(live: &Observed, plan: &Plan) -> Option<Duration> {
    if live.cleared.is_some() {
        return Some(POLL_INTERVAL);
    }
    let job = live.job.as_ref()?;
    if plan.runs_again && live.lifecycle.is_over() {
        return Some(NEXT_RUN_INTERVAL);
    }
    // A lead that is no longer ready either ends in a moment, or must be reported as degraded.
    let name = job.name_any();
    let ready = live.pods.lead.as_ref().is_some_and(|lead| broker_is_ready(lead, &name));
    let is_running = live.lifecycle == Lifecycle::Running;
    let starts = !is_running || live.pods.waiting.is_some() || !ready;
    let lacks_an_alias = live.foreign.is_none()
        && !(live.alias_conflicts.is_empty() && live.refused_aliases.is_empty());
    let poll = if live.foreign == Some(Foreign::Operator) {
        Some(POLL_INTERVAL)
    } else if lacks_pods(job) || (lacks_brokers(job) && starts) {
        Some(live.pods.next.unwrap_or(POLL_INTERVAL))
    } else if lacks_brokers(job) && live.pods.next.is_some_and(|next| next <= SETTLING_INTERVAL) {
        live.pods.next
    } else {
        (lacks_an_alias && is_running).then_some(ALIAS_RETRY_INTERVAL)
    };
    let held = plan.held_pod_remaining.filter(|remaining| !remaining.is_zero());
    poll.into_iter().chain(plan.start_deadline.remaining()).chain(held).min()
}
