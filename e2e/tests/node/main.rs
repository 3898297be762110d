//! What needs clusters of its own: faults of nodes and of the control plane, installations, schedulers, other networks,
//! and that the harness leaves nothing behind. Needs root.
//!
//! Run by `cargo verify`, or alone: `cargo test -p e2e --test node -- --ignored`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, helpers included")]

mod cases;
mod control_plane;
mod gang;
mod install;
mod kueue;
mod network;
mod stopped_in_runc;
mod two_nodes;

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use e2e::{
    cache::Cache,
    kubernetes::{
        Built, ClusterId, DownAtEnd, Kubernetes, KubernetesVersion, Network, Nodes, Options,
    },
    programs,
    progress::Progress,
    trial::instance::DEADLINE,
    wait::{Look, until},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

fn options(purpose: &str, network: Network) -> Options {
    let id = ClusterId::beside_that_of_this_checkout(purpose).unwrap();
    let version = KubernetesVersion::default();
    Options { cache: Cache::locate().unwrap(), id, network, version, nodes: Nodes::default() }
}

/// Runs `body` with a cluster of these options, of which nothing is left in the end.
fn on_a_cluster(options: &Options, body: impl FnOnce(&Options, &Progress) -> anyhow::Result<()>) {
    let progress = Progress::new();
    let _down = DownAtEnd(options.clone());
    if let Err(error) = body(options, &progress) {
        panic!("{error:#}");
    }
}

fn kubectl(cluster: &Kubernetes, arguments: &[&str]) -> String {
    let output = programs::run(&mut cluster.kubectl(arguments)).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// What a cluster could leave: processes, control groups, mounts, state.
fn traces(options: &Options) -> Vec<String> {
    let state = options.cache.clusters().join(options.id.as_str());
    let group = Kubernetes::control_group(options).unwrap();
    let mut traces = Vec::new();
    if state.exists() {
        traces.push(state.display().to_string());
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let of_state = mounts.lines().filter(|line| line.contains(&*state.to_string_lossy()));
    traces.extend(of_state.map(str::to_owned));
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let groups = std::fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        if groups.contains(&group) || line.contains(&*state.to_string_lossy()) {
            traces.push(line.into_owned());
        }
    }
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let roots = hierarchies.map(|entry| entry.path()).chain([PathBuf::from("/sys/fs/cgroup")]);
    let groups = roots.map(|root| root.join(&group)).filter(|path| path.exists());
    traces.extend(groups.map(|path| path.display().to_string()));
    traces
}

#[test]
#[ignore = "needs root"]
fn whatever_interrupts_it_up_starts_anew_and_down_leaves_nothing() {
    let domain = "k8s.example";
    let network = Network { domain: domain.parse().unwrap(), ..Network::default() };
    let options = options("broken", network);
    let _down = DownAtEnd(options.clone());
    let progress = Progress::new();
    // Where nothing was ever built, that takes longer than a moment below is waited for.
    Built::ensure(&options.cache, options.version, &options.nodes, &progress).unwrap();
    Kubernetes::down(&options).unwrap();
    let log = |name: &str| {
        options.cache.clusters().join(options.id.as_str()).join(format!("node-1/log/{name}.log"))
    };
    // Interrupted before anything was remembered, while the API starts, and while the node does.
    let up_until = |moment: &str| {
        let mut up = Command::new(env!("CARGO_BIN_EXE_e2e"))
            .args(["up", &format!("--id={}", options.id.as_str())])
            .arg(format!("--cluster-domain={domain}"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let reached = until(moment, DEADLINE, || {
            Ok(if log(moment).exists() { Look::Ready(()) } else { Look::NotYet("no".into()) })
        });
        if let Err(error) = reached {
            // It would go on, and leave a cluster that nobody ends.
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
    // Ctrl-C is noticed, and takes down what there is.
    let mut up = up_until("kubelet");
    kill(Pid::from_raw(up.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(up.wait().unwrap().code(), Some(130));
    assert_eq!(traces(&options), Vec::<String>::new());
    let first = Kubernetes::up(&options, &progress).unwrap();
    kubectl(&first, &["create", "configmap", "kept"]);
    let again = Kubernetes::up(&options, &progress).unwrap();
    assert!(kubectl(&again, &["get", "configmap", "-oname"]).contains("kept"));
    let other = Options { network: Network::default(), ..options.clone() };
    let anew = Kubernetes::up(&other, &progress).unwrap();
    assert!(!kubectl(&anew, &["get", "configmap", "-oname"]).contains("kept"));
    Kubernetes::down(&options).unwrap();
    assert_eq!(traces(&options), Vec::<String>::new());
    Kubernetes::down(&options).unwrap();
}
