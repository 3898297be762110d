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
pub(super) mod mode;
pub(super) mod queue;
pub(super) mod record;
pub(super) mod start_deadline;
pub(super) mod suspension;
#[cfg(test)]
mod tests;

use super::error::Error;
use super::job_ext::{lacks_brokers, lacks_pods};
use super::observe::Observed;
use super::observe::demand::Answer;
use super::pod_ext::broker_is_ready;
use agent_change::{ApplicableSpec, limit_to_running};
use autoscale::AutoscaleDecision;
use change::Change;
use dropped::dropped;
use flux_api::cluster::validate::Violations;
use flux_api::cluster::{Cluster, ServicesPod};
use flux_api::crd::{Installed, State};
use flux_api::objects::gang::GangScheduler;
use flux_api::objects::install::{self, ImageVolumeSupport};
use flux_api::objects::{self, Images};
use flux_contract::{AgentConfig, Bootstrap};
use flux_protocol::Redacted;
use instance_api::ApiEndpoint;
use job_change::{changed_fields, job_patch, services_pod_change};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use mode::{Mode, agent_config, mode};
use start_deadline::StartDeadline;
use std::time::Duration;

/// Time to the next reconcile where no watch brings the changes, as for a Job of another operator.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Time to the next attempt at an alias that another object has, or that the API server refuses.
const ALIAS_RETRY_INTERVAL: Duration = Duration::from_mins(1);

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
    /// A random token for an API that has none yet; absent without `flux.rest`.
    pub(super) rest_token: Option<Redacted<String>>,
    pub(super) draw: fn(&mut [u8]) -> Result<(), getrandom::Error>,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) generation: i64,
    pub(super) expires: bool,
    /// Paths of fields of a valid specification that have no effect.
    pub(super) not_acted_on: Vec<String>,
    pub(super) violations: Option<Violations>,
    pub(super) mode: Mode,
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
    /// The headless Service, then the lead's.
    pub(super) services: Vec<Change<Service>>,
    /// True when the other objects can only be decided after these Services exist.
    pub(super) only_services: bool,
    /// The CURVE certificate of a new Job, and the token of its API.
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
    let cluster = input.cluster.as_ref().ok().filter(|_| live.job.is_none())?;
    let mode = mode(live, None, Some(cluster), input.generation, input.images);
    (mode == Mode::Reconcile).then_some(cluster)
}

pub(super) fn decide(input: &DecisionInput<'_>, live: &Observed) -> Plan {
    let cluster = input.cluster.as_ref();
    let config = agent_config(live.config_map.as_ref());
    let mut plan = Plan {
        generation: input.generation,
        expires: input.expires,
        not_acted_on: cluster.map(|cluster| cluster.not_acted_on.clone()).unwrap_or_default(),
        violations: cluster.err().cloned(),
        mode: mode(live, config.as_ref(), cluster.ok(), input.generation, input.images),
        maximum_size: (config.as_ref().and_then(maximum_size))
            .or_else(|| cluster.ok().map(|cluster| cluster.max_size)),
        interactive: config.as_ref().is_some_and(|config| config.workload.is_interactive()),
        api: config.as_ref().and_then(instance_api::endpoint),
        ..Plan::default()
    };
    plan.held_pod_remaining = held::remaining(live, config.as_ref(), &input.now);
    plan.install = match (&live.job, &plan.mode, cluster) {
        (Some(job), ..) => install::noted_on(job),
        (None, Mode::Reconcile, Ok(cluster)) => {
            Some(install::choose(cluster, &input.image_volumes))
        }
        (None, ..) => None,
    };
    if let (Some(job), Ok(cluster)) = (&live.job, cluster) {
        plan.refused = changed_fields(job, &cluster.fixed_fields);
        plan.dropped = dropped(cluster, plan.install.as_ref(), &plan.refused, job);
    }
    match writes(input, config, live, &mut plan) {
        Ok(writes) => plan.writes = writes,
        Err(error) => plan.obstacle = Some(error),
    }
    plan
}

/// Decides all writes; `config` is the present configuration of the agents.
fn writes(
    input: &DecisionInput<'_>,
    config: Option<AgentConfig>,
    live: &Observed,
    plan: &mut Plan,
) -> Result<Writes, Error> {
    if !matches!(plan.mode, Mode::Finished(_))
        && let Some(conflict) = live.conflicts.first()
    {
        return Err(conflict.clone().into());
    }
    let holds_too_long = plan.held_pod_remaining.is_some_and(|remaining| remaining.is_zero());
    match (&plan.mode, &input.cluster) {
        (Mode::Reconcile, Ok(cluster)) => {
            let writes = apply_specification(input, cluster, config, live, plan)?;
            let held_pod = if holds_too_long { held::delete_pod(live) } else { Change::Keep };
            Ok(Writes { held_pod, ..writes })
        }
        // A finished MiniCluster keeps neither pods nor Service addresses, even if other objects have its names.
        (Mode::Finished(run), _) => {
            let services_pod = live.services_pod.as_ref().map_or(Change::Keep, Change::delete);
            let addressed = live.services.values().filter(|service| has_address(service));
            let services = addressed.map(|it| Change::end_of_service(it, &live.services)).collect();
            // The end of the run must be recorded before its Job is ended.
            let is_recorded = run.as_ref().is_some_and(|run| run.end.is_some());
            let ends = holds_too_long && is_recorded;
            let job = if ends { held::end_job(live) } else { Change::Keep };
            Ok(Writes { services, services_pod, job, ..Writes::default() })
        }
        (Mode::Refused | Mode::StartedByAnotherRelease(_), _) => {
            let services_pod = suspension::services_pod(live).unwrap_or_default();
            Ok(Writes { services_pod, ..Writes::default() })
        }
        _ => Ok(Writes::default()),
    }
}

/// Decides the writes that bring all objects in line with the specification, within the limits of `running`.
fn apply_specification(
    input: &DecisionInput<'_>,
    cluster: &Cluster,
    running: Option<AgentConfig>,
    live: &Observed,
    plan: &mut Plan,
) -> Result<Writes, Error> {
    if let Some(conflict) = live.service_conflicts.first() {
        return Err(conflict.clone().into());
    }
    let objects::Services { headless, lead, mut exposed, aliases } = objects::services(cluster);
    let change =
        |desired: Service| Change::of_service(live.services.get(&desired.name_any()), desired);
    let live_lead = live.services.get(&lead.name_any());
    let services = vec![change(headless), change(lead)];
    let Some(live_lead) = live_lead else {
        return Ok(Writes { services, only_services: true, ..Writes::default() });
    };
    let address = live_lead.spec.as_ref().and_then(|spec| spec.cluster_ip.as_ref()?.parse().ok());
    let install = install::method(plan.install.as_ref());
    let cluster = autoscale::with_size(cluster, running.as_ref(), live, &input.answer);
    let present = running.as_ref().and_then(|running| running.rest.clone());
    let ApplicableSpec { cluster, mut config, refused } =
        limit_to_running(&cluster, address, live, running, input.generation, install);
    let token = instance_api::secret(&cluster, &mut config, present, input.rest_token.as_ref());
    // The agents of a running instance that began without an API serve none.
    let rest_service = cluster.name.rest_service();
    exposed.retain(|it| config.rest.is_some() || it.name_any() != rest_service);
    plan.autoscale = autoscale::decide(&cluster, &plan.mode, &input.answer);
    plan.refused.splice(0..0, refused);
    plan.maximum_size = maximum_size(&config).or(plan.maximum_size);
    let mut desired =
        objects::build(&cluster, &config, input.images, input.generation).map_err(Error::Build)?;
    desired.job.annotations_mut().extend(plan.install.as_ref().map(install::annotation));
    let job = live.job.as_ref();
    let suspended = suspension::reason(&cluster, job, input.answer.demand());
    suspension::set_suspend(suspended, job, &mut desired.job);
    plan.start_deadline = StartDeadline::of(cluster.start_deadline_seconds, live, &input.now);
    plan.start_deadline.set_deadline(job, &mut desired.job);
    let gang::GangPlan { pod_group, lacking } =
        gang::plan_gang(&cluster, &live.gang, job, &mut desired.job)?;
    // An edit of `spec.scheduling` is refused, so the Job does not show what the cluster lacks for it.
    if !plan.refused.iter().any(|field| field.starts_with("spec.scheduling.")) {
        plan.lacking = lacking;
    }
    let asked = cluster.services_pod.as_ref();
    let services_pod = services_pod(live, desired.services_pod, asked, &mut plan.refused);
    let patch = job.and_then(|job| job_patch(job, &desired.job, plan.refused.is_empty()));
    Ok(Writes {
        services,
        only_services: false,
        secrets: secrets(input, &cluster, job, token)?,
        services_pod,
        held_pod: Change::Keep,
        config_map: record::with_its_keys(job, live.config_map.as_ref(), desired.config_map),
        pod_group,
        exposed: exposed.into_iter().map(change).collect(),
        aliases: alias_changes(live, aliases),
        job: match (job, patch) {
            (None, _) => Change::Create(Box::new(desired.job)),
            (Some(job), Some(patch)) => Change::patch(job, patch),
            (Some(_), None) => Change::Keep,
        },
    })
}

/// Changes the live pod of `spec.services` to `desired`; adds to `refused` the fields of `asked` that it cannot get.
fn services_pod(
    live: &Observed,
    desired: Option<Pod>,
    asked: Option<&ServicesPod>,
    refused: &mut Vec<String>,
) -> Change<Pod> {
    suspension::services_pod(live).unwrap_or_else(|| {
        let (change, fields) = services_pod_change(live.services_pod.as_ref(), desired, asked);
        refused.extend(fields);
        change
    })
}

/// The changes of the aliases, without those whose names other objects have.
fn alias_changes(live: &Observed, aliases: Vec<Service>) -> Vec<Change<Service>> {
    let free = aliases.into_iter().filter(|it| !live.alias_conflicts.contains(&it.name_any()));
    free.map(|it| Change::of_alias(live.services.get(&it.name_any()), it)).collect()
}

/// The Secrets to create: the CURVE certificate of a new Job, and `token` of its API.
fn secrets(
    input: &DecisionInput<'_>,
    cluster: &Cluster,
    job: Option<&Job>,
    token: Option<Redacted<Secret>>,
) -> Result<Vec<Redacted<Secret>>, Error> {
    let curve = match job {
        Some(_) => None,
        None => objects::secret(cluster, input.draw).map_err(Error::Curve)?,
    };
    Ok(curve.into_iter().chain(token).collect())
}

/// True when the Service has a cluster IP; a headless Service has none.
fn has_address(service: &Service) -> bool {
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    address.is_some_and(|address| address != "None")
}

/// The largest possible size: the number of hosts registered with Flux that are pods of this MiniCluster.
fn maximum_size(config: &AgentConfig) -> Option<u32> {
    match &config.network.bootstrap {
        Bootstrap::Child { .. } => None,
        Bootstrap::Root { hosts } => Some(hosts.indexes_of(config.cluster.name.as_str())),
    }
}

/// Time after which to reconcile although no watch has brought a change.
pub(super) fn next_reconcile(
    live: &Observed,
    plan: &Plan,
    state: Option<State>,
    name: &str,
) -> Option<Duration> {
    let job = live.job.as_ref()?;
    // A lead that is no longer ready either ends in a moment, or must be reported as degraded.
    let ready = live.pods.lead.as_ref().is_some_and(|lead| broker_is_ready(lead, name));
    let is_running = state == Some(State::Running);
    let starts = !is_running || live.pods.waiting.is_some() || !ready;
    let lacks_an_alias = plan.mode == Mode::Reconcile
        && !(live.alias_conflicts.is_empty() && live.refused_aliases.is_empty());
    let poll = if plan.mode == Mode::StartedByAnotherOperator {
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
