//! What is written and reported, from the specification and what there is: a function of values.

mod agent_change;
pub(super) mod autoscale;
pub(super) mod change;
pub(super) mod held;
pub(super) mod install;
mod job_change;
pub(super) mod mode;
pub(super) mod record;
pub(super) mod rest;
pub(super) mod start_deadline;
pub(super) mod suspension;
#[cfg(test)]
mod tests;

use super::build::{self, Images};
use super::error::Error;
use super::kube_ext::{broker_is_ready, lacks_brokers, lacks_pods};
use super::observe::Live;
use super::observe::demand::Answer;
use super::schedulers::gang::{self, Scheduler};
use crate::cluster::validate::Violations;
use crate::cluster::{Cluster, ServicesPod};
use crate::crd::{Installed, State};
use agent_change::{Constrained, constrain};
use autoscale::Scaling;
use change::Change;
use flux_contract::{AgentConfig, Bootstrap};
use flux_protocol::Redacted;
use install::{ImageVolumeSupport, dropped};
use job_change::{changed_fields, job_patch, services_pod_change};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use mode::{Mode, agent_config, mode};
use start_deadline::StartDeadline;
use std::time::Duration;

/// Wait before the next reconcile where no watch tells what happens: at a Job that another operator made.
const POLL: Duration = Duration::from_secs(10);
/// Wait before the next attempt at a Service with a short name that somebody else has, or that is refused.
const NAME_TAKEN: Duration = Duration::from_mins(1);

/// While checks why pods do not start are no further apart than this, they go on beside a lead that is ready: a worker
/// that was replaced has started by then, or its Events say why not.
const SETTLING: Duration = Duration::from_secs(40);

pub(super) struct Request<'request> {
    pub(super) generation: i64,
    pub(super) now: Time,
    /// True when a finished MiniCluster is deleted sooner or later.
    pub(super) expires: bool,
    /// The specification, validated, or its faults.
    pub(super) cluster: Result<Cluster, Violations>,
    /// What the lead has answered, where its queue decides on the size.
    pub(super) answer: Answer,
    pub(super) images: &'request Images,
    /// Whether pods can have image volumes, as far as that is known.
    pub(super) image_volumes: ImageVolumeSupport,
    /// The token of an API that has none yet; absent where none is asked for, and where objects are only shown.
    pub(super) rest_token: Option<Redacted<String>>,
    pub(super) draw: fn(&mut [u8]) -> Result<(), getrandom::Error>,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) generation: i64,
    pub(super) expires: bool,
    /// Fields of a valid specification that this version does not act on.
    pub(super) not_acted_on: Vec<String>,
    pub(super) violations: Option<Violations>,
    pub(super) mode: Mode,
    /// Hosts registered with Flux; absent where nothing says so.
    pub(super) maximum_size: Option<u32>,
    /// True when the instance stays up until it is shut down.
    pub(super) interactive: bool,
    /// How agent and view come into the pods; absent where there is no Job, nor is to be, and where the Job does not
    /// say.
    pub(super) install: Option<Installed>,
    pub(super) start: StartDeadline,
    /// How long containers of others may still hold a pod of the lead whose runner has ended.
    pub(super) held: Option<Duration>,
    /// Where the instance serves its API, if it does.
    pub(super) rest: Option<rest::Reached>,
    /// What is reported where the queue decides on the size.
    pub(super) scaling: Option<Scaling>,
    /// What was asked for and cannot be had while the Job exists, or after it has finished.
    pub(super) refused: Vec<String>,
    pub(super) dropped: Vec<String>,
    /// What was asked for and the cluster has nothing for, while the rest runs without.
    pub(super) lacking: Vec<String>,
    pub(super) writes: Writes,
    /// Why nothing is written, if something is in the way.
    pub(super) obstacle: Option<Error>,
}

/// What is written, in this order.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// The headless Service, then the lead's.
    pub(super) services: Vec<Change<Service>>,
    /// True when all else is decided once these Services are there.
    pub(super) only_services: bool,
    /// The CURVE certificate of a new Job, and the token of its API.
    pub(super) secrets: Vec<Redacted<Secret>>,
    pub(super) services_pod: Change<Pod>,
    /// A pod of the lead that containers of others hold.
    pub(super) held_pod: Change<Pod>,
    pub(super) config_map: Change<ConfigMap>,
    /// The PodGroup, where a gang is asked for.
    pub(super) pod_group: Option<(Scheduler, Change<DynamicObject>)>,
    pub(super) exposed: Vec<Change<Service>>,
    /// The same under short names, which somebody else may take.
    pub(super) aliases: Vec<Change<Service>>,
    pub(super) job: Change<Job>,
}

/// What is asked for, where a Job is to be created for it.
pub(super) fn creates_job<'request>(
    request: &'request Request<'_>,
    live: &Live,
) -> Option<&'request Cluster> {
    let cluster = request.cluster.as_ref().ok().filter(|_| live.job.is_none())?;
    let mode = mode(live, None, Some(cluster), request.generation, request.images);
    (mode == Mode::Reconcile).then_some(cluster)
}

pub(super) fn decide(request: &Request<'_>, live: &Live) -> Plan {
    let cluster = request.cluster.as_ref();
    let config = agent_config(live.config_map.as_ref());
    let mut plan = Plan {
        generation: request.generation,
        expires: request.expires,
        not_acted_on: cluster.map(|cluster| cluster.not_acted_on.clone()).unwrap_or_default(),
        violations: cluster.err().cloned(),
        mode: mode(live, config.as_ref(), cluster.ok(), request.generation, request.images),
        maximum_size: (config.as_ref().and_then(maximum_size))
            .or_else(|| cluster.ok().map(|cluster| cluster.max_size)),
        interactive: config.as_ref().is_some_and(|config| config.workload.is_interactive()),
        rest: config.as_ref().and_then(rest::reached),
        ..Plan::default()
    };
    plan.held = held::rest(live, config.as_ref(), &request.now);
    plan.install = match (&live.job, &plan.mode, cluster) {
        (Some(job), ..) => install::noted_on(job),
        (None, Mode::Reconcile, Ok(cluster)) => {
            Some(install::choose(cluster, &request.image_volumes))
        }
        (None, ..) => None,
    };
    if let (Some(job), Ok(cluster)) = (&live.job, cluster) {
        plan.refused = changed_fields(job, &cluster.fixed_fields);
        plan.dropped = dropped(cluster, plan.install.as_ref(), &plan.refused, job);
    }
    match writes(request, config, live, &mut plan) {
        Ok(writes) => plan.writes = writes,
        Err(error) => plan.obstacle = Some(error),
    }
    plan
}

/// What is to be written; `config` is what the agents have.
fn writes(
    request: &Request<'_>,
    config: Option<AgentConfig>,
    live: &Live,
    plan: &mut Plan,
) -> Result<Writes, Error> {
    if !matches!(plan.mode, Mode::Finished(_))
        && let Some(taken) = live.taken.first()
    {
        return Err(taken.clone().into());
    }
    let holds_too_long = plan.held.is_some_and(|rest| rest.is_zero());
    match (&plan.mode, &request.cluster) {
        (Mode::Reconcile, Ok(cluster)) => {
            let writes = apply_specification(request, cluster, config, live, plan)?;
            let held_pod = if holds_too_long { held::delete_pod(live) } else { Change::Keep };
            Ok(Writes { held_pod, ..writes })
        }
        // Nothing of a finished MiniCluster is left running, nor keeps an address, whoever has its names.
        (Mode::Finished(run), _) => {
            let services_pod = live.services_pod.as_ref().map_or(Change::Keep, Change::delete);
            let addressed = live.services.values().filter(|service| has_address(service));
            let services = addressed.map(|it| Change::end_of_service(it, &live.services)).collect();
            // How the run has ended is recorded first.
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

/// Brings all objects in line with the specification, as far as an instance can take it that runs with `running`.
fn apply_specification(
    request: &Request<'_>,
    cluster: &Cluster,
    running: Option<AgentConfig>,
    live: &Live,
    plan: &mut Plan,
) -> Result<Writes, Error> {
    if let Some(taken) = live.services_taken.first() {
        return Err(taken.clone().into());
    }
    let build::Services { headless, lead, mut exposed, aliases } = build::services(cluster);
    let change =
        |desired: Service| Change::of_service(live.services.get(&desired.name_any()), desired);
    let live_lead = live.services.get(&lead.name_any());
    let services = vec![change(headless), change(lead)];
    let Some(live_lead) = live_lead else {
        return Ok(Writes { services, only_services: true, ..Writes::default() });
    };
    let address = live_lead.spec.as_ref().and_then(|spec| spec.cluster_ip.as_ref()?.parse().ok());
    let install = install::method(plan.install.as_ref());
    let cluster = autoscale::with_size(cluster, running.as_ref(), live, &request.answer);
    let rest = running.as_ref().and_then(|running| running.rest.clone());
    let Constrained { cluster, mut config, refused } =
        constrain(&cluster, address, live, running, request.generation, install);
    let rest = rest::secret(&cluster, &mut config, rest, request.rest_token.as_ref());
    // Agents that began without an API serve none.
    let rest_service = cluster.name.rest_service();
    exposed.retain(|it| config.rest.is_some() || it.name_any() != rest_service);
    plan.scaling = autoscale::scaling(&cluster, &plan.mode, &request.answer);
    plan.refused.splice(0..0, refused);
    plan.maximum_size = maximum_size(&config).or(plan.maximum_size);
    let mut desired = build::build(&cluster, &config, request.images, request.generation)
        .map_err(Error::Build)?;
    desired.job.annotations_mut().extend(plan.install.as_ref().map(install::annotation));
    let job = live.job.as_ref();
    let suspended = suspension::reason(&cluster, job, request.answer.demand());
    suspension::set_suspend(suspended, job, &mut desired.job);
    plan.start = StartDeadline::of(cluster.start_deadline_seconds, live, &request.now);
    plan.start.set_deadline(job, &mut desired.job);
    let gang::Joined { pod_group, lacking } =
        gang::join_pod_group(&cluster, &live.gang, job, &mut desired.job)?;
    // What was edited since the Job was made says nothing of the cluster.
    if !plan.refused.iter().any(|field| field.starts_with("spec.scheduling.")) {
        plan.lacking = lacking;
    }
    let asked = cluster.services_pod.as_ref();
    let services_pod = services_pod(live, desired.services_pod, asked, &mut plan.refused);
    let patch = job.and_then(|job| job_patch(job, &desired.job, plan.refused.is_empty()));
    Ok(Writes {
        services,
        only_services: false,
        secrets: secrets(request, &cluster, job, rest)?,
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

/// From the pod of `spec.services` that there is to `desired`; what of `asked` cannot be had goes into `refused`.
fn services_pod(
    live: &Live,
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

/// What is done about the Services with short names, but for those that somebody else has.
fn alias_changes(live: &Live, aliases: Vec<Service>) -> Vec<Change<Service>> {
    let free = aliases.into_iter().filter(|it| !live.names_taken.contains(&it.name_any()));
    free.map(|it| Change::of_alias(live.services.get(&it.name_any()), it)).collect()
}

/// What is created: the CURVE certificate of a new Job, and `rest`, the token of its API.
fn secrets(
    request: &Request<'_>,
    cluster: &Cluster,
    job: Option<&Job>,
    rest: Option<Redacted<Secret>>,
) -> Result<Vec<Redacted<Secret>>, Error> {
    let curve = match job {
        Some(_) => None,
        None => build::secret(cluster, request.draw).map_err(Error::Curve)?,
    };
    Ok(curve.into_iter().chain(rest).collect())
}

/// True when the Service has an address of its own: a headless one has none.
fn has_address(service: &Service) -> bool {
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    address.is_some_and(|address| address != "None")
}

/// Hosts that a size may reach: all of Flux's that are this MiniCluster's pods.
fn maximum_size(config: &AgentConfig) -> Option<u32> {
    match &config.network.bootstrap {
        Bootstrap::Child { .. } => None,
        Bootstrap::Root { hosts } => Some(hosts.indexes_of(config.cluster.name.as_str())),
    }
}

/// After what time to reconcile again although no watch has told of anything.
pub(super) fn next_reconcile(
    live: &Live,
    plan: &Plan,
    state: Option<State>,
    name: &str,
) -> Option<Duration> {
    let job = live.job.as_ref()?;
    // A lead that is not ready any more ends in a moment, or is found degraded.
    let ready = live.pods.lead.as_ref().is_some_and(|lead| broker_is_ready(lead, name));
    let is_running = state == Some(State::Running);
    let starts = !is_running || live.pods.waiting.is_some() || !ready;
    let lacks_a_name = plan.mode == Mode::Reconcile
        && !(live.names_taken.is_empty() && live.names_refused.is_empty());
    let poll = if plan.mode == Mode::StartedByAnotherOperator {
        Some(POLL)
    } else if lacks_pods(job) || (lacks_brokers(job) && starts) {
        Some(live.pods.next.unwrap_or(POLL))
    } else if lacks_brokers(job) && live.pods.next.is_some_and(|next| next <= SETTLING) {
        live.pods.next
    } else {
        (lacks_a_name && is_running).then_some(NAME_TAKEN)
    };
    let held = plan.held.filter(|rest| !rest.is_zero());
    poll.into_iter().chain(plan.start.rest()).chain(held).min()
}
