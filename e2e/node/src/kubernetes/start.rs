//! Starts a cluster and its nodes step by step, each step waiting for what it needs.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, bail};

use super::{
    built::Built,
    certificates,
    components::{self, Component},
    configuration::{self, ConfigurationFile, PAUSE_IMAGE},
    control_groups, dns,
    layout::{Layout, NodeLayout},
    namespaces::Namespaces,
    options::{ContainerRuntime, Nodes, Options},
    processes::{self, Process},
};
use crate::{
    cache,
    images::{
        image::{Image, ImageConfig},
        layer::{Layer, Source},
        names::full_name,
    },
    programs,
    progress::Progress,
    wait::{Look, until},
};

/// How long each of the parts may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(2);

/// A node that is being started, or runs.
#[derive(Clone)]
struct Node<'a> {
    layout: NodeLayout,
    namespaces: Namespaces,
    runtime: ContainerRuntime,
    /// The directory of that.
    containerd: &'a Path,
}

/// Nodes that are being started, and what they belong to.
struct Start<'a> {
    layout: &'a Layout,
    built: &'a Built,
    options: &'a Options,
    /// The first node, which may run already.
    control_plane: Node<'a>,
    nodes: Vec<Node<'a>>,
}

/// Starts everything; afterwards pods can be run, DNS answers and Services work. Where the nodes are
/// simulated, pods are only said to run. Returns the namespaces of the first node.
pub(super) fn start(
    layout: &Layout,
    built: &Built,
    options: &Options,
    progress: &Progress,
) -> Result<Namespaces> {
    fs::create_dir_all(layout.state())
        .with_context(|| format!("making {}", layout.state().display()))?;
    let start = progress.step("namespaces, certificates and configuration", || {
        let start = Start::prepare(layout, built, options)?;
        start.write_configuration()?;
        let pki = start.control_plane.layout.certificates().display().to_string();
        let kubeconfig = configuration::kubeconfig("admin", &pki, &options.network);
        write(&layout.kubeconfig(), &kubeconfig)?;
        Ok(start)
    })?;
    match options.nodes {
        Nodes::Real(_) | Nodes::RealWithDisk => start.start_real(progress)?,
        Nodes::Simulated => start.start_simulation(progress)?,
    }
    Ok(start.control_plane.namespaces)
}

/// Starts a node again whose processes have all ended; the first one's namespaces are `first`.
pub(super) fn start_again(
    layout: &Layout,
    node: &NodeLayout,
    first: &Namespaces,
    built: &Built,
    options: &Options,
) -> Result<()> {
    // What has ended is not to be taken for what is being started.
    cache::remove_tree(&node.processes())?;
    let control_plane = Node {
        layout: layout.first(),
        namespaces: first.clone(),
        runtime: ContainerRuntime::Newest,
        containerd: &built.containerd,
    };
    let node = make_node(layout, node, built, options, Some(first))?;
    let start = Start { layout, built, options, control_plane, nodes: vec![node] };
    start.start_containerd()?;
    start.wait_for_containerd()?;
    start.start_kubelets()?;
    for node in &start.nodes {
        let name = node.layout.name();
        let health = format!("--raw=/api/v1/nodes/{name}/proxy/healthz");
        let what = format!("the kubelet of {name}");
        start.wait_for_kubectl(&what, &node.layout.log("kubelet"), &["get", &health], "ok")?;
    }
    start.wait_for_nodes()
}

/// Ends the kubelet of a node, and starts it with the configuration that there is now. The pods go on.
pub(super) fn start_kubelet_again(
    node: &NodeLayout,
    built: &Built,
    options: &Options,
) -> Result<()> {
    let around = processes::recorded(&node.processes().join("kubelet"));
    let around = around.context("no kubelet was started")?;
    if let Some(kubelet) = around.child() {
        kubelet.end()?;
    }
    around.end()?;
    let namespaces = Namespaces::find(node).context("the node does not run")?;
    let runtime = runtime_of(node, options)?;
    let containerd = built.runtime(runtime)?;
    let node = Node { layout: node.clone(), namespaces, runtime, containerd };
    node.start_all(vec![components::kubelet(&node.layout, built, &options.network)])
}

fn runtime_of(node: &NodeLayout, options: &Options) -> Result<ContainerRuntime> {
    let runtimes = options.nodes.runtimes();
    runtimes.get(node.position()).copied().context("the cluster has fewer nodes")
}

/// Makes a node in which nothing runs yet.
fn make_node<'a>(
    layout: &Layout,
    node: &NodeLayout,
    built: &'a Built,
    options: &Options,
    first: Option<&Namespaces>,
) -> Result<Node<'a>> {
    let runtime = runtime_of(node, options)?;
    control_groups::create(layout, node)?;
    let namespaces = Namespaces::create(node, &built.pause.join("pause"), options, first)
        .with_context(|| format!("making {}", node.name()))?;
    let containerd = built.runtime(runtime)?;
    Ok(Node { layout: node.clone(), namespaces, runtime, containerd })
}

fn write(path: &Path, content: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    }
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}

/// `ctr` for the images that the kubelet of this node sees.
pub(super) fn ctr(node: &NodeLayout, built: &Built) -> Command {
    let mut command = Command::new(built.containerd.join("ctr"));
    command.arg("--address").arg(node.containerd_socket()).arg("--namespace=k8s.io");
    command
}

/// Makes the image known to the node under all these names, and under one that is its content's alone.
pub(super) fn load_image(
    node: &NodeLayout,
    built: &Built,
    image: &Image,
    names: &[&str],
) -> Result<()> {
    let content_name = image.content_name();
    let filter = format!("name=={content_name}");
    let listed = programs::run(ctr(node, built).args(["images", "list", "--quiet", &filter]))
        .context("listing the node's images")?;
    if listed.stdout.is_empty() {
        programs::feed(ctr(node, built).args(["images", "import", "--local", "-"]), |stdin| {
            image.write_archive(&[&content_name], stdin)
        })
        .with_context(|| format!("loading the image {}", names.join(", ")))?;
    }
    for name in names.iter().filter(|name| **name != content_name) {
        let name = full_name(name);
        programs::run(ctr(node, built).args(["images", "tag", "--force", &content_name, &name]))
            .with_context(|| format!("naming an image {name}"))?;
    }
    Ok(())
}

impl Node<'_> {
    fn start_all(&self, components: Vec<Component>) -> Result<()> {
        for component in components {
            let mut arguments = self.namespaces.enter_arguments(&["--mount", "--net", "--pid"]);
            arguments.push(component.program);
            arguments.extend(component.arguments);
            let log = self.layout.log(component.name);
            processes::start_detached(Path::new("nsenter"), &arguments, &log)
                .and_then(|process| process.record(&self.layout.processes().join(component.name)))
                .with_context(|| format!("starting {}", component.name))?;
        }
        Ok(())
    }
}

impl<'a> Start<'a> {
    /// Makes all nodes; nothing runs in them yet.
    fn prepare(layout: &'a Layout, built: &'a Built, options: &'a Options) -> Result<Self> {
        let mut nodes: Vec<Node<'a>> = Vec::new();
        for place in layout.places().iter().take(options.nodes.count()) {
            let first = nodes.first().map(|it| &it.namespaces);
            nodes.push(make_node(layout, place, built, options, first)?);
        }
        let control_plane = nodes.first().context("a cluster has a node")?.clone();
        Ok(Self { layout, built, options, control_plane, nodes })
    }

    fn write_configuration(&self) -> Result<()> {
        let layouts: Vec<_> = self.nodes.iter().map(|node| node.layout.clone()).collect();
        let network = &self.options.network;
        certificates::write_all(&layouts, network)?;
        let write_files = |node: &NodeLayout, files: Vec<ConfigurationFile>| {
            files.iter().try_for_each(|it| write(&node.configuration().join(&it.path), &it.content))
        };
        let control_plane = configuration::of_control_plane(network);
        write_files(&self.control_plane.layout, control_plane)?;
        for node in &self.nodes {
            let (count, runtime) = (self.nodes.len(), node.runtime);
            let files = configuration::of_node(&node.layout, count, runtime, self.built, network)?;
            write_files(&node.layout, files)?;
        }
        Ok(())
    }

    /// The control plane and all nodes.
    fn start_real(&self, progress: &Progress) -> Result<()> {
        let network = &self.options.network;
        progress.step("etcd, API server and containerd", || {
            self.control_plane.start_all(components::storage_and_api(self.built, network))?;
            self.start_containerd()?;
            self.wait_for_containerd()?;
            self.load_pause_image()?;
            self.wait_for_api_server()
        })?;
        progress.step("controllers, scheduler, kubelet and DNS", || {
            let controllers = components::controllers(self.built, self.nodes.len());
            self.control_plane.start_all(controllers)?;
            self.start_kubelets()?;
            self.apply_objects()?;
            self.control_plane.start_all(vec![components::coredns(self.built)])?;
            self.wait_for_nodes()?;
            self.wait_for_service_account()?;
            self.wait_for_dns()
        })
    }

    fn start_containerd(&self) -> Result<()> {
        let mut nodes = self.nodes.iter();
        nodes.try_for_each(|node| node.start_all(vec![components::containerd(node.containerd)]))
    }

    fn start_kubelets(&self) -> Result<()> {
        let network = &self.options.network;
        let kubelet = |node: &Node<'_>| components::kubelet(&node.layout, self.built, network);
        self.nodes.iter().try_for_each(|node| node.start_all(vec![kubelet(node)]))
    }

    /// Starts what needs a node that is known to the API server, and waits until all are ready.
    fn wait_for_nodes(&self) -> Result<()> {
        for node in &self.nodes {
            let name = node.layout.name();
            let arguments = ["get", "node", name, "-oname"];
            let what = format!("{name} to register");
            self.wait_for_kubectl(&what, &node.layout.log("kubelet"), &arguments, "node/")?;
            let proxy = components::proxy(&node.layout, self.built, &self.options.network);
            node.start_all(vec![proxy])?;
        }
        for node in &self.nodes {
            let name = node.layout.name();
            let condition = r#"-ojsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
            let arguments = ["get", "node", name, condition];
            let what = format!("{name} to be ready");
            self.wait_for_kubectl(&what, &node.layout.log("kubelet"), &arguments, "True")?;
        }
        Ok(())
    }

    /// The control plane, and kwok, which plays the nodes that somebody makes.
    fn start_simulation(&self, progress: &Progress) -> Result<()> {
        let network = &self.options.network;
        progress.step("etcd and API server", || {
            self.control_plane.start_all(components::storage_and_api(self.built, network))?;
            self.wait_for_api_server()
        })?;
        progress.step("controllers, scheduler and kwok", || {
            self.control_plane.start_all(components::simulation(self.built, network)?)?;
            self.wait_for_service_account()
        })
    }

    fn wait_for_api_server(&self) -> Result<()> {
        let log = self.control_plane.layout.log("kube-apiserver");
        self.wait_for_kubectl("the API server", &log, &["get", "--raw=/readyz"], "ok")
    }

    fn wait_for_service_account(&self) -> Result<()> {
        let log = self.control_plane.layout.log("kube-controller-manager");
        let arguments = ["get", "serviceaccount", "default", "-oname"];
        let what = "the default service account";
        self.wait_for_kubectl(what, &log, &arguments, "serviceaccount/")
    }

    /// Looks until it is ready or one of the nodes' programs has died.
    fn wait(
        &self,
        what: &str,
        log: &Path,
        mut look: impl FnMut() -> Result<(), String>,
    ) -> Result<()> {
        until(what, PATIENCE, || {
            self.check_alive()?;
            Ok(look().map_or_else(Look::NotYet, Look::Ready))
        })
        .with_context(|| format!("{}:\n{}", log.display(), programs::tail(log, 15)))
    }

    fn check_alive(&self) -> Result<()> {
        for node in self.nodes.iter().map(|node| &node.layout) {
            let is_dead = |(_, process): &(String, Process)| !process.is_alive();
            let dead = processes::all_recorded(&node.processes()).into_iter().find(is_dead);
            if let Some((name, _)) = dead {
                let said = programs::tail(&node.log(&name), 15);
                bail!("{name} of {} has ended:\n{said}", node.name());
            }
        }
        Ok(())
    }

    fn kubectl(&self) -> Command {
        let mut command = self.control_plane.namespaces.enter(&["--net"]);
        command.arg(self.built.kubernetes.join("kubectl"));
        command.arg("--kubeconfig").arg(self.layout.kubeconfig());
        command
    }

    /// Waits until what kubectl says begins with `expected`.
    fn wait_for_kubectl(
        &self,
        what: &str,
        log: &Path,
        arguments: &[&str],
        expected: &str,
    ) -> Result<()> {
        self.wait(what, log, || {
            let output = programs::run(self.kubectl().arg("--request-timeout=5s").args(arguments))
                .map_err(|error| format!("{error:#}"))?;
            let said = String::from_utf8_lossy(&output.stdout);
            if said.starts_with(expected) { Ok(()) } else { Err(format!("{said:?}")) }
        })
    }

    fn wait_for_containerd(&self) -> Result<()> {
        self.nodes.iter().map(|node| &node.layout).try_for_each(|node| {
            self.wait(&format!("containerd of {}", node.name()), &node.log("containerd"), || {
                programs::run(ctr(node, self.built).arg("version"))
                    .map(drop)
                    .map_err(|error| format!("{error:#}"))
            })
        })
    }

    fn load_pause_image(&self) -> Result<()> {
        let directory = tempfile::tempdir().context("making a directory for the pause image")?;
        let program = self.built.pause.join("pause");
        let layer = Layer::from_sources(directory.path(), &[Source::file("pause", &program)])?;
        let config =
            ImageConfig { entrypoint: vec!["/pause".to_owned()], ..ImageConfig::default() };
        let image = Image::new(vec![layer], config);
        let mut nodes = self.nodes.iter();
        nodes.try_for_each(|node| load_image(&node.layout, self.built, &image, &[PAUSE_IMAGE]))
    }

    fn apply_objects(&self) -> Result<()> {
        let objects = configuration::objects(&self.options.network);
        let log = self.control_plane.layout.log("kube-apiserver");
        // The namespace they go into is made a moment after the API server is ready.
        self.wait("the objects of DNS and kubelet", &log, || {
            let arguments = ["apply", "--server-side", "--validate=false", "-f", "-"];
            programs::run_with_input(self.kubectl().args(arguments), objects.as_bytes())
                .map(drop)
                .map_err(|error| format!("{error:#}"))
        })
    }

    fn wait_for_dns(&self) -> Result<()> {
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                self.control_plane.namespaces.enter_network()?;
                let network = &self.options.network;
                let ask = || dns::ask(network).map_err(|error| format!("{error:#}"));
                let log = self.control_plane.layout.log("coredns");
                self.wait("the cluster's DNS to answer", &log, ask)
            });
            asking.join().unwrap_or_else(|_| bail!("asking the cluster's DNS panicked"))
        })
    }
}
