//! Starts a cluster and its nodes step by step, each step waiting for what it needs.

use super::cluster::Kubernetes;
use super::configuration::{OBJECTS, PAUSE_IMAGE, Values};
use super::layout::{Layout, NodeLayout};
use super::namespaces::Namespaces;
use super::options::{Nodes, Options};
use super::recipes::Built;
use super::{certificates, processes};
use crate::cache;
use crate::images::image::{Image, ImageConfig};
use crate::images::layer::{Layer, Source};
use crate::prelude::*;
use crate::wait::until;
use std::net::{SocketAddr, TcpStream};

/// How long the start of each part may take on a busy machine.
const STARTUP_DEADLINE: Duration = Duration::from_mins(2);

/// How long an attempt to reach the DNS may take: packets to a Service that no rule serves yet are lost.
const DNS_TIMEOUT: Duration = Duration::from_millis(500);

/// A node that is being started, or runs.
struct Node {
    layout: NodeLayout,
    namespaces: Namespaces,
    values: Values,
}

/// Nodes that are being started, and the cluster that they belong to.
struct Start<'a> {
    cluster: Kubernetes,
    options: &'a Options,
    nodes: Vec<Node>,
}

/// Starts everything; afterwards pods can be run, DNS answers and Services work. Where the nodes are
/// simulated, pods only appear to run.
pub(super) fn start(layout: &Layout, built: &Built, options: &Options) -> Result<Kubernetes> {
    let start = progress::step("namespaces, certificates and configuration", || {
        Start::prepare(layout, built, options)
    })?;
    start.start()?;
    Ok(start.cluster)
}

pub(super) fn restart(cluster: &Kubernetes, node: &NodeLayout, options: &Options) -> Result<()> {
    // Records of ended processes must not be taken for those of the new ones.
    cache::remove_tree(&node.processes())?;
    let first = Some(&cluster.namespaces);
    let nodes = vec![Node::make(node, &cluster.built, options, first)?];
    let start = Start { cluster: cluster.clone(), options, nodes };
    start.start_on_each("containerd")?;
    start.wait_for_containerd()?;
    start.start_on_each("kubelet")?;
    let health = format!("--raw=/api/v1/nodes/{}/proxy/healthz", node.name);
    let what = format!("the kubelet of {}", node.name);
    start.wait_for_kubectl(&what, &node.log("kubelet"), &["get", &health], "ok")?;
    start.wait_for_nodes()
}

/// Ends a program of a node, such as its kubelet. The pods go on.
pub(super) fn end_program(node: &NodeLayout, name: &str) -> Result<()> {
    let around = processes::recorded(&node.processes().join(name));
    let around = around.with_context(|| format!("{name} was not started"))?;
    if let Some(program) = around.child() {
        program.end()?;
    }
    around.end()
}

/// Starts a program that was ended, with the present configuration.
pub(super) fn start_program(
    built: &Built,
    node: &NodeLayout,
    options: &Options,
    name: &str,
) -> Result<()> {
    let namespaces = Namespaces::find(node).context("the node does not run")?;
    let values = Values::new(node, built, options)?;
    Node { layout: node.clone(), namespaces, values }.start(name)
}

impl Node {
    /// Makes a node in which nothing runs yet.
    fn make(
        node: &NodeLayout,
        built: &Built,
        options: &Options,
        first: Option<&Namespaces>,
    ) -> Result<Self> {
        let namespaces = Namespaces::create(node, &built.pause.join("pause"), options, first)
            .with_context(|| format!("making {}", node.name))?;
        let values = Values::new(node, built, options)?;
        Ok(Self { layout: node.clone(), namespaces, values })
    }

    fn start(&self, name: &str) -> Result<()> {
        let mut command = self.namespaces.enter(&["--mount", "--net", "--pid"]);
        command.args(self.values.command_line(name)?);
        if !self.values.is_measured {
            // Tests on a cluster keep the processors busy, and leave memory free.
            command.env("GOGC", "300");
        }
        processes::start_detached(&command, &self.layout.log(name))
            .and_then(|process| process.record(&self.layout.processes().join(name)))
            .with_context(|| format!("starting {name}"))
    }
}

impl<'a> Start<'a> {
    /// Makes all nodes and their configuration; nothing runs in them yet.
    fn prepare(layout: &Layout, built: &Built, options: &'a Options) -> Result<Self> {
        let mut nodes: Vec<Node> = Vec::new();
        for place in layout.places().iter().take(options.nodes.count()) {
            let first = nodes.first().map(|it| &it.namespaces);
            nodes.push(Node::make(place, built, options, first)?);
        }
        let layouts: Vec<_> = nodes.iter().map(|node| &node.layout).collect();
        certificates::write_all(&layouts, &options.network)?;
        for Node { layout, values, .. } in &nodes {
            for (name, content) in values.files(layout.has_control_plane()) {
                certificates::write(&layout.configuration().join(name), &content)?;
            }
        }
        let first = nodes.first().context("a cluster has a node")?;
        let pki = first.layout.certificates().display().to_string();
        certificates::write(&layout.kubeconfig, &first.values.kubeconfig("admin", &pki))?;
        let namespaces = first.namespaces.clone();
        let cluster = Kubernetes { layout: layout.clone(), namespaces, built: built.clone() };
        Ok(Self { cluster, options, nodes })
    }

    fn control_plane(&self) -> &Node {
        &self.nodes[0]
    }

    /// Starts the control plane, and all nodes or kwok, which simulates the nodes that somebody creates.
    fn start(&self) -> Result<()> {
        let is_real = self.options.nodes != Nodes::Simulated;
        let control_plane = self.control_plane();
        progress::step("etcd, API server and container runtimes", || {
            control_plane.start("etcd")?;
            control_plane.start("kube-apiserver")?;
            if is_real {
                self.start_on_each("containerd")?;
                self.wait_for_containerd()?;
                self.load_pause_image()?;
            }
            let log = control_plane.layout.log("kube-apiserver");
            self.wait_for_kubectl("the API server", &log, &["get", "--raw=/readyz"], "ok")
        })?;
        progress::step("controllers, scheduler, nodes and DNS", || {
            control_plane.start("kube-controller-manager")?;
            control_plane.start("kube-scheduler")?;
            if is_real {
                self.start_on_each("kubelet")?;
                self.apply_objects()?;
                control_plane.start("coredns")?;
                self.wait_for_nodes()?;
            } else {
                control_plane.start("kwok")?;
            }
            let what = "the default service account";
            let log = control_plane.layout.log("kube-controller-manager");
            let arguments = ["get", "serviceaccount", "default", "-oname"];
            self.wait_for_kubectl(what, &log, &arguments, "serviceaccount/")?;
            if is_real { self.wait_for_dns() } else { Ok(()) }
        })
    }

    fn start_on_each(&self, name: &str) -> Result<()> {
        self.nodes.iter().try_for_each(|node| node.start(name))
    }

    /// Starts what needs a node that has registered, and waits until all are ready.
    fn wait_for_nodes(&self) -> Result<()> {
        for node in &self.nodes {
            let name = &node.layout.name;
            let arguments = ["get", "node", name, "-oname"];
            let what = format!("{name} to register");
            self.wait_for_kubectl(&what, &node.layout.log("kubelet"), &arguments, "node/")?;
            node.start("kube-proxy")?;
        }
        for Node { layout, .. } in &self.nodes {
            let condition = r#"-ojsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
            let arguments = ["get", "node", &layout.name, condition];
            let what = format!("{} to be ready", layout.name);
            self.wait_for_kubectl(&what, &layout.log("kubelet"), &arguments, "True")?;
        }
        Ok(())
    }

    /// Waits until `attempt` succeeds; fails when one of the nodes' programs has ended.
    fn wait(&self, what: &str, log: &Path, mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
        until(what, STARTUP_DEADLINE, || {
            self.check_alive()?;
            Ok(attempt())
        })
        .with_context(|| format!("{}:\n{}", log.display(), programs::tail(log, 15)))
    }

    fn check_alive(&self) -> Result<()> {
        for node in self.nodes.iter().map(|node| &node.layout) {
            for (name, process) in processes::all_recorded(&node.processes()) {
                if !process.is_alive() {
                    let tail = programs::tail(&node.log(&name), 15);
                    bail!("{name} of {} has ended:\n{tail}", node.name);
                }
            }
        }
        Ok(())
    }

    /// Waits until the output of kubectl begins with `expected`.
    fn wait_for_kubectl(
        &self,
        what: &str,
        log: &Path,
        arguments: &[&str],
        expected: &str,
    ) -> Result<()> {
        self.wait(what, log, || {
            let mut kubectl = self.cluster.kubectl(arguments);
            let output = programs::run(kubectl.arg("--request-timeout=5s"))?;
            let answer = String::from_utf8_lossy(&output.stdout);
            ensure!(answer.starts_with(expected), "{answer:?}");
            Ok(())
        })
    }

    fn wait_for_containerd(&self) -> Result<()> {
        self.nodes.iter().try_for_each(|Node { layout: node, .. }| {
            self.wait(&format!("containerd of {}", node.name), &node.log("containerd"), || {
                programs::run(self.cluster.ctr(node).arg("version")).map(drop)
            })
        })
    }

    fn load_pause_image(&self) -> Result<()> {
        let directory = tempfile::tempdir().context("making a directory for the pause image")?;
        let program = self.cluster.built.pause.join("pause");
        let layer = Layer::from_sources(directory.path(), &[Source::file("pause", &program)])?;
        let config =
            ImageConfig { entrypoint: vec!["/pause".to_owned()], ..ImageConfig::default() };
        self.cluster.load_image(&Image::new(vec![layer], config), &[PAUSE_IMAGE])
    }

    fn apply_objects(&self) -> Result<()> {
        let objects = self.control_plane().values.fill(OBJECTS);
        let log = self.control_plane().layout.log("kube-apiserver");
        // The API server creates their namespace a moment after it is ready.
        self.wait("the objects of DNS and kubelet", &log, || {
            let arguments = ["apply", "--server-side", "--validate=false", "-f", "-"];
            programs::run_with_input(&mut self.cluster.kubectl(arguments), objects.as_bytes())
                .map(drop)
        })
    }

    fn wait_for_dns(&self) -> Result<()> {
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                self.control_plane().namespaces.enter_network()?;
                let log = self.control_plane().layout.log("coredns");
                let address = SocketAddr::new(self.options.network.addresses().dns.parse()?, 53);
                // It listens when it knows the Services.
                let connect = || Ok(TcpStream::connect_timeout(&address, DNS_TIMEOUT).map(drop)?);
                self.wait("the cluster's DNS to listen", &log, connect)
            });
            asking.join().unwrap_or_else(|_| bail!("asking the cluster's DNS panicked"))
        })
    }
}
