//! The namespaces a node lives in: mounts, network and process ids of its own.
//!
//! A program that does nothing holds them. It is the first process of its process id namespace: when it is killed, the
//! kernel ends every process of the node, containers included, and then removes all mounts, network devices and
//! firewall rules. So `down` need not remove them one by one.
//!
//! A node's network card is the device `node0`. The first node's is a bridge, into which the cards of the others
//! are plugged.

use super::layout::NodeLayout;
use super::network::{Addresses, Network};
use super::options::{Nodes, Options};
use super::processes::{self, Process};
use crate::prelude::*;
use crate::wait::until;
use nix::sched::{CloneFlags, setns};

/// The script that makes a node's directories, control groups and mounts; it describes its variables.
const SET_UP: &str = include_str!("files/node.sh");

const DISK_SIZE: &str = "64G";

/// The namespaces of a running node.
#[derive(Debug, Clone)]
pub(crate) struct Namespaces {
    holder: Process,
}

impl Namespaces {
    /// Makes them, with the node's control groups, mounts and network. If the node's directories exist, it starts like a
    /// machine that was switched off. `first` are the namespaces of the first node; the first node itself has none.
    pub(crate) fn create(
        node: &NodeLayout,
        pause: &Path,
        options: &Options,
        first: Option<&Self>,
    ) -> Result<Self> {
        for directory in [node.state.join("log"), node.processes()] {
            fs::create_dir_all(directory)?;
        }
        let namespaces = Self::hold(node, pause)?;
        let disk = if options.nodes == Nodes::RealWithDisk { DISK_SIZE } else { "" };
        let mut shell = namespaces.enter(&["--mount", "--pid"]);
        set_up(shell.arg("sh"), node, &options.cache, disk)?;
        if let Some(first) = first {
            // The kernel removes the port of a node that was lost some time after its end. Mostly there is none.
            let _ = first.ip(&format!("link delete {}\n", node.name));
            first.ip(&plug_plan(&node.name, namespaces.holder.pid))?;
        }
        let plan = network_plan(node.position, options.nodes.count(), &options.network);
        namespaces.ip(&plan)?;
        Ok(namespaces)
    }

    fn hold(node: &NodeLayout, pause: &Path) -> Result<Self> {
        let log = node.log("namespaces");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--pid", "--fork", "--mount-proc"]);
        // The holder ignores its argument; `holds` reads it.
        command.args(["--propagation=private", "--"]).arg(pause).arg(&node.state);
        let unshare = processes::start_detached(&command, &log)?;
        // Once it runs the namespaces are complete, because unshare starts it last.
        until("the node's namespaces", Duration::from_secs(20), || {
            let held = Self::find(node);
            anyhow::ensure!(
                held.is_some() || unshare.is_alive(),
                "making the node's namespaces failed: {}",
                programs::tail(&log, 5)
            );
            Ok(held.context("no holder yet"))
        })
    }

    fn ip(&self, commands: &str) -> Result<()> {
        let mut ip = self.enter(&["--net"]);
        programs::run_with_input(ip.args(["ip", "-batch", "-"]), commands.as_bytes())
            .context("setting up a node's network")?;
        Ok(())
    }

    /// Takes down the port for the card of `node`, or brings it up again.
    pub(crate) fn set_port(&self, node: &NodeLayout, up: bool) -> Result<()> {
        let state = if up { "up" } else { "down" };
        self.ip(&format!("link set {} {state}\n", node.name))
    }

    /// Lays a line between these, of a first node with `own` addresses, and those of a first node with `far` ones; node
    /// and pods at each end reach those at the other.
    pub(crate) fn link(&self, own: &Addresses, other: &Self, far: &Addresses) -> Result<()> {
        self.ip(&format!("link add line0 type veth peer name line0 netns {}\n", other.holder.pid))?;
        // A route leads to a line that is up at both ends.
        for end in [self, other] {
            end.ip("link set line0 up\n")?;
        }
        self.ip(&route_plan(far))?;
        other.ip(&route_plan(own))
    }

    /// Those of a node that was started earlier, if they are still there.
    pub(crate) fn find(node: &NodeLayout) -> Option<Self> {
        let holders = processes::with_command_line(|words| words.len() == 2 && holds(words, node));
        holders.into_iter().next().map(|holder| Self { holder })
    }

    /// Ends every process in the namespaces, remembered or not.
    pub(crate) fn end(node: &NodeLayout) -> Result<()> {
        let holders = processes::with_command_line(|words| holds(words, node));
        holders.iter().try_for_each(Process::end)?;
        // Programs that were started in the namespaces from outside wait for the processes that have just ended.
        let around = processes::all_recorded(&node.processes());
        around.values().try_for_each(Process::end)
    }

    /// A command that runs what is appended in these of the namespaces; `--pid` makes nsenter wait for it.
    pub(crate) fn enter(&self, namespaces: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.holder.pid)).args(namespaces).arg("--");
        command
    }

    /// Moves the calling thread, and what it starts from now on, into the node's network.
    pub(crate) fn enter_network(&self) -> Result<()> {
        let file = File::open(format!("/proc/{}/ns/net", self.holder.pid))?.into_file();
        setns(file, CloneFlags::CLONE_NEWNET).context("entering the node's network")
    }
}

/// Whether this is the command line of the program that holds the node's namespaces, or of the program that starts it. So
/// both are found even if this harness was killed before it recorded them.
fn holds(words: &[String], node: &NodeLayout) -> bool {
    let [.., program, argument] = words else { return false };
    program.ends_with("/pause") && Path::new(argument) == node.state
}

fn set_up(shell: &mut Command, node: &NodeLayout, cache: &Cache, disk: &str) -> Result<()> {
    let of_cluster =
        Path::new(&node.control_group).parent().context("a node's group is in another")?;
    shell
        .arg("-eu")
        .env("STATE", &node.state)
        .env("BUILT", cache.built())
        .env("CLUSTER_GROUP", of_cluster)
        .env("NODE_GROUP", &node.control_group)
        .env("DISK", disk);
    programs::run_with_input(shell, SET_UP.as_bytes())
        .map(drop)
        .context("making the node's directories, control groups and mounts")
}

/// Commands for `ip -batch` in the network of a node at this position of so many. The first node's card is a
/// bridge, also where nothing is plugged in: there is a kernel without dummy devices. Those of others are there.
///
/// No other host can have the same address, so the kernel need not check that (`nodad`).
fn network_plan(position: usize, nodes: usize, network: &Network) -> String {
    let mut plan = vec!["link set lo up".to_owned()];
    if position == 0 {
        plan.push("link add node0 type bridge".to_owned());
    }
    let Addresses { nodes: addresses, node_prefix, gateway, node_pods, .. } = network.addresses();
    let own = addresses[position];
    let option = if own.contains(':') { " nodad" } else { "" };
    plan.push(format!("address add {own}/{node_prefix} dev node0{option}"));
    plan.push("link set node0 up".to_owned());
    plan.push(format!("route add default via {gateway} dev node0 onlink"));
    for other in (0..nodes).filter(|other| *other != position) {
        plan.push(format!("route add {} via {} dev node0", node_pods[other], addresses[other]));
    }
    plan.join("\n") + "\n"
}

/// Commands for `ip -batch` which make the routes over a line to the first of the nodes with these addresses.
fn route_plan(Addresses { nodes, node_pods, .. }: &Addresses) -> String {
    let (node, pods) = (nodes[0], node_pods[0]);
    format!("route add {node} dev line0\nroute add {pods} via {node} dev line0 onlink\n")
}

/// Commands for `ip -batch` in the network of the first node, which make the card of another, whose namespaces
/// this process holds, and plug it in under the node's name.
fn plug_plan(name: &str, holder: i32) -> String {
    format!(
        "link add {name} type veth peer name node0 netns {holder}\n\
         link set {name} master node0\n\
         link set {name} up\n"
    )
}
