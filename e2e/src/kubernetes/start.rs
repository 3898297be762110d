//! Starts a node step by step, each step waiting for what it needs.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, bail};

use super::{
    build::Built,
    certificates::{self, NODE_NAME},
    components::{self, Component},
    configuration::{self, PAUSE_IMAGE},
    control_groups, dns,
    layout::Layout,
    namespaces::Namespaces,
    network::Network,
    options::{Nodes, Options},
    processes::{self, Process},
};
use crate::{
    images::{
        image::{Image, ImageConfig},
        layer::{Layer, Source},
        names::full_name,
    },
    programs,
    progress::Progress,
    wait::{Look, until},
};

/// How long each of the node's parts may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(2);

/// A node that is being started.
struct Node<'a> {
    layout: &'a Layout,
    built: &'a Built,
    namespaces: Namespaces,
    network: &'a Network,
}

/// Starts everything; afterwards pods can be run, DNS answers and Services work. Where the nodes are
/// simulated, pods are only said to run.
pub(super) fn start(
    layout: &Layout,
    built: &Built,
    options: &Options,
    progress: &Progress,
) -> Result<Namespaces> {
    fs::create_dir_all(layout.state())
        .with_context(|| format!("making {}", layout.state().display()))?;
    let network = &options.network;
    let node = progress.step("namespaces, certificates and configuration", || {
        control_groups::create(layout)?;
        let pause = built.pause.join("pause");
        let namespaces = Namespaces::create(layout, &pause, options)?;
        write_configuration(layout, built, network)?;
        Ok(Node { layout, built, namespaces, network })
    })?;
    match options.nodes {
        Nodes::Real | Nodes::RealWithDisk => node.start_one(progress)?,
        Nodes::Simulated => node.start_simulation(progress)?,
    }
    Ok(node.namespaces)
}

fn write_configuration(layout: &Layout, built: &Built, network: &Network) -> Result<()> {
    let directory = layout.configuration();
    let pki = directory.join("pki");
    certificates::write_all(&pki, network)?;
    for file in configuration::files(layout.control_group(), built, network) {
        write(&directory.join(file.path), &file.content)?;
    }
    let pki = pki.display().to_string();
    write(&layout.kubeconfig(), &configuration::kubeconfig("admin", &pki, network))
}

fn write(path: &Path, content: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    }
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}

/// `ctr` for the images that the kubelet sees.
pub(super) fn ctr(layout: &Layout, built: &Built) -> Command {
    let mut command = Command::new(built.containerd.join("ctr"));
    command.arg("--address").arg(layout.containerd_socket()).arg("--namespace=k8s.io");
    command
}

/// Makes the image known to the node under all these names, and under one that is its content's alone.
pub(super) fn load_image(
    layout: &Layout,
    built: &Built,
    image: &Image,
    names: &[&str],
) -> Result<()> {
    let content_name = image.content_name();
    let filter = format!("name=={content_name}");
    let listed = programs::run(ctr(layout, built).args(["images", "list", "--quiet", &filter]))
        .context("listing the node's images")?;
    if listed.stdout.is_empty() {
        programs::feed(ctr(layout, built).args(["images", "import", "--local", "-"]), |stdin| {
            image.write_archive(&[&content_name], stdin)
        })
        .with_context(|| format!("loading the image {}", names.join(", ")))?;
    }
    for name in names.iter().filter(|name| **name != content_name) {
        let name = full_name(name);
        programs::run(ctr(layout, built).args(["images", "tag", "--force", &content_name, &name]))
            .with_context(|| format!("naming an image {name}"))?;
    }
    Ok(())
}

impl Node<'_> {
    /// The control plane and one node.
    fn start_one(&self, progress: &Progress) -> Result<()> {
        progress.step("etcd, API server and containerd", || {
            self.start_all(components::foundation(self.built, self.network))?;
            self.wait_for_containerd()?;
            self.load_pause_image()?;
            self.wait_for_api_server()
        })?;
        progress.step("controllers, scheduler, kubelet and DNS", || {
            self.start_all(components::controllers(self.built, self.network))?;
            self.apply_objects()?;
            self.start_all(vec![components::coredns(self.built)])?;
            self.wait_for_kubectl(
                "the node to register",
                "kubelet",
                &["get", "node", NODE_NAME, "-oname"],
                "node/",
            )?;
            self.start_all(vec![components::proxy(self.built, self.network)])?;
            let condition = r#"-ojsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
            self.wait_for_kubectl(
                "the node to be ready",
                "kubelet",
                &["get", "node", NODE_NAME, condition],
                "True",
            )?;
            self.wait_for_service_account()?;
            self.wait_for_dns()
        })
    }

    /// The control plane, and kwok, which plays the nodes that somebody makes.
    fn start_simulation(&self, progress: &Progress) -> Result<()> {
        progress.step("etcd and API server", || {
            self.start_all(components::storage_and_api(self.built, self.network))?;
            self.wait_for_api_server()
        })?;
        progress.step("controllers, scheduler and kwok", || {
            self.start_all(components::simulation(self.built, self.network)?)?;
            self.wait_for_service_account()
        })
    }

    fn wait_for_api_server(&self) -> Result<()> {
        self.wait_for_kubectl("the API server", "kube-apiserver", &["get", "--raw=/readyz"], "ok")
    }

    fn wait_for_service_account(&self) -> Result<()> {
        self.wait_for_kubectl(
            "the default service account",
            "kube-controller-manager",
            &["get", "serviceaccount", "default", "-oname"],
            "serviceaccount/",
        )
    }

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

    /// Looks until it is ready or one of the node's programs has died.
    fn wait(
        &self,
        what: &str,
        component: &str,
        mut look: impl FnMut() -> Result<(), String>,
    ) -> Result<()> {
        until(what, PATIENCE, || {
            self.check_alive()?;
            Ok(look().map_or_else(Look::NotYet, Look::Ready))
        })
        .with_context(|| {
            let log = self.layout.log(component);
            format!("{}:\n{}", log.display(), programs::tail(&log, 15))
        })
    }

    fn check_alive(&self) -> Result<()> {
        let is_dead = |(_, process): &(String, Process)| !process.is_alive();
        let dead = processes::all_recorded(&self.layout.processes()).into_iter().find(is_dead);
        if let Some((name, _)) = dead {
            bail!("{name} has ended:\n{}", programs::tail(&self.layout.log(&name), 15));
        }
        Ok(())
    }

    fn kubectl(&self) -> Command {
        let mut command = self.namespaces.enter(&["--net"]);
        command.arg(self.built.kubernetes.join("kubectl"));
        command.arg("--kubeconfig").arg(self.layout.kubeconfig());
        command
    }

    /// Waits until what kubectl says begins with `expected`.
    fn wait_for_kubectl(
        &self,
        what: &str,
        component: &str,
        arguments: &[&str],
        expected: &str,
    ) -> Result<()> {
        self.wait(what, component, || {
            let output = programs::run(self.kubectl().arg("--request-timeout=5s").args(arguments))
                .map_err(|error| format!("{error:#}"))?;
            let said = String::from_utf8_lossy(&output.stdout);
            if said.starts_with(expected) { Ok(()) } else { Err(format!("{said:?}")) }
        })
    }

    fn wait_for_containerd(&self) -> Result<()> {
        self.wait("containerd", "containerd", || {
            programs::run(ctr(self.layout, self.built).arg("version"))
                .map(drop)
                .map_err(|error| format!("{error:#}"))
        })
    }

    fn load_pause_image(&self) -> Result<()> {
        let directory = tempfile::tempdir().context("making a directory for the pause image")?;
        let program = self.built.pause.join("pause");
        let layer = Layer::from_sources(directory.path(), &[Source::file("pause", &program)])?;
        let config =
            ImageConfig { entrypoint: vec!["/pause".to_owned()], ..ImageConfig::default() };
        load_image(self.layout, self.built, &Image::new(vec![layer], config), &[PAUSE_IMAGE])?;
        Ok(())
    }

    fn apply_objects(&self) -> Result<()> {
        let objects = configuration::objects(self.network);
        // The namespace they go into is made a moment after the API server is ready.
        self.wait("the objects of DNS and kubelet", "kube-apiserver", || {
            let arguments = ["apply", "--server-side", "--validate=false", "-f", "-"];
            programs::run_with_input(self.kubectl().args(arguments), objects.as_bytes())
                .map(drop)
                .map_err(|error| format!("{error:#}"))
        })
    }

    fn wait_for_dns(&self) -> Result<()> {
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                self.namespaces.enter_network()?;
                let ask = || dns::ask(self.network).map_err(|error| format!("{error:#}"));
                self.wait("the cluster's DNS to answer", "coredns", ask)
            });
            asking.join().unwrap_or_else(|_| bail!("asking the cluster's DNS panicked"))
        })
    }
}
