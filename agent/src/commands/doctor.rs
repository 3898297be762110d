//! `flux-agent doctor`: checks everything that a pod needs, and prints a remedy for each problem.

use crate::commands::arguments::{PodArguments, PodQuestion};
use crate::commands::pod::{PodContext, read_certificate};
use crate::commands::python::python;
use crate::failure::{NO, Result, ended_with};
use crate::lead::wait::wait_for_lead;
use crate::plan::decide;
use crate::plan::step::Role;
use crate::program::mpi::{self, Choice};
use crate::status::document::StatusReport;
use crate::status::file;
use crate::system::check::{Check, Found, any_failed, text};
use crate::system::output::chain;
use flux_contract::{CURVE_MOUNT, CURVE_SECRET_KEY, Exit, Install, Workload};
use flux_protocol::CurveCertificate;
use flux_protocol::client::{SocketError, resource};
use nix::sys::statvfs::statvfs;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// How long to wait for the lead: the agent gives up the lead's address before that, and tries its name.
const LEAD_TIMEOUT: Duration = Duration::from_secs(7);
/// How long `flux version` may take, which needs no broker.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
/// The kernel's counters of the memory limit of this container (cgroup v2).
const MEMORY_EVENTS: &str = "/sys/fs/cgroup/memory.events";
const LOW_SPACE_MEBIBYTES: u64 = 64;

pub(crate) async fn run(question: &PodQuestion) -> Result<()> {
    let checks = all(&question.pod).await;
    question.output.print(&checks, || text(&checks));
    ended_with(if any_failed(&checks) { NO } else { 0 })
}

/// All checks, in the order in which a pod needs the results.
async fn all(arguments: &PodArguments) -> Vec<Check> {
    let check = |name, found| Check { name, found };
    let pod = match PodContext::read(arguments) {
        Ok(pod) => pod,
        Err(failure) => {
            let remedy = if failure.code == Exit::Config.code() {
                "use operator and agent of one release, and run this in the container that runs Flux"
            } else {
                "report this as a mistake of the agent"
            };
            return vec![check("configuration", Found::failed(failure.to_string(), remedy))];
        }
    };
    // Each of these may wait for many seconds.
    let (view, lead, broker, resources, python) =
        tokio::join!(view(&pod), lead(&pod), broker(&pod), resources(&pod), python(&pod));
    vec![
        check("configuration", Found::ok(arguments.config.display().to_string())),
        check("host", host(&pod)),
        check("view", view),
        check("certificate", certificate(&pod)),
        check("user", user(&pod)),
        check("directories", directories(&pod)),
        check("memory", memory(&pod)),
        check("space", space(&pod)),
        check("MPI", mpi(&pod)),
        check("agent", agent(&pod)),
        check("lead", lead),
        check("broker", broker),
        check("resources", resources),
        check("python", python),
    ]
}

fn host(pod: &PodContext) -> Found {
    match decide::plan(&pod.config, &pod.facts) {
        Err(error) if error.code == Exit::Config.code() => Found::failed(
            error.to_string(),
            "the pod's host name must be <name>-<index>: look at pod.overlay for hostNetwork, hostname or setHostnameAsFQDN, and at bursting.hostlist",
        ),
        Ok(plan) => Found::ok(format!("{}, {}, rank {}", plan.hostname, plan.role, plan.rank)),
        // A later check reports this.
        Err(_) => Found::ok(pod.facts.hostname.clone()),
    }
}

async fn view(pod: &PodContext) -> Found {
    let remedy = match (pod.config.view.enabled, pod.config.install) {
        (true, Install::Copy) => {
            "look at the log of the init container flux-view, and at flux.container.image"
        }
        (true, Install::Image) => {
            "look at flux.container.image, and try flux.container.install: Copy: links of a mounted view \
             lead nowhere but into the view itself and /opt/software"
        }
        (false, _) => "flux.container.disable is set: the image must bring flux on its PATH",
    };
    let flux = if pod.config.view.enabled {
        PathBuf::from(pod.config.layout.view()).join("bin/flux")
    } else {
        "flux".into()
    };
    let shown = flux.display().to_string();
    let mut version = Command::new(pod.root.at(&flux));
    version.arg("version").stdin(Stdio::null()).kill_on_drop(true);
    let Ok(output) = timeout(VERSION_TIMEOUT, version.output()).await else {
        let seen = format!("{shown} version: no end after {} s", VERSION_TIMEOUT.as_secs());
        return Found::failed(seen, "the volume of the view, or this node, hangs");
    };
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            let version: Vec<&str> =
                text.lines().next().unwrap_or_default().split_whitespace().collect();
            Found::ok(format!("{shown} ({})", version.join(" ")))
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Found::failed(format!("{shown} version: {}: {text}", output.status), remedy)
        }
        Err(error) => Found::failed(format!("start {shown}: {error}"), remedy),
    }
}

/// Checks whether the ranks of the command can find each other.
fn mpi(pod: &PodContext) -> Found {
    let command = match &pod.config.workload {
        Workload::Submit { submission }
        | Workload::Interactive { submission: Some(submission) } => submission.command.as_slice(),
        Workload::Launcher { command, .. } => command,
        Workload::Interactive { submission: None }
        | Workload::Batch { .. }
        | Workload::Diagnostics {} => &[],
    };
    let has_pmix = mpi::has_pmix(&pod.root.at(pod.config.layout.view()));
    let variable = |name| pod.facts.environment.get(name).map_or("", String::as_str);
    let (path, libraries) = (variable("PATH"), variable("LD_LIBRARY_PATH"));
    let server = if has_pmix { "flux-pmix is in the view" } else { "no flux-pmix in the view" };
    match mpi::of_command(command, None, has_pmix, path, libraries) {
        Choice::Pmi(pmi) => {
            let pmi = pmi.map_or_else(|| "Flux's own PMI".to_owned(), |list| format!("pmi={list}"));
            Found::ok(format!("{pmi}; {server}"))
        }
        Choice::Refuse(reason) => {
            Found::failed(reason, "the page on MPI programs says how such a view is made")
        }
    }
}

/// Checks whether the kernel has killed processes of this container for its memory limit.
fn memory(pod: &PodContext) -> Found {
    let Ok(events) = fs::read_to_string(pod.root.at(MEMORY_EVENTS)) else {
        return Found::skipped(format!("no {MEMORY_EVENTS} (cgroup v2)"));
    };
    match killed_for_memory(&events) {
        0 => Found::ok("no process was killed for it"),
        killed => Found::warning(
            format!("{killed} processes were killed for the memory limit"),
            "raise limits.memory, or run fewer tasks in a pod",
        ),
    }
}

/// `oom_kill` of `memory.events` (Linux, cgroup-v2).
fn killed_for_memory(events: &str) -> u64 {
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

/// Checks the free space in the shared volume, which is on the node's disk.
fn space(pod: &PodContext) -> Found {
    let mount = pod.config.layout.mount();
    let Ok(found) = statvfs(&pod.root.at(mount)) else {
        return Found::skipped(format!("{mount} cannot be looked at"));
    };
    let free = found.blocks_available().saturating_mul(found.fragment_size()) >> 20;
    let seen = format!("{free} MiB free in {mount}");
    if free < LOW_SPACE_MEBIBYTES {
        let remedy = "Flux keeps its content there, and jobs may write there: free the node's disk, \
                      or raise resources of ephemeral-storage";
        return Found::warning(seen, remedy);
    }
    Found::ok(seen)
}

fn certificate(pod: &PodContext) -> Found {
    if !pod.facts.is_runner {
        return Found::skipped("only the container that runs Flux has it");
    }
    let mounted = Path::new(CURVE_MOUNT).join(CURVE_SECRET_KEY);
    let remedy = "it comes from the Secret that the pod's volume <name>-curve names: look at that, and at flux.curveCert";
    let text = fs::read_to_string(pod.root.at(&mounted)).map_err(|error| error.to_string());
    let parse = |text: String| CurveCertificate::parse(&text).map_err(|error| chain(&error));
    if let Err(error) = text.and_then(parse) {
        return Found::failed(format!("{}: {error}", mounted.display()), remedy);
    }
    let copy = pod.config.layout.curve_certificate();
    match fs::metadata(pod.root.at(&copy)) {
        Ok(found) if found.mode() & 0o077 != 0 => Found::failed(
            format!("{} can be read by others (mode {:04o})", copy, found.mode() & 0o7777),
            "Flux refuses such a file: something changed its mode after the agent wrote it",
        ),
        Ok(_) => Found::ok(copy),
        Err(_) => Found::warning(
            format!("{copy} is not there (yet)"),
            "the agent has not copied it yet: see flux-agent status",
        ),
    }
}

fn user(pod: &PodContext) -> Found {
    let socket = pod.broker().ok().and_then(|broker| fs::metadata(broker.socket).ok());
    let owner = socket.map(|socket| socket.uid());
    let (own, config) = (pod.facts.uid, &pod.config.user);
    let name = |uid: u32| {
        let account = pod.facts.accounts.find_uid(uid);
        account.map_or_else(|| format!("uid {uid}"), |user| format!("{} (uid {uid})", user.name))
    };
    match owner {
        Some(uid) => Found::ok(format!("Flux runs as {}, this is {}", name(uid), name(own))),
        None if own == 0
            && !config.run_as_root
            && pod.facts.accounts.find_user(&config.name).is_none() =>
        {
            Found::warning(
                format!("there is no account {} (yet)", config.name),
                "the agent has not added it yet, or cannot write /etc/passwd: see the log of this container",
            )
        }
        None => Found::ok(name(own)),
    }
}

fn directories(pod: &PodContext) -> Found {
    let layout = &pod.config.layout;
    let owner = |path: String| match fs::metadata(pod.root.at(&path)) {
        Ok(found) => Ok(found.uid()),
        Err(error) => Err(format!("{path}: {error}")),
    };
    match (owner(layout.run_dir()), owner(layout.state_dir())) {
        (Err(seen), _) | (_, Err(seen)) => Found::failed(
            seen,
            "the agent makes them at the start of a run: see flux-agent status and the log of this container",
        ),
        (Ok(run), Ok(state)) if run != state => Found::failed(
            format!("run and state directories belong to different users: {:?}", [run, state]),
            "Flux insists on its own: a securityContext that changed between two starts of the container does this; delete the pod",
        ),
        (Ok(_), Ok(_)) => Found::ok(layout.config_root()),
    }
}

fn agent(pod: &PodContext) -> Found {
    match file::read(&pod.root, &pod.config.layout) {
        Ok(StatusReport { phase, last_error: Some(error), .. }) => Found::warning(
            format!("phase {phase}, last error: {error}"),
            "if the run went on since, nothing; else what the error names",
        ),
        Ok(StatusReport { phase, restarts: 0, .. }) => Found::ok(format!("phase {phase}")),
        Ok(StatusReport { phase, restarts, .. }) => Found::warning(
            format!("phase {phase}, its broker was started again {restarts} times"),
            "kubectl logs of this container says why it ended each time",
        ),
        Err(_) if !pod.facts.is_runner => {
            Found::skipped("its status is in the container that runs Flux")
        }
        Err(error) => Found::failed(
            error.to_string(),
            "flux-agent run is not, or no longer, the first process of this container, or this is another user than it",
        ),
    }
}

async fn lead(pod: &PodContext) -> Found {
    if !pod.facts.is_runner {
        return Found::skipped("needs the certificate of the container that runs Flux");
    }
    let (Ok(lead), Ok(certificate)) =
        (decide::lead(&pod.config, &pod.facts), read_certificate(&pod.certificate_path()))
    else {
        return Found::skipped("needs a known host and a certificate");
    };
    if pod.config.network.bootstrap.hosts().len() < 2 {
        return Found::skipped("the only broker of an instance listens to nobody");
    }
    match wait_for_lead(&lead, &certificate, LEAD_TIMEOUT, &mut |_, _| ()).await {
        Ok(found) => Found::ok(format!("{} lets this pod in", found.address)),
        Err(error) => {
            let remedy = match decide::role(&pod.config, &pod.facts) {
                Ok((Role::Lead, _)) => {
                    "this is the lead: its broker is not up, or its Service has no endpoint"
                }
                Ok((Role::Worker, _)) | Err(_) => {
                    "see the log of pod index 0; a NetworkPolicy may drop packets to its port"
                }
            };
            Found::failed(error.to_string(), remedy)
        }
    }
}

async fn broker(pod: &PodContext) -> Found {
    let Ok(broker) = pod.broker() else {
        return Found::skipped("needs a known host");
    };
    match broker.state().await.as_deref() {
        Ok("run") => Found::ok("state run"),
        Ok("join") => Found::warning(
            "state join: the lead has not taken it in",
            "see the check of the lead; the lead's log names brokers that it refuses",
        ),
        Ok("quorum") => Found::warning(
            "state quorum: it waits for other brokers",
            "kubectl get pods shows which are missing; minSize allows to start with fewer",
        ),
        Ok(state) => Found::warning(format!("state {state}"), "none: it is on its way"),
        Err(SocketError::Silent { .. }) => Found::failed(
            format!("{} does not answer", broker.socket.display()),
            "the broker hangs or is starved: see flux-agent resources",
        ),
        Err(error) => Found::failed(
            chain(error),
            "the broker is not up (see the log of this container), or lets only its owner in",
        ),
    }
}

/// The cores that Flux schedules in this pod, if its broker runs.
async fn scheduled_cores(pod: &PodContext) -> Option<usize> {
    let (_, rank) = decide::role(&pod.config, &pod.facts).ok()?;
    let mut socket = pod.broker().ok()?.connect().await.ok()?;
    let ranks = resource::ranks(&mut socket).await.ok()?;
    ranks.into_iter().find(|status| status.rank == rank).map(|status| status.cores)
}

/// The warning about a pod with fewer cores than the lead: Flux assumes that all pods have as many.
fn fewer_cores(scheduled: usize, own: usize) -> Option<Found> {
    let found = format!("Flux schedules on {scheduled} cores in this pod, which has {own}");
    let remedy = "set limits.cpu, or let all pods run on nodes of one kind (pod.nodeSelector)";
    (own < scheduled).then(|| Found::warning(found, remedy))
}

async fn resources(pod: &PodContext) -> Found {
    let scheduled = scheduled_cores(pod).await;
    let fewer = scheduled.and_then(|scheduled| fewer_cores(scheduled, pod.facts.cores));
    if let Some(found) = fewer {
        return found;
    }
    let resources = pod.resources();
    match (resources.complaint(), resources.flux_cores.or(scheduled)) {
        (Some(complaint), _) => Found::warning(
            complaint,
            "give whole cores as limit and request, or ask for fewer tasks",
        ),
        (None, Some(cores)) => Found::ok(format!("{cores} cores for Flux")),
        (None, None) => Found::skipped("the lead has the resource set, and the broker is not up"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_with_fewer_cores_than_the_lead_is_reported() {
        assert!(fewer_cores(64, 16).is_some_and(|found| found.seen.contains("64 cores")));
        assert_eq!(fewer_cores(16, 64), None);
        assert_eq!(fewer_cores(0, 1), None);
    }

    #[test]
    fn processes_killed_for_memory_are_counted() {
        let events = "low 0\nhigh 0\nmax 12\noom 2\noom_kill 3\noom_group_kill 7\n";
        assert_eq!(killed_for_memory(events), 3);
        assert_eq!(killed_for_memory("low 0\n"), 0);
    }
}
