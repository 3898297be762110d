//! Configuration and facts become a plan: every decision of a run that can be made beforehand.

use crate::plan::broker_config::{self, BrokerDocument};
use crate::plan::error::PlanError;
use crate::plan::facts::Facts;
use crate::plan::pod::Pod;
use crate::plan::step::{
    AwaitLead, BrokerRun, LeadConfigurations, Plan, Role, Step, Way, WorkerRun,
};
use crate::plan::{account, archive, broker_command, environment, files, helpers, hooks, workload};
use crate::system::environment::Change;
use flux_contract::{
    AgentConfig, Bootstrap, CURVE_MOUNT, CURVE_SECRET_KEY, WorkerPolicy, Workload,
};
use std::path::{Path, PathBuf};

/// Decides what a pod does. All of it is in the returned value; nothing is changed.
pub fn plan(config: &AgentConfig, facts: &Facts) -> Result<Plan, PlanError> {
    let (role, rank) = role(config, facts)?;
    let pod = Pod { config, facts, role, rank };
    if role == Role::Lead && facts.replaced > 0 && has_command(&config.workload) {
        return Err(PlanError::LeadLost);
    }
    if config.view.enabled && !facts.executables.contains(Path::new(&pod.flux())) {
        return Err(PlanError::NoFlux { path: pod.flux().into() });
    }
    let work = workload::workload(pod);
    let document = broker_config::document(pod, Way::Address);
    Ok(Plan {
        role,
        hostname: facts.hostname.clone(),
        rank,
        budget: pod.budget(),
        deadline_seconds: deadline(config, facts),
        strict: config.logging.strict,
        quiet: config.logging.quiet,
        certificate: Path::new(CURVE_MOUNT).join(CURVE_SECRET_KEY),
        steps: steps(pod, document.as_ref(), &work)?,
        broker: BrokerRun {
            command: broker_command::command(pod),
            quorum: config.broker.quorum.filter(|_| role == Role::Lead),
            archive: archive::archive(pod),
            lead_command: work.command,
            submission: work.submission,
            entrance: work.entrance,
            socket: pod.socket(),
            flux: pod.flux(),
            timed: config.logging.timed && role == Role::Lead,
            worker: worker(pod)?,
        },
        finish: hooks::post(pod)?
            .into_iter()
            .chain([Step::MarkComplete { path: config.layout.complete_marker() }])
            .collect(),
    })
}

/// Whether the run is that of a command. What people enter has none that would be repeated.
const fn has_command(workload: &Workload) -> bool {
    match workload {
        Workload::Submit { .. } | Workload::Launcher { .. } | Workload::Batch { .. } => true,
        Workload::Interactive { .. } | Workload::Diagnostics {} => false,
    }
}

/// Lead or worker, and the rank: the position in the hostlist, as Flux itself finds it.
pub(crate) fn role(config: &AgentConfig, facts: &Facts) -> Result<(Role, u32), PlanError> {
    let hosts = config.network.bootstrap.hosts();
    let hostname = &facts.hostname;
    let unknown =
        || PlanError::UnknownHost { hostname: hostname.clone(), hosts: hosts.to_string() };
    let rank = hosts.rank(hostname).ok_or_else(unknown)?;
    let rank = u32::try_from(rank).map_err(|_| unknown())?;
    match &config.network.bootstrap {
        Bootstrap::Root { .. } if *hostname == config.cluster.name.pod_hostname(0) => {
            Ok((Role::Lead, rank))
        }
        Bootstrap::Child { lead, .. } if rank == 0 => {
            Err(PlanError::LeadElsewhere { hostname: hostname.clone(), lead: lead.clone() })
        }
        Bootstrap::Root { .. } | Bootstrap::Child { .. } => Ok((Role::Worker, rank)),
    }
}

/// One pod keeps the deadline: the one whose end is the Job's.
fn deadline(config: &AgentConfig, facts: &Facts) -> Option<u64> {
    let keeps_it = facts.hostname == config.cluster.name.pod_hostname(0);
    config.shutdown.deadline_seconds.filter(|_| keeps_it)
}

fn steps(
    pod: Pod<'_>,
    document: Option<&BrokerDocument>,
    work: &workload::Work,
) -> Result<Vec<Step>, PlanError> {
    let Pod { config, role, .. } = pod;
    let mut steps: Vec<Step> = files::left_by_an_earlier_run(pod).into();
    steps.extend(hooks::init(pod)?);
    steps.push(account::account(pod));
    steps.extend(files::directories(pod));
    steps.push(files::certificate(pod));
    steps.extend(files::munge_key(pod));
    steps.push(Step::WriteFile(files::broker_config(pod, document)?));
    steps.push(Step::WriteFile(files::hostlist(pod)));
    steps.extend(helpers::helpers(pod).into_iter().map(Step::WriteFile));
    steps.extend(work.files.iter().cloned().map(Step::WriteFile));
    steps.push(Step::ChangeEnvironment { changes: environment::changes(pod) });
    steps.extend(hooks::before_broker(pod)?);
    steps.push(Step::ChangeEnvironment {
        changes: environment::of_broker(pod, work.command.is_some()),
    });
    if !config.view.enabled {
        steps.push(Step::FindFlux);
    }
    steps.push(Step::AdoptWorkingDirectory);
    steps.push(files::resources(pod));
    if role == Role::Lead {
        steps.extend(work.batch.clone());
    }
    Ok(steps)
}

fn worker(pod: Pod<'_>) -> Result<Option<WorkerRun>, PlanError> {
    if pod.role == Role::Lead {
        return Ok(None);
    }
    let lead = await_lead(pod)?;
    let Pod { config, .. } = pod;
    let stays_up = config.worker == WorkerPolicy::LeaveWhenDone && !has_command(&config.workload);
    let lead_may_return_seconds = stays_up.then_some(config.shutdown.grace_seconds);
    Ok(Some(WorkerRun { lead, policy: config.worker, lead_may_return_seconds }))
}

/// Where and how long to wait for the lead, from this pod.
pub fn lead(config: &AgentConfig, facts: &Facts) -> Result<AwaitLead, PlanError> {
    let (role, rank) = role(config, facts)?;
    await_lead(Pod { config, facts, role, rank })
}

/// What a client of the broker needs to find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientEnvironment {
    /// Changes of the environment.
    pub changes: Vec<Change>,
    /// The broker's local socket.
    pub socket: PathBuf,
    /// The same as a Flux URI.
    pub uri: String,
}

/// What a client of this pod's broker needs to find it.
pub fn client_environment(
    config: &AgentConfig,
    facts: &Facts,
) -> Result<ClientEnvironment, PlanError> {
    let (role, rank) = role(config, facts)?;
    let pod = Pod { config, facts, role, rank };
    let changes = environment::of_client(pod);
    Ok(ClientEnvironment { changes, socket: pod.socket(), uri: pod.uri() })
}

fn await_lead(pod: Pod<'_>) -> Result<AwaitLead, PlanError> {
    let network = &pod.config.network;
    let configurations = lead_configurations(pod)?;
    Ok(match &network.bootstrap {
        Bootstrap::Root { .. } => AwaitLead {
            address: network.lead_address,
            name: broker_config::fully_qualified(pod, &pod.config.cluster.name.pod_hostname(0)),
            port: network.port,
            deadline_seconds: network.lead_deadline_seconds,
            configurations,
        },
        Bootstrap::Child { lead, lead_port, .. } => AwaitLead {
            address: lead.parse().ok(),
            name: lead.clone(),
            port: *lead_port,
            deadline_seconds: network.lead_deadline_seconds,
            configurations,
        },
    })
}

/// The broker's configuration for each way to the lead, unless the user gave all of it.
fn lead_configurations(pod: Pod<'_>) -> Result<Option<LeadConfigurations>, PlanError> {
    if pod.config.broker.custom_config.is_some() {
        return Ok(None);
    }
    let file = |way| files::broker_config(pod, broker_config::document(pod, way).as_ref());
    Ok(Some(LeadConfigurations {
        address: file(Way::Address)?,
        ipv4: file(Way::Name { ipv6: false })?,
        ipv6: file(Way::Name { ipv6: true })?,
    }))
}
