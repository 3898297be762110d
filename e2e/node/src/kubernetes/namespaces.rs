//! The namespaces a node lives in: mounts, network and process ids of its own.
//!
//! A program that does nothing holds them. It is the first process of its process id namespace, so when it
//! is killed the kernel ends every process of the node with it, containers included, and with the last
//! process go all mounts, all network devices and all firewall rules. Nothing has to be taken back one by one.
//!
//! A node's network card is the device `node0`. The first node's is a bridge, into which the cards of the others
//! are plugged.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};
use nix::sched::{CloneFlags, setns};

use super::{
    layout::{NodeLayout, inside},
    network::{Addresses, Network},
    options::{Nodes, Options},
    processes::{self, Process},
};
use crate::{
    cache, programs,
    wait::{Look, until},
};

/// Kernel settings which the kubelet tunes and no namespace separates, with the values it wants
/// (`setupKernelTunables` in `pkg/kubelet/cm/container_manager_linux.go`). Files stand in for them, so that
/// the machine keeps its own.
const KERNEL_SETTINGS: &[(&str, &str)] = &[
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Bytes that a node's own disk may hold.
const DISK_SIZE: u64 = 64 << 30;

/// Where the holder of the namespaces is remembered, among the other processes.
const HOLDER: &str = "namespaces";

/// The namespaces of a running node.
#[derive(Debug, Clone)]
pub(crate) struct Namespaces {
    holder: Process,
}

impl Namespaces {
    /// Makes them, with the node's mounts and network. The node's own directories may be there: then it starts
    /// as a machine that was switched off. `first` are those of the first node, for all others.
    pub(crate) fn create(
        node: &NodeLayout,
        pause: &Path,
        options: &Options,
        first: Option<&Self>,
    ) -> Result<Self> {
        prepare_directories(node)?;
        if options.nodes == Nodes::RealWithDisk {
            make_disk(&node.disk())?;
        }
        let namespaces = Self::hold(node, pause)?;
        for arguments in mount_plan(node, options, Path::exists) {
            programs::run(namespaces.enter(&["--mount"]).arg("mount").args(&arguments))
                .context("making the node's mounts")?;
        }
        if let Some(first) = first {
            first.ip(&plug_plan(node.name(), namespaces.holder.pid()))?;
        }
        let plan = network_plan(node.position(), options.nodes.count(), &options.network);
        namespaces.ip(&plan)?;
        Ok(namespaces)
    }

    /// Starts the program that holds them.
    fn hold(node: &NodeLayout, pause: &Path) -> Result<Self> {
        let arguments = holder_arguments(pause, node.state());
        let log = node.log(HOLDER);
        let unshare = processes::start_detached(Path::new("unshare"), &arguments, &log)?;
        let holder = until("the node's namespaces", Duration::from_secs(20), || {
            anyhow::ensure!(
                unshare.is_alive(),
                "making the node's namespaces failed: {}",
                programs::tail(&log, 5)
            );
            // It shows that the namespaces are complete: unshare starts it last.
            let held = unshare.child().filter(|child| runs(child, pause));
            Ok(held.map_or_else(|| Look::NotYet("no holder yet".into()), Look::Ready))
        })?;
        holder.record(&node.processes().join(HOLDER))?;
        Ok(Self { holder })
    }

    /// Runs commands of `ip` in the node's network.
    fn ip(&self, commands: &str) -> Result<()> {
        let mut ip = self.enter(&["--net"]);
        programs::run_with_input(ip.args(["ip", "-batch", "-"]), commands.as_bytes())
            .context("setting up a node's network")?;
        Ok(())
    }

    /// Takes the port down into which the card of `node` is plugged here, or up again.
    pub(crate) fn set_port(&self, node: &NodeLayout, up: bool) -> Result<()> {
        let state = if up { "up" } else { "down" };
        self.ip(&format!("link set {} {state}\n", node.name()))
    }

    /// Those of a node that was started earlier, if they are still there.
    pub(crate) fn find(node: &NodeLayout) -> Option<Self> {
        let holder = processes::recorded(&node.processes().join(HOLDER))?;
        holder.is_alive().then_some(Self { holder })
    }

    /// Ends every process in the namespaces, remembered or not; `built` is where the holder's program is.
    pub(crate) fn end(node: &NodeLayout, built: &Path) -> Result<()> {
        if let Some(namespaces) = Self::find(node) {
            namespaces.holder.end()?;
        }
        end_holders(node.state(), built)?;
        // What was started in the namespaces from outside waits there for what has just ended.
        for (_, process) in processes::all_recorded(&node.processes()) {
            process.end()?;
        }
        Ok(())
    }

    /// A command that runs what is appended in these of the namespaces; `--pid` makes nsenter wait for it.
    pub(crate) fn enter(&self, namespaces: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(self.enter_arguments(namespaces));
        command
    }

    /// The arguments of `nsenter` for [`Namespaces::enter`].
    pub(crate) fn enter_arguments(&self, namespaces: &[&str]) -> Vec<String> {
        let target = format!("--target={}", self.holder.pid());
        let wanted = namespaces.iter().map(ToString::to_string);
        std::iter::once(target).chain(wanted).chain(["--".to_owned()]).collect()
    }

    /// Moves the calling thread, and what it starts from now on, into the node's network.
    pub(crate) fn enter_network(&self) -> Result<()> {
        let path = PathBuf::from(format!("/proc/{}/ns/net", self.holder.pid()));
        let file = fs::File::open(&path)
            .with_context(|| format!("opening the node's network {}", path.display()))?;
        setns(file, CloneFlags::CLONE_NEWNET).context("entering the node's network")
    }
}

/// Ends every program that holds namespaces for what is in the directory `state`; `built` is where it is.
pub(crate) fn end_holders(state: &Path, built: &Path) -> Result<()> {
    let entries = fs::read_dir(built).into_iter().flatten().flatten();
    for pause in entries.map(|entry| entry.path().join("pause")).filter(|path| path.is_file()) {
        for process in processes::with_last_words(&pause, state) {
            process.end()?;
        }
    }
    Ok(())
}

fn runs(process: &Process, program: &Path) -> bool {
    fs::read_link(format!("/proc/{}/exe", process.pid())).is_ok_and(|running| running == program)
}

/// As on any machine nothing in `/run` outlives its end, but what the harness writes for the node.
fn prepare_directories(node: &NodeLayout) -> Result<()> {
    let var = node.var();
    for entry in fs::read_dir(node.run()).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path != node.configuration() {
            cache::remove_tree(&path)?;
        }
    }
    let mut directories = vec![
        node.logs(),
        node.processes(),
        node.configuration(),
        node.built(),
        node.run().join("lock"),
        node.run().join("netns"),
    ];
    directories.extend(["lib", "log/kubernetes", "cache", "tmp"].map(|name| var.join(name)));
    let settings = node.kernel_settings();
    directories.extend(["vm", "kernel/keys"].map(|name| settings.join(name)));
    for directory in directories {
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
    }
    for (name, value) in KERNEL_SETTINGS {
        let path = settings.join(name);
        fs::write(&path, value).with_context(|| format!("writing {}", path.display()))?;
    }
    let link = var.join("run");
    if link.is_symlink() {
        return Ok(());
    }
    std::os::unix::fs::symlink("/run", &link)
        .with_context(|| format!("making the link {}", link.display()))
}

fn holder_arguments(pause: &Path, state: &Path) -> Vec<String> {
    let mut arguments =
        ["--mount", "--net", "--pid", "--fork", "--mount-proc"].map(String::from).to_vec();
    arguments.extend(["--propagation=private", "--"].map(String::from));
    // The holder ignores its argument; whoever looks for it does not.
    arguments.extend([pause.display().to_string(), state.display().to_string()]);
    arguments
}

/// The file takes the room that is written to; the device it is mounted by goes with the mount.
fn make_disk(path: &Path) -> Result<()> {
    let file = fs::File::create(path).with_context(|| format!("making {}", path.display()))?;
    file.set_len(DISK_SIZE).with_context(|| format!("growing {}", path.display()))?;
    programs::run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(path))
        .map(drop)
        .context("making a file system for the node")
}

/// The arguments of each `mount`, in order.
fn mount_plan(
    node: &NodeLayout,
    options: &Options,
    exists: impl Fn(&Path) -> bool,
) -> Vec<Vec<String>> {
    let bind = |kind: &str, from: &Path, to: &Path| {
        vec![kind.to_owned(), from.display().to_string(), to.display().to_string()]
    };
    let mut plan = vec![bind("--bind", &options.cache.built(), &node.built())];
    if options.nodes == Nodes::RealWithDisk {
        let (disk, directory) = (node.disk(), node.disk_mount());
        plan.push(bind("--options=loop", &disk, &directory));
    }
    for (name, _) in KERNEL_SETTINGS {
        let setting = Path::new("/proc/sys").join(name);
        // A kernel may have been built without one; the kubelet copes with that.
        if !exists(&setting) {
            continue;
        }
        plan.push(bind("--bind", &node.kernel_settings().join(name), &setting));
    }
    // /var comes last: the cache may lie in it, and is not to be seen any more from then on.
    plan.push(bind("--rbind", &node.run(), Path::new("/run")));
    plan.push(bind("--rbind", &node.var(), Path::new("/var")));
    // Pods may ask for mount propagation, which takes shared mounts above theirs.
    plan.push(vec!["--make-rshared".to_owned(), "/".to_owned()]);
    plan
}

/// Commands for `ip -batch` in the network of a node at this position of so many. The first node's card is a
/// bridge, also where nothing is plugged in: there is a kernel without dummy devices. Those of others are there.
///
/// An address is there at once (`nodad`): nobody could have the same one.
fn network_plan(position: usize, nodes: usize, network: &Network) -> String {
    let mut plan = vec!["link set lo up".to_owned()];
    if position == 0 {
        plan.push("link add node0 type bridge".to_owned());
    }
    for Addresses { nodes, node_prefix, .. } in network.all() {
        let own = nodes[position].own;
        let option = if own.contains(':') { " nodad" } else { "" };
        plan.push(format!("address add {own}/{node_prefix} dev node0{option}"));
    }
    plan.push("link set node0 up".to_owned());
    for Addresses { gateway, nodes: all, .. } in network.all() {
        plan.push(format!("route add default via {gateway} dev node0 onlink"));
        for (_, other) in all.iter().take(nodes).enumerate().filter(|(at, _)| *at != position) {
            plan.push(format!("route add {} via {} dev node0", other.pods, other.own));
        }
    }
    plan.join("\n") + "\n"
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

/// The arguments that start one of the node's programs from outside.
pub(crate) fn program_inside(directory: &str, program: &str) -> String {
    format!("{}/{directory}/{program}", inside::BUILT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cache::Cache,
        kubernetes::{ClusterId, KubernetesVersion, layout::Layout},
    };

    fn plan(nodes: Nodes, exists: impl Fn(&Path) -> bool) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let root = directory.path().canonicalize().unwrap().display().to_string();
        let id = ClusterId::named("a").unwrap();
        let layout = Layout::new(&cache, &id).unwrap();
        let version = KubernetesVersion::default();
        let options = Options { cache, id, network: Network::default(), version, nodes };
        let lines = mount_plan(&layout.first(), &options, exists);
        lines.iter().map(|words| words.join(" ").replace(&root, "CACHE")).collect()
    }

    #[test]
    fn the_machines_own_directories_are_covered_after_all_else_is_in_place() {
        insta::assert_snapshot!(plan(Nodes::default(), |path| path.ends_with("vm/panic_on_oom")).join("\n"), @r"
        --bind CACHE/built CACHE/clusters/a/node-1/run/built
        --bind CACHE/clusters/a/node-1/sysctl/vm/panic_on_oom /proc/sys/vm/panic_on_oom
        --rbind CACHE/clusters/a/node-1/run /run
        --rbind CACHE/clusters/a/node-1/var /var
        --make-rshared /
        ");
    }

    #[test]
    fn a_setting_that_the_kernel_does_not_have_is_left_out() {
        assert!(!plan(Nodes::default(), |_| false).join("\n").contains("/proc/sys"));
    }

    #[test]
    fn a_disk_is_mounted_before_the_directory_that_it_lies_in_covers_the_machines() {
        insta::assert_snapshot!(plan(Nodes::RealWithDisk, |_| false).join("\n"), @r"
        --bind CACHE/built CACHE/clusters/a/node-1/run/built
        --options=loop CACHE/clusters/a/node-1/disk CACHE/clusters/a/node-1/var/lib
        --rbind CACHE/clusters/a/node-1/run /run
        --rbind CACHE/clusters/a/node-1/var /var
        --make-rshared /
        ");
    }

    #[test]
    fn the_holder_can_be_found_by_its_last_words() {
        let arguments = holder_arguments(Path::new("/built/pause"), Path::new("/state"));
        assert_eq!(arguments[arguments.len() - 2..], ["/built/pause", "/state"]);
    }

    #[test]
    fn the_node_has_an_address_and_a_default_route_of_each_kind() {
        let both = Network { ip_families: "ipv4,ipv6".parse().unwrap(), ..Network::default() };
        insta::assert_snapshot!(network_plan(0, 1, &both), @r"
        link set lo up
        link add node0 type bridge
        address add 10.89.0.2/24 dev node0
        address add fd00:10:89::2/64 dev node0 nodad
        link set node0 up
        route add default via 10.89.0.1 dev node0 onlink
        route add default via fd00:10:89::1 dev node0 onlink
        ");
    }

    #[test]
    fn a_further_node_has_a_route_to_the_pods_of_each_other_one() {
        insta::assert_snapshot!(network_plan(1, 3, &Network::default()), @r"
        link set lo up
        address add 10.89.0.3/24 dev node0
        link set node0 up
        route add default via 10.89.0.1 dev node0 onlink
        route add 10.244.0.0/24 via 10.89.0.2 dev node0
        route add 10.244.2.0/24 via 10.89.0.4 dev node0
        ");
        insta::assert_snapshot!(plug_plan("node-2", 42), @r"
        link add node-2 type veth peer name node0 netns 42
        link set node-2 master node0
        link set node-2 up
        ");
    }
}
