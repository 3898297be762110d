//! A cluster whose API server, storage, DNS and operator fail in turn: whatever fails, a command runs once, nothing
//! is lost, doubled or stuck, and each `MiniCluster` ends in a condition that says what happened. Needs root.
//!
//! One cluster serves all cases, one after the other.

mod api_server;
mod clock;
mod dns;
mod killed;
mod operator;
mod random;
mod stages;
mod storage;

use anyhow::{Context as _, Result, ensure};
use e2e::{
    audit::Audit,
    cluster::Target,
    environment::Environment,
    kubernetes::{DownAtEnd, Network, Options},
    packages,
    product::install::{NAME, NAMESPACE},
    progress::Progress,
    trial::{Trial, condition, is_true, logs::container_log, minicluster},
};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{ResourceExt as _, api::ListParams};
use tokio::net::TcpStream;

use super::{
    cases::{Cases, DEADLINE, pod, times, until},
    options,
};

/// The cluster whose control plane fails.
type Plane<'run> = Cases<'run>;

/// How long the DNS answers what was true: longer than any case takes.
const DNS_CACHE: u32 = 600;

#[test]
#[ignore = "needs root"]
fn miniclusters_outlive_faults_of_the_control_plane() {
    let progress = Progress::new();
    let network = Network { dns_cache: DNS_CACHE, ..Network::default() };
    let options = options("control", network);
    let _down = DownAtEnd(options.clone());
    if let Err(error) = try_all(&options, &progress) {
        panic!("{error:#}");
    }
}

fn try_all(options: &Options, progress: &Progress) -> Result<()> {
    // Within the node's network there is no way to any package.
    packages::ensure(packages::CLOCK, progress)?;
    let target = Target::Own(options.clone());
    let environment = Environment::prepare(&target, false, progress)?;
    let cluster = environment.own().context("the cluster is not our own")?;
    let plane = Plane { environment: &environment, cluster, options, progress };
    // Nothing of these needs a name, and DNS does nothing but answer.
    std::thread::scope(|scope| {
        let names = scope.spawn(|| {
            plane.case("dns", dns::names_that_nobody_answers_are_waited_for)?;
            plane.case("stale", dns::a_new_lead_is_found_while_its_name_leads_to_the_old_one)
        });
        let random = plane.case("random", random::nothing_is_left_of_twenty_that_come_and_go);
        let names = names.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        random.and(names)
    })?;
    plane.case("api", api_server::commands_go_on_and_end_while_the_api_server_is_away)?;
    plane.case("etcd", storage::slow_storage_only_takes_its_time)?;
    // From here on the operators are processes of the tests.
    plane.scale_operator(0)?;
    plane.case("stages", stages::an_operator_that_is_killed_between_its_writes_leaves_one_run)?;
    plane.case("killed", killed::an_operator_that_is_back_tells_what_happened_without_it)?;
    plane.case("clock", clock::a_clock_that_jumps_ends_what_its_time_is_over_for_and_nothing_else)
}

/// What a command does until somebody connects to its pod: it asks neither Kubernetes nor Flux.
const UNTIL_TOLD: &str = "perl -MIO::Socket::INET -e \
    \"IO::Socket::INET->new(LocalPort => 4000, Listen => 1)->accept or die\"";
/// The port of [`UNTIL_TOLD`].
const TOLD: u16 = 4000;

/// A MiniCluster whose command says `once`, waits for a connection, and ends with `code`.
fn ends_when_told(name: &str, more: &str, code: u8) -> String {
    let command = format!("echo once; {UNTIL_TOLD}; exit {code}");
    let container = format!("{{image: 'ubuntu:24.04', command: '{command}'}}");
    minicluster(name, &format!("{{{more} containers: [{container}]}}"))
}

/// The address of the lead's pod.
async fn address_of_lead(trial: &Trial, name: &str) -> Result<String> {
    let lead = pod(trial, name, 0).await?;
    lead.status.and_then(|status| status.pod_ip).context("the lead has no address")
}

/// Tells the command of the pod at this address to end, as soon as it listens.
async fn tell(address: &str) -> Result<()> {
    until("the command to listen", async || Ok(TcpStream::connect((address, TOLD)).await.ok()))
        .await
        .map(drop)
}

async fn await_ready(trial: &Trial, name: &str) -> Result<()> {
    let ready = |cluster: Option<&MiniCluster>| cluster.is_some_and(|it| is_true(it, "Ready"));
    trial.await_minicluster(name, "ready", DEADLINE, ready).await.map(drop)
}

/// Waits until so many brokers are ready.
async fn await_brokers(trial: &Trial, name: &str, brokers: i32) -> Result<()> {
    let whole = |cluster: Option<&MiniCluster>| {
        let status = cluster.and_then(|cluster| cluster.status.as_ref());
        status.is_some_and(|status| status.ready_brokers == brokers)
    };
    trial.await_minicluster(name, "with all brokers", DEADLINE, whole).await.map(drop)
}

/// Waits until the MiniCluster has ended, which must be as its command did: with `code`, in one run, in the pods
/// that were made first.
async fn ended_once(trial: &Trial, name: &str, size: usize, code: i32) -> Result<()> {
    let cluster = trial.await_finished(name, DEADLINE).await?;
    let told = cluster.status.as_ref().and_then(|status| status.exit_code);
    ensure!(told == Some(code), "{name} ended with {told:?}: {:?}", cluster.status);
    if code == 0 {
        ensure!(is_true(&cluster, "Complete"), "{name}: {:?}", cluster.status);
    } else {
        let (status, reason, message) = condition(&cluster, "Failed").context("no condition")?;
        let expected = status == "True" && reason == "CommandFailed";
        ensure!(expected, "{name}: {status}: {reason}: {message}");
    }
    // Kubernetes deletes the workers that are left when a Job ends.
    let pods = trial.pods(name).await?;
    ensure!((1..=size).contains(&pods.len()), "{name} has {} pods", pods.len());
    let mut logs = String::new();
    for pod in &pods {
        logs += &container_log(trial, pod, name).await.unwrap_or_default();
    }
    ensure!(times(&logs, "once") == 1, "{name} did not run once:\n{logs}");
    let jobs = trial.api::<Job>().list(&ListParams::default()).await?;
    let of_this = |job: &&Job| job.owner_references().iter().any(|owner| owner.name == name);
    let jobs = jobs.iter().filter(of_this).count();
    ensure!(jobs == 1, "{name} has {jobs} Jobs");
    Ok(())
}

impl Cases<'_> {
    /// Waits until so many operators run in the cluster.
    fn scale_operator(&self, replicas: u32) -> Result<()> {
        let kubectl = |words: &[&str]| self.kubectl(&[&["-n", NAMESPACE][..], words].concat());
        kubectl(&["scale", "deployment", NAME, &format!("--replicas={replicas}")])?;
        let pods = format!("--selector=app.kubernetes.io/name={NAME}");
        kubectl(&["wait", "pods", "--for=delete", &pods, "--timeout=1m"])?;
        Ok(())
    }

    /// The operator's pod in the cluster.
    async fn operator_pod(&self, trial: &Trial) -> Result<Pod> {
        let pods: kube::Api<Pod> = kube::Api::namespaced(trial.client().clone(), NAMESPACE);
        let pods =
            pods.list(&ListParams::default()).await.context("listing the operator's pods")?;
        pods.into_iter().next().context("no operator runs")
    }

    /// What operators ask the API server for from now on.
    fn audit(&self) -> Result<Audit> {
        Audit::from_now_on(&self.cluster.audit_log())
    }
}
