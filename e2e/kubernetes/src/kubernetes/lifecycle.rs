//! Starting a cluster, finding it again and ending it.
//!
//! `up` and `down` inspect the cluster first, so that they work in any state: a healthy cluster, one whose start was
//! interrupted, one whose programs have died, or none.

use super::cluster::Kubernetes;
use super::layout::{ClusterId, Layout};
use super::namespaces::Namespaces;
use super::options::Options;
use super::recipes::Built;
use super::{control_groups, start};
use crate::cache::{self, Cache};
use crate::progress;
use crate::{packages, programs};
use anyhow::{Context as _, Result, ensure};
use fs_err as fs;

/// The programs and the setup of a cluster; a cluster with another mark is made anew.
type Mark = (Built, String);

/// Takes a cluster down when it goes out of scope, even where a test fails.
#[derive(Debug)]
pub struct DownAtEnd(pub Options);

impl Drop for DownAtEnd {
    fn drop(&mut self) {
        if let Err(error) = Kubernetes::down(&self.0) {
            progress::print_error(&format!("taking the cluster down failed: {error:#}"));
        }
    }
}

impl Kubernetes {
    /// A ready cluster: the one that runs if it is healthy and set up as asked, else a new one.
    pub fn up(options: &Options) -> Result<Self> {
        let layout = layout_as_root(options)?;
        packages::ensure(packages::NODE)?;
        let built = Built::ensure(&options.cache, options.version, &options.nodes)?;
        let _lock = cache::lock(&layout.lock)?;
        let Options { network, nodes, native_gangs, static_cpus, .. } = options;
        let setup = format!("{network:?} {nodes:?} {native_gangs:?} {static_cpus:?}");
        let wanted = (built.clone(), setup);
        match Self::healthy(&layout, &wanted) {
            Ok(cluster) => {
                progress::log("the cluster is up already");
                return Ok(cluster);
            }
            Err(fault) if layout.state.exists() => {
                progress::log(&format!("starting the cluster anew: {fault:#}"));
                progress::step("taking the old one down", || take_down(&layout))?;
            }
            // A control group may be left in any case.
            Err(_) => take_down(&layout)?,
        }
        let cluster = start::start(&layout, &built, options)?;
        fs::write(layout.ready_mark, serde_json::to_string(&wanted)?)?;
        Ok(cluster)
    }

    /// The cluster that runs, which must be healthy, however it is set up.
    pub fn find(options: &Options) -> Result<Self> {
        let layout = layout_as_root(options)?;
        Self::healthy(&layout, &read_mark(&layout)?)
    }

    /// Ends the cluster, if it runs, and removes everything that it has left on this machine.
    pub fn down(options: &Options) -> Result<()> {
        let layout = layout_as_root(options)?;
        let _lock = cache::lock(&layout.lock)?;
        take_down(&layout)
    }

    /// Every cluster with state in this cache, running or not.
    pub fn all(cache: &Cache) -> Vec<Options> {
        let entries = fs::read_dir(cache.clusters()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut ids: Vec<_> = names.filter_map(|name| ClusterId::named(&name).ok()).collect();
        ids.sort();
        // Ending and finding a cluster do not depend on its setup.
        ids.into_iter().map(|id| Options::new(cache.clone(), id)).collect()
    }

    /// The cluster that runs, if it is ready and set up as wanted.
    fn healthy(layout: &Layout, wanted: &Mark) -> Result<Self> {
        ensure!(read_mark(layout)? == *wanted, "the one that runs is set up differently");
        let mut processes = layout.processes();
        processes.retain(|(_, process)| !process.is_alive());
        let dead: Vec<_> = processes.into_iter().map(|(name, _)| name).collect();
        ensure!(dead.is_empty(), "not running any more: {}", dead.join(", "));
        let namespaces =
            Namespaces::find(&layout.first()).context("the first node's namespaces are gone")?;
        let cluster = Self { layout: layout.clone(), namespaces, built: wanted.0.clone() };
        programs::run(&mut cluster.kubectl(["get", "--raw=/readyz", "--request-timeout=5s"]))
            .context("the API server is not ready")?;
        Ok(cluster)
    }
}

fn read_mark(layout: &Layout) -> Result<Mark> {
    let mark = fs::read_to_string(&layout.ready_mark).ok();
    mark.and_then(|it| serde_json::from_str(&it).ok())
        .context("no cluster has been started to its end")
}

fn take_down(layout: &Layout) -> Result<()> {
    layout.places().iter().try_for_each(Namespaces::end)?;
    control_groups::remove(&layout.control_group)?;
    cache::remove_tree(&layout.state)
}

fn layout_as_root(options: &Options) -> Result<Layout> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "a cluster on this machine takes root: run this as root, or name a cluster by \
         --kubeconfig FILE with --load-command COMMAND for its images"
    );
    Layout::new(&options.cache, &options.id)
}
