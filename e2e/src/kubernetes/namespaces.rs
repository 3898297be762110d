//! The namespaces a node lives in: mounts, network and process ids of its own.
//!
//! A program that does nothing holds them. It is the first process of its process id namespace, so when it
//! is killed the kernel ends every process of the node with it, containers included, and with the last
//! process go all mounts, all network devices and all firewall rules. Nothing has to be taken back one by one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};
use nix::sched::{CloneFlags, setns};

use super::{
    layout::{Layout, inside},
    network::{Addresses, Network},
    options::{Nodes, Options},
    processes::{self, Process},
};
use crate::{
    programs,
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
    /// Makes them, with the node's mounts and network.
    pub(crate) fn create(layout: &Layout, pause: &Path, options: &Options) -> Result<Self> {
        prepare_directories(layout)?;
        if options.nodes == Nodes::RealWithDisk {
            make_disk(&layout.disk())?;
        }
        let arguments = holder_arguments(pause, layout.state());
        let unshare =
            processes::start_detached(Path::new("unshare"), &arguments, &layout.log(HOLDER))?;
        let holder = until("the node's namespaces", Duration::from_secs(20), || {
            anyhow::ensure!(
                unshare.is_alive(),
                "making the node's namespaces failed: {}",
                programs::tail(&layout.log(HOLDER), 5)
            );
            // It shows that the namespaces are complete: unshare starts it last.
            let held = unshare.child().filter(|child| runs(child, pause));
            Ok(held.map_or_else(|| Look::NotYet("no holder yet".into()), Look::Ready))
        })?;
        holder.record(&layout.processes().join(HOLDER))?;
        let namespaces = Self { holder };
        for arguments in mount_plan(layout, options, Path::exists) {
            programs::run(namespaces.enter(&["--mount"]).arg("mount").args(&arguments))
                .context("making the node's mounts")?;
        }
        programs::run_with_input(
            namespaces.enter(&["--net"]).args(["ip", "-batch", "-"]),
            network_plan(&options.network).as_bytes(),
        )
        .context("making the node's network")?;
        Ok(namespaces)
    }

    /// Those of a node that was started earlier, if they are still there.
    pub(crate) fn find(layout: &Layout) -> Option<Self> {
        let holder = processes::recorded(&layout.processes().join(HOLDER))?;
        holder.is_alive().then_some(Self { holder })
    }

    /// Ends every process in the namespaces, remembered or not; `built` is where the holder's program is.
    pub(crate) fn end(layout: &Layout, built: &Path) -> Result<()> {
        if let Some(namespaces) = Self::find(layout) {
            namespaces.holder.end()?;
        }
        let entries = fs::read_dir(built).into_iter().flatten().flatten();
        for pause in entries.map(|entry| entry.path().join("pause")).filter(|path| path.is_file()) {
            for process in processes::with_last_words(&pause, layout.state()) {
                process.end()?;
            }
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

fn runs(process: &Process, program: &Path) -> bool {
    fs::read_link(format!("/proc/{}/exe", process.pid())).is_ok_and(|running| running == program)
}

fn prepare_directories(layout: &Layout) -> Result<()> {
    let var = layout.var();
    let mut directories = vec![
        layout.logs(),
        layout.processes(),
        layout.configuration(),
        layout.built(),
        layout.run().join("lock"),
        layout.run().join("netns"),
    ];
    directories.extend(["lib", "log/kubernetes", "cache", "tmp"].map(|name| var.join(name)));
    let settings = layout.kernel_settings();
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
    layout: &Layout,
    options: &Options,
    exists: impl Fn(&Path) -> bool,
) -> Vec<Vec<String>> {
    let bind = |kind: &str, from: &Path, to: &Path| {
        vec![kind.to_owned(), from.display().to_string(), to.display().to_string()]
    };
    let mut plan = vec![bind("--bind", &options.cache.built(), &layout.built())];
    if options.nodes == Nodes::RealWithDisk {
        let (disk, directory) = (layout.disk(), layout.disk_mount());
        plan.push(bind("--options=loop", &disk, &directory));
    }
    for (name, _) in KERNEL_SETTINGS {
        let setting = Path::new("/proc/sys").join(name);
        // A kernel may have been built without one; the kubelet copes with that.
        if !exists(&setting) {
            continue;
        }
        plan.push(bind("--bind", &layout.kernel_settings().join(name), &setting));
    }
    // /var comes last: the cache may lie in it, and is not to be seen any more from then on.
    plan.push(bind("--rbind", &layout.run(), Path::new("/run")));
    plan.push(bind("--rbind", &layout.var(), Path::new("/var")));
    // Pods may ask for mount propagation, which takes shared mounts above theirs.
    plan.push(vec!["--make-rshared".to_owned(), "/".to_owned()]);
    plan
}

/// Commands for `ip -batch`. A bridge without ports stands in for a network card: there is a kernel without
/// dummy devices.
///
/// An address is there at once (`nodad`): nobody could have the same one.
fn network_plan(network: &Network) -> String {
    let mut plan = vec!["link set lo up".to_owned(), "link add node0 type bridge".to_owned()];
    for Addresses { node, node_prefix, .. } in network.all() {
        let option = if node.contains(':') { " nodad" } else { "" };
        plan.push(format!("address add {node}/{node_prefix} dev node0{option}"));
    }
    plan.push("link set node0 up".to_owned());
    for Addresses { gateway, .. } in network.all() {
        plan.push(format!("route add default via {gateway} dev node0 onlink"));
    }
    plan.join("\n") + "\n"
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
        kubernetes::{ClusterId, KubernetesVersion},
    };

    fn plan(nodes: Nodes, exists: impl Fn(&Path) -> bool) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let root = directory.path().canonicalize().unwrap().display().to_string();
        let id = ClusterId::named("a").unwrap();
        let layout = Layout::new(&cache, &id).unwrap();
        let version = KubernetesVersion::default();
        let options = Options { cache, id, network: Network::default(), version, nodes };
        let lines = mount_plan(&layout, &options, exists);
        lines.iter().map(|words| words.join(" ").replace(&root, "CACHE")).collect()
    }

    #[test]
    fn the_machines_own_directories_are_covered_after_all_else_is_in_place() {
        insta::assert_snapshot!(plan(Nodes::Real, |path| path.ends_with("vm/panic_on_oom")).join("\n"), @r"
        --bind CACHE/built CACHE/clusters/a/run/built
        --bind CACHE/clusters/a/sysctl/vm/panic_on_oom /proc/sys/vm/panic_on_oom
        --rbind CACHE/clusters/a/run /run
        --rbind CACHE/clusters/a/var /var
        --make-rshared /
        ");
    }

    #[test]
    fn a_setting_that_the_kernel_does_not_have_is_left_out() {
        assert!(!plan(Nodes::Real, |_| false).join("\n").contains("/proc/sys"));
    }

    #[test]
    fn a_disk_is_mounted_before_the_directory_that_it_lies_in_covers_the_machines() {
        insta::assert_snapshot!(plan(Nodes::RealWithDisk, |_| false).join("\n"), @r"
        --bind CACHE/built CACHE/clusters/a/run/built
        --options=loop CACHE/clusters/a/disk CACHE/clusters/a/var/lib
        --rbind CACHE/clusters/a/run /run
        --rbind CACHE/clusters/a/var /var
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
        insta::assert_snapshot!(network_plan(&both), @r"
        link set lo up
        link add node0 type bridge
        address add 10.89.0.2/24 dev node0
        address add fd00:10:89::2/64 dev node0 nodad
        link set node0 up
        route add default via 10.89.0.1 dev node0 onlink
        route add default via fd00:10:89::1 dev node0 onlink
        ");
    }
}
