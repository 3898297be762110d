//! Configuration and facts become a plan.

use super::{broker, files, helpers, release, variables, workload};
use crate::failure::{Failure, Result};
use crate::plan::facts::{Facts, IMAGE_SHELLS, VIEW_SHELLS};
use crate::plan::grace_period::GracePeriod;
use crate::plan::pod::Pod;
use crate::plan::step::{
    AccountChoice, ArchiveRun, AwaitLead, BrokerRun, FileToWrite, Hook, Plan, Role, Step, WorkerRun,
};
use crate::system::environment::Change;
use flux_contract::{AgentConfig, Bootstrap, Exit, WorkerPolicy, Workload};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Suffixes by which flux-dump(1) chooses a format; any other would be an error to it.
const FORMATS: [&str; 8] =
    [".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".tar", ".zip", ".7z", ".cpio"];
/// Format where the archive's own name says none. Flux finds out by itself when it restores.
const DEFAULT_FORMAT: &str = ".tgz";
/// What the name of the archive is followed by in that of the checkpoint.
const CHECKPOINT: &str = ".checkpoint";

/// Decides what a pod does, and changes nothing.
pub fn plan(config: &AgentConfig, facts: &Facts) -> Result<Plan> {
    let pod = pod(config, facts)?;
    let Pod { role, rank, .. } = pod;
    if role == Role::Lead && pod.follows_a_run() && has_command(&config.workload) {
        let text = "an earlier pod of the lead was lost, and its command may have run: it is not run a second time, \
                    unless spec.backoffLimit allows that";
        return Err(Failure::new(Exit::LeadLost, text));
    }
    if config.view.enabled && !facts.executables.contains(Path::new(&pod.flux())) {
        let text = format!(
            "the Flux view has no executable {}: is the view image one? One with links to other places than /opt/software \
             needs flux.container.install: Copy",
            pod.flux()
        );
        return Err(Failure::new(Exit::View, text));
    }
    release::check(facts, &config.workload)?;
    let work = workload::workload(pod);
    let mut finish = hooks(pod, [("commands.post", &config.hooks.post)])?;
    finish.push(Step::MarkComplete(config.layout.complete_marker().into()));
    // Only the pod whose end is the Job's has the deadline.
    let has_deadline = facts.hostname == config.cluster.name.pod_hostname(0);
    Ok(Plan {
        role,
        hostname: facts.hostname.clone(),
        rank,
        grace: GracePeriod::of_runner(config),
        deadline_seconds: config.shutdown.deadline_seconds.filter(|_| has_deadline),
        idle_seconds: config.shutdown.idle_seconds.filter(|_| role == Role::Lead),
        strict: config.logging.strict,
        steps: steps(pod, &work)?,
        notes: release::notes(facts, config),
        broker: BrokerRun {
            command: broker::command(pod),
            quorum: config.broker.quorum.filter(|_| role == Role::Lead),
            archive: archive(pod),
            lead_command: work.command,
            submission: work.submission,
            attach_hint: work.attach_hint,
            socket: pod.socket(),
            flux: pod.flux(),
            timed: config.logging.timed && role == Role::Lead,
            worker: (role == Role::Worker).then(|| worker(pod)),
        },
        finish,
    })
}

/// Whether the run is that of a command, which a second lead would repeat.
const fn has_command(workload: &Workload) -> bool {
    !matches!(workload, Workload::Interactive { .. } | Workload::Diagnostics {})
}

fn pod<'run>(config: &'run AgentConfig, facts: &'run Facts) -> Result<Pod<'run>> {
    let (role, rank) = role(config, facts)?;
    Ok(Pod { config, facts, role, rank })
}

/// Lead or worker, and the rank: the position in the hostlist, as Flux itself finds it.
pub(crate) fn role(config: &AgentConfig, facts: &Facts) -> Result<(Role, u32)> {
    let hosts = config.network.bootstrap.hosts();
    let hostname = &facts.hostname;
    let rank = hosts.rank(hostname).and_then(|rank| u32::try_from(rank).ok());
    let rank = rank.ok_or_else(|| {
        let among = format!("is not among the hosts {hosts} of the Flux instance");
        Failure::new(Exit::Config, format!("host name {hostname:?} of this pod {among}"))
    })?;
    match &config.network.bootstrap {
        Bootstrap::Root { .. } if *hostname == config.cluster.name.pod_hostname(0) => {
            Ok((Role::Lead, rank))
        }
        Bootstrap::Child { lead, .. } if rank == 0 => {
            let text = format!(
                "host name {hostname:?} of this pod is that of the lead broker, which is elsewhere ({lead}): \
                 give this MiniCluster another name"
            );
            Err(Failure::new(Exit::Config, text))
        }
        Bootstrap::Root { .. } | Bootstrap::Child { .. } => Ok((Role::Worker, rank)),
    }
}

fn steps(pod: Pod<'_>, work: &workload::Work) -> Result<Vec<Step>> {
    let Pod { config, role, .. } = pod;
    let hooks_of = &config.hooks;
    let of_role = match role {
        Role::Lead => ("commands.brokerPre", &hooks_of.broker_pre),
        Role::Worker => ("commands.workerPre", &hooks_of.worker_pre),
    };
    // Files of an earlier container of this pod. They go before anything can fail, so that no other container reads them.
    let of_earlier = [config.layout.complete_marker(), config.layout.command_failure()];
    let mut steps = of_earlier.map(|path| Step::RemoveFile(path.into())).to_vec();
    steps.extend(hooks(pod, [("commands.init", &hooks_of.init)])?);
    steps.push(account(pod));
    steps.extend(files::directories(pod));
    steps.push(files::certificate(pod));
    steps.extend(files::munge_key(pod));
    steps.push(Step::WriteFile(broker::configuration(pod, None)));
    let hosts = format!("{}\n", config.network.bootstrap.hosts());
    steps.push(Step::WriteFile(files::file(config.layout.hostlist(), 0o644, hosts)));
    steps.push(files::shell_rc(pod));
    steps.extend(helpers::helpers(pod).map(Step::WriteFile));
    steps.extend(work.script.clone().map(Step::WriteFile));
    steps.push(Step::ChangeEnvironment(variables::changes(pod)));
    let before_broker =
        [("preCommand", &hooks_of.pre_command), ("commands.pre", &hooks_of.pre), of_role];
    steps.extend(hooks(pod, before_broker)?);
    steps.push(Step::ChangeEnvironment(variables::of_broker(pod, work.command.is_some())));
    if !config.view.enabled {
        steps.push(Step::FindFlux);
    }
    steps.push(Step::AdoptWorkingDirectory);
    steps.push(Step::WriteFile(files::resources(pod)));
    steps.extend(work.batch.clone().filter(|_| role == Role::Lead));
    Ok(steps)
}

/// Where the container starts as root, Flux runs as its own user unless `user.run_as_root` is set; else as the container's
/// user.
fn account(pod: Pod<'_>) -> Step {
    let (user, facts) = (&pod.config.user, pod.facts);
    if facts.uid == 0 && !user.run_as_root {
        return Step::UseAccount(AccountChoice::Ensure {
            name: user.name.clone(),
            uid: user.uid,
            home: Path::new("/home").join(&user.name),
            extra_groups: facts.pod_groups(),
            capabilities: user.capabilities.clone(),
        });
    }
    let account = facts.accounts.find_uid(facts.uid);
    let own = account.as_ref().map(|account| account.home.clone());
    let mut homes = facts.environment.get("HOME").map(PathBuf::from).into_iter().chain(own);
    // A container runtime sets `/` for a uid without an account.
    let is_home = |home: &PathBuf| home != Path::new("/") && facts.homes.contains(home);
    Step::UseAccount(AccountChoice::Keep {
        name: account.map_or_else(|| user.name.clone(), |account| account.name),
        uid: facts.uid,
        gid: facts.gid,
        home: homes.find(is_home).unwrap_or_else(|| pod.config.layout.home().into()),
    })
}

/// Where the lead keeps the state. The dump is in the archive's directory, so that it can be renamed, and has the host's
/// name, because several clusters may share a volume.
fn archive(pod: Pod<'_>) -> Option<ArchiveRun> {
    let archive = pod.config.archive.as_ref().filter(|_| pod.role == Role::Lead)?;
    let path = PathBuf::from(&archive.path);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.new", pod.facts.hostname));
    let staging = path.with_file_name(name);
    let suffix = FORMATS.into_iter().find(|suffix| archive.path.ends_with(suffix));
    let dump = staging.join(format!("dump{}", suffix.unwrap_or(DEFAULT_FORMAT)));
    let mut checkpoint = path.clone().into_os_string();
    checkpoint.push(CHECKPOINT);
    let every_seconds = archive.every_seconds;
    Some(ArchiveRun { path, staging, dump, checkpoint: checkpoint.into(), every_seconds })
}

fn worker(pod: Pod<'_>) -> WorkerRun {
    let config = pod.config;
    let stays_up = config.worker == WorkerPolicy::LeaveWhenDone && !has_command(&config.workload);
    let lead_may_return_seconds = stays_up.then_some(config.shutdown.grace_seconds);
    WorkerRun { lead: await_lead(pod), policy: config.worker, lead_may_return_seconds }
}

fn await_lead(pod: Pod<'_>) -> AwaitLead {
    let network = &pod.config.network;
    let (name, port) = match &network.bootstrap {
        Bootstrap::Root { .. } => {
            let lead = pod.config.cluster.name.pod_hostname(0);
            (broker::fully_qualified(pod, &lead), network.port)
        }
        Bootstrap::Child { lead, lead_port, .. } => (lead.clone(), *lead_port),
    };
    let address = broker::lead_address(pod);
    let hosts = u32::try_from(network.bootstrap.hosts().len()).unwrap_or(u32::MAX);
    AwaitLead { address, name, port, deadline_seconds: network.lead_deadline_seconds, hosts }
}

/// Where and how long to wait for the lead, from this pod.
pub fn lead(config: &AgentConfig, facts: &Facts) -> Result<AwaitLead> {
    pod(config, facts).map(await_lead)
}

/// The broker's configuration once a lead has let this pod in at `found`, or before that.
pub fn broker_config(
    config: &AgentConfig,
    facts: &Facts,
    found: Option<IpAddr>,
) -> Result<FileToWrite> {
    Ok(broker::configuration(pod(config, facts)?, found))
}

/// A change of the address at which the broker connects to the lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeadRoute {
    /// The configuration of the broker.
    pub file: FileToWrite,
    /// A line for the log.
    pub note: Option<&'static str>,
}

/// What changes because the lead was `found`. Nothing does where that was its address `before`, so that a configuration
/// which a hook has changed stays. A lead that comes back can be found at another address than the one before it.
pub(crate) fn lead_route(
    config: &AgentConfig,
    facts: &Facts,
    before: Option<IpAddr>,
    found: IpAddr,
) -> Result<Option<LeadRoute>> {
    let file = broker_config(config, facts, Some(found))?;
    let own = broker::lead_address(pod(config, facts)?);
    let note = own.map(|own| {
        if own == found {
            "its address led there first: the broker will use the address"
        } else {
            "its name led there first: the broker will use the name"
        }
    });
    let is_new = file != broker_config(config, facts, before)?;
    Ok(is_new.then_some(LeadRoute { file, note }))
}

/// What a client of the broker needs to find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientEnvironment {
    pub changes: Vec<Change>,
    pub socket: PathBuf,
    pub uri: String,
}

/// What a client of this pod's broker needs to find it.
pub fn client_environment(config: &AgentConfig, facts: &Facts) -> Result<ClientEnvironment> {
    let pod = pod(config, facts)?;
    let changes = variables::of_client(pod);
    Ok(ClientEnvironment { changes, socket: pod.socket(), uri: pod.uri() })
}

/// `scripts` as steps, each under the field of the specification that it comes from.
fn hooks<'run>(
    pod: Pod<'run>,
    scripts: impl IntoIterator<Item = (&'static str, &'run Option<String>)>,
) -> Result<Vec<Step>> {
    let Pod { config, facts, .. } = pod;
    let hook = |(name, script): (_, &'run Option<String>)| {
        sidecar_hook(config, facts, name, script.as_ref())
    };
    let step = |hook: Hook| {
        if hook.shell.is_none() && config.logging.strict {
            let text = "needs a shell: neither the image nor the view has one";
            return Err(Failure::new(Exit::Hook, format!("hook {} {text}", hook.name)));
        }
        Ok(Step::RunHook(hook))
    };
    scripts.into_iter().filter_map(hook).map(step).collect()
}

/// The hook `name`, if it is given.
pub fn sidecar_hook(
    config: &AgentConfig,
    facts: &Facts,
    name: &'static str,
    script: Option<&String>,
) -> Option<Hook> {
    let shell = shell(config, facts);
    script.map(|script| Hook { name, shell, script: script.clone() })
}

/// The shell for scripts of the user: the image's, else the view's.
pub(crate) fn shell(config: &AgentConfig, facts: &Facts) -> Option<PathBuf> {
    let image = IMAGE_SHELLS.iter().map(PathBuf::from);
    let view = VIEW_SHELLS.iter().filter(|_| config.view.enabled);
    let view = view.map(|path| PathBuf::from(config.layout.view()).join(path));
    image.chain(view).find(|path| facts.executables.contains(path))
}
