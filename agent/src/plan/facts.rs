//! Facts that are known in the pod alone. All of them are read here, once; nothing is changed.

use crate::accounts::passwd::Databases;
use crate::failure::{Failure, Result};
use crate::flux::processors::{are_own, cores, usable};
use crate::system::environment::find_program;
use crate::system::files::{is_executable, read_bounded};
use crate::system::root::Root;
use flux_contract::invocation::REPLACED_VARIABLES;
use flux_contract::{AgentConfig, CURVE_MOUNT, Exit, cluster_domain};
use nix::unistd::{self, AccessFlags, Gid};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Everything besides the configuration on which a plan depends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// gethostname(2), which Flux uses as well.
    pub hostname: String,
    /// User the container started as.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
    /// The image's user database.
    pub accounts: Databases,
    /// The container's environment; what is not UTF-8 is shown as such.
    pub environment: BTreeMap<String, String>,
    /// This program.
    pub agent: PathBuf,
    /// Domain of the Kubernetes cluster, from the name servers' search list.
    pub cluster_domain: Option<String>,
    /// The view's directory of Python packages.
    pub site_packages: Option<PathBuf>,
    /// The release of the view's Flux, or the image's.
    pub flux_version: Option<String>,
    /// Flux may find plugins that change what its submission programs make of a command.
    pub has_submission_plugins: bool,
    /// The view's directory of plugins of PMIx, if it has any.
    pub pmix_plugins: Option<PathBuf>,
    /// The view's directory of Flux modules, if Fluxion is among them.
    pub fluxion_modules: Option<PathBuf>,
    /// The view's library directory holds a C library. Programs of the image, which have a loader
    /// of their own, must then not be led there.
    pub view_has_libc: bool,
    /// This container has the certificate: it is the runner, and the others cannot write to the shared volume.
    pub is_runner: bool,
    /// Every one of `TEMPORARY_DIRECTORIES` takes files.
    pub has_temporary_directories: bool,
    /// Cores that Flux schedules on: those with a processor that the affinity mask allows, as hwloc counts them, at
    /// most as many as the CPU limit has whole ones, at least one.
    pub cores: usize,
    /// These are this container's alone.
    pub has_own_cores: bool,
    /// GPUs that this container has, by the device files that it has of NVIDIA's driver, or else of AMD's.
    pub gpus: usize,
    /// How many pods of this index the Job controller has replaced, without those that a suspension of the Job took: the
    /// controller releases such a pod before it deletes it. 0 in a Job that repeats failed pods.
    pub replaced: u32,
    /// Those of `candidates` that are executable files.
    pub executables: BTreeSet<PathBuf>,
    /// Those of the home directories in question that exist.
    pub homes: BTreeSet<PathBuf>,
}

/// Shells of the image in order of preference. `bash` comes first: existing hooks and scripts were written for it
/// (`source`, `[[`).
pub(crate) const IMAGE_SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// Other paths of shells in the first lines of scripts.
pub(crate) const USR_SHELLS: [&str; 2] = ["/usr/bin/bash", "/usr/bin/sh"];

/// The program that finds an interpreter which a script's first line names without its directory.
pub(crate) const ENV: &str = "/usr/bin/env";

/// Shells of a view, relative to its root.
pub(crate) const VIEW_SHELLS: [&str; 2] = ["bin/bash", "bin/sh"];

pub(crate) fn candidates(
    config: &AgentConfig,
    environment: &BTreeMap<String, String>,
) -> BTreeSet<PathBuf> {
    let view = PathBuf::from(config.layout.view());
    let image = IMAGE_SHELLS.iter().chain(&USR_SHELLS).chain([&ENV]).map(PathBuf::from);
    let own = VIEW_SHELLS.iter().chain(&["bin/flux"]).map(|path| view.join(path));
    image.chain(own).chain(environment.get("SHELL").map(PathBuf::from)).collect()
}

/// Most bytes of the program `flux`: with everything for a debugger it has 2 MB.
const FLUX_LIMIT: u64 = 16 * 1024 * 1024;

/// Plugins of Flux's submission programs, relative to its prefix.
const PLUGINS: [&str; 2] = ["etc/flux/cli/plugins", "libexec/flux/cli/plugins"];

/// File system in memory, which every container may write to whatever its user and its root file system are.
pub(crate) const MEMORY: &str = "/dev/shm";

/// Flux's default places for its run and state directories, as in an instance that a batch job starts
/// (flux-broker-attributes(7), `rundir` and `statedir`).
pub(crate) const TEMPORARY_DIRECTORIES: [&str; 2] = ["/tmp", "/var/tmp"];

impl Facts {
    /// Reads the facts below `root`; `hostname` replaces the pod's own, to see the plan of another pod.
    pub fn gather(config: &AgentConfig, root: &Root, hostname: Option<String>) -> Result<Self> {
        let unknown = |what| move |error: io::Error| Failure::because(Exit::Internal, what, &error);
        let lossy = |text: OsString| text.to_string_lossy().into_owned();
        let own = || unistd::gethostname().map(lossy).map_err(io::Error::from);
        let hostname = hostname.map_or_else(own, Ok).map_err(unknown("find out the host name"))?;
        let environment: BTreeMap<String, String> =
            env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect();
        let accounts = databases(root);
        let (uid, gid) = (unistd::getuid().as_raw(), unistd::getgid().as_raw());
        let groups = unistd::getgroups().map_err(io::Error::from);
        let groups = groups.map_err(unknown("find out this process's groups"))?;
        let mut executables = candidates(config, &environment);
        executables.retain(|path| is_executable(&root.at(path)));
        let view = PathBuf::from(config.layout.view());
        let flux = if config.view.enabled { Some(view.join("bin/flux")) } else { own_flux(root) };
        let flux = fs::canonicalize(root.at(flux.unwrap_or_default())).unwrap_or_default();
        let homes = environment.get("HOME").map(PathBuf::from).into_iter();
        let homes = homes.chain(accounts.find_uid(uid).map(|user| user.home));
        Ok(Self {
            hostname,
            uid,
            gid,
            groups: groups.into_iter().map(Gid::as_raw).collect(),
            agent: env::current_exe().map_err(unknown("find out where this program lies"))?,
            cluster_domain: cluster_domain(
                &fs::read_to_string(root.at("/etc/resolv.conf")).unwrap_or_default(),
                &config.cluster.namespace,
            ),
            site_packages: site_packages(&root.at(view.join("lib"))),
            flux_version: flux_version(&flux),
            has_submission_plugins: has_submission_plugins(&flux, &root.at(&view), root),
            pmix_plugins: in_libraries(&view, root, "pmix", ""),
            fluxion_modules: fluxion_modules(&view, root),
            is_runner: root.at(CURVE_MOUNT).exists(),
            has_temporary_directories: TEMPORARY_DIRECTORIES
                .iter()
                .all(|it| takes_files(&root.at(it))),
            cores: cores(root).min(usable(root)),
            has_own_cores: are_own(root, config.exclusive_cpus),
            gpus: gpus(root),
            replaced: replaced(&environment),
            view_has_libc: root.at(view.join("lib/libc.so.6")).exists(),
            executables,
            homes: homes.filter(|home| root.at(home).is_dir()).collect(),
            accounts,
            environment,
        })
    }

    /// The groups that the pod gives to its processes: `supplementalGroups` and `fsGroup` of its security context. The
    /// broker's user needs them as well, because a volume may belong to one. The groups that root has by the image's user
    /// database are not among them.
    pub(crate) fn pod_groups(&self) -> Vec<u32> {
        let own = self.accounts.find_uid(self.uid).map(|user| self.accounts.groups_of(&user));
        let own = own.unwrap_or_default();
        let of_pod = |group: &u32| ![0, self.gid].contains(group) && !own.contains(group);
        self.groups.iter().copied().filter(of_pod).collect()
    }
}

fn replaced(environment: &BTreeMap<String, String>) -> u32 {
    let counts = REPLACED_VARIABLES.iter().filter_map(|(name, _)| environment.get(*name));
    counts.filter_map(|count| count.parse::<u32>().ok()).sum()
}

/// A container with GPUs of NVIDIA has `/dev/nvidia<number>` for each (`GetDeviceNodes` in `NVIDIA/k8s-device-plugin`), one
/// with GPUs of AMD has `/dev/kfd`, and `/dev/dri/renderD<number>` for each (`buildDeviceCDIEdits` in
/// `ROCm/k8s-gpu-dra-driver`, and `Allocate` in `ROCm/k8s-device-plugin`).
fn gpus(root: &Root) -> usize {
    let count = |directory: &str, prefix: &str| {
        let entries = fs::read_dir(root.at(directory)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let number = |name: &String| name.strip_prefix(prefix)?.parse::<u32>().ok();
        names.filter_map(|name| number(&name)).count()
    };
    match count("/dev", "nvidia") {
        0 if root.at("/dev/kfd").exists() => count("/dev/dri", "renderD"),
        gpus => gpus,
    }
}

/// The user database; a file that is missing or closed to us counts as empty.
pub(crate) fn databases(root: &Root) -> Databases {
    let read = |path: &str| fs::read(root.at(path)).unwrap_or_default();
    Databases { passwd: read("/etc/passwd"), group: read("/etc/group") }
}

fn takes_files(path: &Path) -> bool {
    path.is_dir() && unistd::access(path, AccessFlags::W_OK | AccessFlags::X_OK).is_ok()
}

/// `python3.N/site-packages` below `lib`: of several the highest N.
fn site_packages(lib: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(lib).ok()?.filter_map(Result::ok);
    let versions = entries.filter_map(|entry| {
        let name = entry.file_name();
        let minor: u32 = name.to_str()?.strip_prefix("python3.")?.parse().ok()?;
        let packages = entry.path().join("site-packages");
        packages.is_dir().then_some((minor, packages))
    });
    versions.max().map(|(_, packages)| packages)
}

/// The image's `flux`.
fn own_flux(root: &Root) -> Option<PathBuf> {
    find_program(&env::vars_os().collect(), "flux", |path| is_executable(&root.at(path)))
}

/// The release of the program `flux`, which has it as a text of its own.
fn flux_version(flux: &Path) -> Option<String> {
    let content = read_bounded(flux, FLUX_LIMIT).ok()?;
    let mut texts = content.split(|byte| *byte == 0).filter_map(|text| str::from_utf8(text).ok());
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let is_release = |text: &&str| text.split('.').count() == 3 && text.split('.').all(is_number);
    texts.find(is_release).map(ToOwned::to_owned)
}

/// Whether there are Python files where `flux`, a file of `view` or of a package that it has links to, looks for
/// plugins (flux-core, `flux/cli/plugin.py`): below the prefix that it was built for, or the system's.
fn has_submission_plugins(flux: &Path, view: &Path, root: &Root) -> bool {
    let prefixes = flux.ancestors().nth(2).into_iter().map(Path::to_owned);
    let prefixes = prefixes.chain([view.to_owned(), root.at("/")]);
    let is_plugin = |entry: &fs::DirEntry| entry.path().extension() == Some("py".as_ref());
    prefixes.flat_map(|prefix| PLUGINS.map(|directory| prefix.join(directory))).any(|directory| {
        fs::read_dir(directory).is_ok_and(|entries| entries.flatten().any(|it| is_plugin(&it)))
    })
}

/// The view's directory of libraries `name`, if `file` is in it.
fn in_libraries(view: &Path, root: &Root, name: &str, file: &str) -> Option<PathBuf> {
    let mut directories = ["lib", "lib64"].map(|lib| view.join(lib).join(name)).into_iter();
    directories.find(|directory| root.at(directory.join(file)).exists())
}

/// Where the view keeps its Flux modules, if Fluxion's queue manager is one of them.
fn fluxion_modules(view: &Path, root: &Root) -> Option<PathBuf> {
    in_libraries(view, root, "flux/modules", "sched-fluxion-qmanager.so")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_pods_have_failed_or_were_stopped() {
        let of = |failed: &str, stopped: &str| {
            let names = REPLACED_VARIABLES.map(|(name, _)| name.to_owned());
            replaced(&names.into_iter().zip([failed.to_owned(), stopped.to_owned()]).collect())
        };
        assert_eq!((of("0", ""), of("", "2"), of("1", "2")), (0, 2, 3));
        assert_eq!(replaced(&BTreeMap::new()), 0);
    }

    #[test]
    fn gpus_are_counted_by_the_files_of_their_drivers() {
        let pod = tempfile::tempdir().unwrap();
        let root = Root::new(pod.path());
        let found = |files: &[&str]| {
            for file in files {
                let path = root.at("/dev").join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            gpus(&root)
        };
        assert_eq!(found(&[]), 0);
        // Any graphics card has such a file.
        assert_eq!(found(&["null", "dri/card0", "dri/renderD128", "dri/renderD129"]), 0);
        assert_eq!(found(&["kfd"]), 2);
        let of_all = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia"];
        assert_eq!(found(&of_all), 2);
        assert_eq!(found(&["nvidia3", "nvidia0", "nvidia11"]), 3);
    }

    #[test]
    fn the_newest_python_of_the_view_counts() {
        let lib = tempfile::tempdir().unwrap();
        for name in ["python3.9", "python3.11", "python2.7", "python3", "perl5"] {
            fs::create_dir_all(lib.path().join(name).join("site-packages")).unwrap();
        }
        fs::create_dir(lib.path().join("python3.13")).unwrap();
        let found = site_packages(lib.path()).unwrap();
        assert_eq!(found, lib.path().join("python3.11/site-packages"));
        assert_eq!(site_packages(&lib.path().join("missing")), None);
    }

    #[test]
    fn the_release_of_flux_is_found_in_its_program() {
        let directory = tempfile::tempdir().unwrap();
        let flux = directory.path().join("flux");
        assert_eq!(flux_version(&flux), None);
        for (content, release) in [
            ("ELF|libflux 0.88.0|1.2|GLIBC_2.2.5|0.88.0|", Some("0.88.0")),
            ("ELF|0.88.0-12-gabc|a.b.c|1..2|", None),
        ] {
            fs::write(&flux, content.replace('|', "\0")).unwrap();
            assert_eq!(flux_version(&flux).as_deref(), release);
        }
    }

    #[test]
    fn submission_plugins_are_found_in_view_and_system() {
        let pod = tempfile::tempdir().unwrap();
        let (root, flux) = (Root::new(pod.path()), pod.path().join("opt/software/flux/bin/flux"));
        let found = || has_submission_plugins(&flux, &root.at("/view"), &root);
        for prefix in ["opt/software/flux", "view", ""] {
            let plugins = pod.path().join(prefix).join("etc/flux/cli/plugins");
            fs::create_dir_all(&plugins).unwrap();
            fs::write(plugins.join("README"), "").unwrap();
            assert!(!found(), "{prefix}");
            fs::write(plugins.join("site.py"), "").unwrap();
            assert!(found(), "{prefix}");
            fs::remove_dir_all(plugins).unwrap();
        }
    }

    #[test]
    fn fluxion_is_found_where_its_queue_manager_is() {
        let pod = tempfile::tempdir().unwrap();
        let root = Root::new(pod.path());
        let view = PathBuf::from(flux_contract::Layout::default().view());
        assert_eq!(fluxion_modules(&view, &root), None);
        // flux-core's own modules are there in any view.
        for lib in ["lib", "lib64"] {
            let modules = view.join(lib).join("flux/modules");
            fs::create_dir_all(root.at(&modules)).unwrap();
            fs::write(root.at(modules.join("kvs.so")), "").unwrap();
        }
        assert_eq!(fluxion_modules(&view, &root), None);
        let modules = view.join("lib64/flux/modules");
        fs::write(root.at(modules.join("sched-fluxion-qmanager.so")), "").unwrap();
        assert_eq!(fluxion_modules(&view, &root), Some(modules));
    }
}
