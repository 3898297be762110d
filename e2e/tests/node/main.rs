//! What needs clusters of its own: what the harness's node can do, that it leaves nothing behind, and
//! other networks. Needs root.
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
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use e2e::{
    cache::Cache,
    images::{
        debian::debian,
        image::{Image, ImageConfig},
        layer::{Layer, Source},
    },
    kubernetes::{
        Built, ClusterId, DownAtEnd, Kubernetes, KubernetesVersion, Network, Nodes, Options,
    },
    programs,
    progress::Progress,
    wait::{Look, until},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

const DEADLINE: Duration = Duration::from_mins(2);

fn options(purpose: &str, network: Network) -> Options {
    let id = ClusterId::beside_that_of_this_checkout(purpose).unwrap();
    let version = KubernetesVersion::default();
    Options { cache: Cache::locate().unwrap(), id, network, version, nodes: Nodes::default() }
}

fn kubectl(cluster: &Kubernetes, arguments: &[&str]) -> String {
    let output = programs::run(&mut cluster.kubectl(arguments)).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn apply(cluster: &Kubernetes, object: &serde_json::Value) {
    let mut command = cluster.kubectl(["apply", "-f", "-"]);
    programs::run_with_input(&mut command, object.to_string().as_bytes()).unwrap();
}

fn wait_for_phase(cluster: &Kubernetes, pod: &str, phase: &str) {
    let seen = until(&format!("pod {pod} to be {phase}"), DEADLINE, || {
        let seen = kubectl(cluster, &["get", "pod", pod, "-ojsonpath={.status.phase}"]);
        anyhow::ensure!(seen != "Failed" || seen == phase, "pod {pod} failed");
        Ok(if seen == phase { Look::Ready(()) } else { Look::NotYet(seen) })
    });
    if let Err(error) = seen {
        let described = kubectl(cluster, &["describe", "pod", pod]);
        panic!("{error:#}\n{described}\n{}", kubectl(cluster, &["logs", pod]));
    }
}

/// Runs a script in a Debian container to its end, and returns what it wrote.
fn run_in_pod(cluster: &Kubernetes, name: &str, script: &str, more: &serde_json::Value) -> String {
    let mut container = json!({
        "name": "main", "image": "debian:12", "command": ["bash", "-c", script],
    });
    let mut spec = json!({"restartPolicy": "Never"});
    if let Some(image) = more.get("image") {
        container["volumeMounts"] = json!([{"name": "view", "mountPath": "/mnt/view"}]);
        spec["volumes"] = json!([{"name": "view", "image": {"reference": image}}]);
    }
    if let Some(context) = more.get("securityContext") {
        container["securityContext"] = context.clone();
    }
    spec["containers"] = json!([container]);
    let metadata = json!({"name": name});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    apply(cluster, &pod);
    wait_for_phase(cluster, name, "Succeeded");
    kubectl(cluster, &["logs", name])
}

fn small_image(directory: &Path) -> Image {
    let script = directory.join("hello");
    std::fs::write(&script, "#!/bin/sh\necho an executable runs\n").unwrap();
    let sources = [Source::file("view/bin/hello", &script)];
    let layer = Layer::from_sources(directory, &sources).unwrap();
    Image::new(vec![layer], ImageConfig::default())
}

fn serve_by_a_service(cluster: &Kubernetes) {
    let server = "use IO::Socket::INET; \
        $s = IO::Socket::INET->new(LocalPort => 8080, Listen => 5, ReuseAddr => 1) or die; \
        while ($c = $s->accept) { print $c qq(served\\n); close $c }";
    apply(
        cluster,
        &json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "server", "labels": {"app": "server"}},
            "spec": {"containers": [{
                "name": "main", "image": "debian:12", "command": ["perl", "-e", server],
                "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
            }]},
        }),
    );
    apply(
        cluster,
        &json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "served"},
            "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8080}]},
        }),
    );
    let ready = ["wait", "pod/server", "--for=condition=Ready", "--timeout=60s"];
    kubectl(cluster, &ready);
}

#[test]
#[ignore = "needs root"]
fn pods_have_logs_names_services_volumes_and_restrictions() {
    let progress = Progress::new();
    let options = options("node", Network::default());
    let _down = DownAtEnd(options.clone());
    let cluster = Kubernetes::up(&options, &progress).unwrap();
    let debian = debian(&options.cache, &[], &progress).unwrap();
    let names = ["debian:12"];
    progress.step("loading debian:12", || cluster.load_image(&debian, &names)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    cluster.load_image(&small_image(directory.path()), &["view:1"]).unwrap();

    let said = run_in_pod(&cluster, "hello", "echo hello; cat /etc/debian_version", &json!({}));
    assert!(said.starts_with("hello\n12."), "{said}");

    serve_by_a_service(&cluster);
    // A Service refuses until kube-proxy knows its endpoint, a moment after the pod is ready.
    let script = "getent hosts kubernetes.default.svc.cluster.local; getent hosts served; \
                  ! getent hosts no-such-name.example || exit 1; \
                  until cat 2>/dev/null </dev/tcp/served/80; do sleep 0.2; done";
    let said = run_in_pod(&cluster, "client", script, &json!({}));
    assert!(said.contains("10.96.0.1 "), "{said}");
    assert!(said.contains("served.default.svc.cluster.local"), "{said}");
    assert!(said.ends_with("\nserved\n"), "{said}");
    let inside = kubectl(&cluster, &["exec", "server", "--", "echo", "executed"]);
    assert_eq!(inside, "executed\n");

    let script = "/mnt/view/view/bin/hello; ! touch /mnt/view/x";
    let said = run_in_pod(&cluster, "volume", script, &json!({"image": "view:1"}));
    // What it prints and its errors take ways of their own into the log.
    for line in ["an executable runs", "touch: cannot touch '/mnt/view/x': Read-only file system"] {
        assert!(said.lines().any(|it| it == line), "{said}");
    }

    kubectl(
        &cluster,
        &["label", "namespace", "default", "pod-security.kubernetes.io/enforce=restricted"],
    );
    let context = json!({
        "runAsNonRoot": true, "runAsUser": 1234, "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
        "readOnlyRootFilesystem": true,
    });
    let more = json!({"securityContext": context});
    assert_eq!(run_in_pod(&cluster, "restricted", "id -u", &more), "1234\n");
    let refused = cluster.kubectl(["run", "free", "--image=debian:12"]).output().unwrap();
    assert!(!refused.status.success());
    let state = options.cache.clusters().join(options.id.as_str());
    let audit = std::fs::read_to_string(state.join("node-1/var/log/kubernetes/audit.log")).unwrap();
    assert!(audit.lines().last().unwrap().starts_with('{'));
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
