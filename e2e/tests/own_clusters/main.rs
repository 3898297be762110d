//! Tests that need clusters of their own: faults of nodes and of the control plane, installations, schedulers, devices,
//! other networks; and a test that the harness leaves nothing behind. Needs root.
//!
//! Run by `cargo verify`, or alone: `cargo test -p e2e --test own_clusters -- --ignored`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, helpers included")]

mod control_plane;
mod cpu_manager;
mod devices;
mod dns;
mod gang;
mod install;
mod kueue;
mod large;
mod metrics_api;
mod network;
mod outages;
mod policies;
mod removal;
mod stopped_in_runc;
mod two_clusters;
mod two_nodes;

use e2e::cluster::ClusterChoice;
use e2e::interruption::{self, Scope};
use e2e::kubernetes::{
    Built, ClusterId, ContainerRuntime, DownAtEnd, Kubernetes, KubernetesVersion, Network, Nodes,
    Options,
};
use e2e::prelude::*;
use e2e::wait::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use walkdir::{DirEntry, WalkDir};

/// What most of these tests use.
mod prelude {
    pub(crate) use crate::{case, on_a_cluster, options};
    pub(crate) use e2e::kubernetes::Network;
    pub(crate) use e2e::prelude::*;
}

/// Options of a cluster, which an interruption of the tests ends.
fn options(purpose: &str, network: Network) -> Options {
    let id = ClusterId::beside_that_of_this_checkout(purpose).unwrap();
    let usual = Options::of_version(KubernetesVersion::default()).unwrap();
    let options = Options { id, network, ..usual };
    interruption::guard([options.clone()], Scope::Used).unwrap();
    options
}

/// Runs `body` with the operator on a cluster of these options, of which nothing is left in the end.
fn on_a_cluster(options: &Options, body: impl FnOnce(&Environment) -> Result<()>) {
    let _down = DownAtEnd(options.clone());
    let target = ClusterChoice::Own(options.clone());
    let prepared = Environment::prepare(&target, false);
    if let Err(error) = prepared.and_then(|environment| body(&environment)) {
        panic!("{error:#}");
    }
}

/// The node with the control plane of two nodes, on which the operator runs.
const FIRST: &str = "node-1";
/// The node with the faults.
const SECOND: &str = "node-2";
/// A taint by which an administrator declares that a node is out of service.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";

fn two_nodes(purpose: &str, second: ContainerRuntime) -> Options {
    Options { nodes: Nodes::Real(vec![second]), ..options(purpose, Network::default()) }
}

/// Like [`on_a_cluster`], with the operator on the first of two nodes: it must not be lost with a node.
fn on_two_nodes(options: &Options, body: impl FnOnce(&Environment) -> Result<()>) {
    let _down = DownAtEnd(options.clone());
    let cluster = Kubernetes::up(options).unwrap();
    assert_eq!(cluster.node_names(), [FIRST, SECOND]);
    kubectl(&cluster, &["cordon", SECOND]);
    on_a_cluster(options, |environment| {
        environment.kubectl(&["uncordon", SECOND])?;
        body(environment)
    });
}

/// Runs one of the cases of a cluster, in a namespace of its own. A failed case ends the test, because it may have left
/// the cluster in a state in which the next ones fail.
fn case(
    environment: &Environment,
    purpose: &str,
    case: impl AsyncFnOnce(&Trial) -> Result<()> + Send,
) -> Result<()> {
    progress::step(purpose, || environment.trial(purpose, case))
}

async fn placed(trial: &Trial, name: &str) -> Result<usize> {
    let has_node = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    Ok(trial.pods(name).await?.iter().filter(|pod| has_node(pod)).count())
}

fn kubectl(cluster: &Kubernetes, arguments: &[&str]) -> String {
    let output = programs::run(&mut cluster.kubectl(arguments)).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Everything with the name of this cluster: state, control groups, mounts, processes.
fn traces(options: &Options) -> Vec<String> {
    let id = options.id.as_str();
    let state = Some(options.cache.clusters().join(id)).filter(|path| path.exists());
    let groups = WalkDir::new("/sys/fs/cgroup").max_depth(2).into_iter().flatten();
    let groups = groups.map(DirEntry::into_path).filter(|path| path.to_string_lossy().contains(id));
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let files = processes.flat_map(|process| ["cgroup", "cmdline"].map(|file| process.join(file)));
    let lines = files.chain([PathBuf::from("/proc/self/mounts")]).flat_map(|file| {
        let text = std::fs::read(file).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().filter(|line| line.contains(id)).map(str::to_owned).collect::<Vec<_>>()
    });
    let paths = state.into_iter().chain(groups).map(|path| path.display().to_string());
    paths.chain(lines).collect()
}

#[test]
#[ignore = "needs root"]
fn whatever_interrupts_it_up_starts_anew_and_down_leaves_nothing() {
    let domain = "k8s.example";
    let network = Network { domain: domain.parse().unwrap(), ..Network::default() };
    let options = options("broken", network);
    let _down = DownAtEnd(options.clone());
    // The first build takes longer than the deadlines below.
    Built::ensure(&options.cache, options.version, &options.nodes).unwrap();
    Kubernetes::down(&options).unwrap();
    let logs = options.cache.clusters().join(options.id.as_str()).join("node-1/log");
    // Interrupts it before the first record, while the API server starts, and while the node starts.
    let up_until = |moment: &str| {
        let mut up = Command::new(env!("CARGO_BIN_EXE_e2e"))
            .args(["up", &format!("--id={}", options.id.as_str())])
            .arg(format!("--cluster-domain={domain}"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let reached = until(moment, DEADLINE, || {
            let log = logs.join(format!("{moment}.log"));
            Ok(if log.exists() { Ok(()) } else { Err(anyhow!("no")) })
        });
        if let Err(error) = reached {
            // Otherwise it would go on, and leave a cluster.
            up.kill().and_then(|()| up.wait()).unwrap();
            panic!("{error:#}");
        }
        up
    };
    for moment in ["namespaces", "kube-apiserver", "kubelet"] {
        let mut up = up_until(moment);
        up.kill().unwrap();
        up.wait().unwrap();
        assert!(!traces(&options).is_empty(), "interrupted too early at {moment}");
    }
    Kubernetes::down(&options).unwrap();
    // Ctrl-C takes the cluster down.
    let mut up = up_until("kubelet");
    kill(Pid::from_raw(up.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(up.wait().unwrap().code(), Some(130));
    assert_eq!(traces(&options), Vec::<String>::new());
    let first = Kubernetes::up(&options).unwrap();
    kubectl(&first, &["create", "configmap", "kept"]);
    let again = Kubernetes::up(&options).unwrap();
    assert!(kubectl(&again, &["get", "configmap", "-oname"]).contains("kept"));
    let other = Options { network: Network::default(), ..options.clone() };
    let anew = Kubernetes::up(&other).unwrap();
    assert!(!kubectl(&anew, &["get", "configmap", "-oname"]).contains("kept"));
    Kubernetes::down(&options).unwrap();
    assert_eq!(traces(&options), Vec::<String>::new());
    Kubernetes::down(&options).unwrap();
}
