//! The resources of this pod, as Flux schedules them and as its control group limits them.
//!
//! Flux counts the cores of the node. It cannot see a CPU limit of Kubernetes, which is a share of their time. So the agent
//! writes a resource set with as many cores as the limit has whole ones.

use crate::flux::processors::{at_most, control_group, limit, usable};
use crate::system::root::Root;
use flux_protocol::resource_set::ResourceSet;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Without a limit, version 1 of control groups reports the largest whole number of pages.
const NO_LIMIT: u64 = 1 << 60;

/// The resources as Flux and the kernel see them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resources {
    /// Cores that Flux schedules in every pod; `None` before the resource set is written, and on a worker, which does not
    /// have it.
    pub flux_cores: Option<usize>,
    /// GPUs that Flux schedules in every pod, likewise.
    pub flux_gpus: Option<usize>,
    /// Processors that this container may use.
    pub processors: usize,
    /// No other container uses them, and tasks are bound to cores.
    pub exclusive: bool,
    pub cpu_limit: Option<f64>,
    pub memory_limit: Option<u64>,
}

impl Resources {
    /// Reads the resources below `root`, those of Flux from its resource set at `set`. Leaves out what cannot be read.
    pub(crate) fn read(root: &Root, set: Option<PathBuf>, exclusive: bool) -> Self {
        let set = set.and_then(|path| fs::read_to_string(root.at(path)).ok());
        // All hosts have the same.
        let of_host = set.and_then(|text| ResourceSet::parse(&text)?.ranks().next());
        Self {
            flux_cores: of_host.map(|(_, resources)| resources.cores),
            flux_gpus: of_host.map(|(_, resources)| resources.gpus),
            processors: usable(root),
            exclusive,
            cpu_limit: limit(root),
            memory_limit: memory_limit(root),
        }
    }

    pub(crate) fn complaint(&self) -> Option<String> {
        let (cores, limit) = (self.flux_cores?, self.cpu_limit?);
        (!at_most(cores, limit)).then(|| {
            format!("Flux schedules on {cores} cores, but the CPU limit is {limit:.2} processors")
        })
    }

    pub(crate) fn text(&self) -> String {
        let number =
            |count: Option<usize>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let limit = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
        let lines = [
            ("cores for Flux", number(self.flux_cores)),
            ("GPUs for Flux", number(self.flux_gpus)),
            ("processors", self.processors.to_string()),
            ("tasks", if self.exclusive { "bound to own cores" } else { "not bound" }.to_owned()),
            ("CPU limit", limit(self.cpu_limit.map(|limit| format!("{limit:.2} processors")))),
            ("memory limit", limit(self.memory_limit.map(|bytes| format!("{} MiB", bytes >> 20)))),
        ];
        let mut text = String::new();
        for (name, value) in lines {
            let _ = writeln!(text, "{name:<16}{value}");
        }
        if let Some(complaint) = self.complaint() {
            let _ = writeln!(text, "note: {complaint}");
        }
        text
    }
}

pub(crate) fn memory_limit(root: &Root) -> Option<u64> {
    let read = |path| control_group(root, path);
    let text = read("memory.max").or_else(|| read("memory/memory.limit_in_bytes"));
    text.and_then(|text| text.parse().ok()).filter(|&bytes| bytes < NO_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = r#"{"version":1,"execution":{"R_lite":[
        {"rank":"0-3","children":{"core":"0-3,8","gpu":"1"}}],"nodelist":["a-[0-3]"]}}"#;

    #[test]
    fn a_limit_below_what_flux_schedules_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        fs::create_dir_all(root.at("/sys/fs/cgroup")).unwrap();
        fs::write(root.at("/set"), SET).unwrap();
        fs::write(root.at("/sys/fs/cgroup/memory.max"), "268435456\n").unwrap();
        for (limit, complaint) in [("150000 100000\n", true), ("max 100000\n", false)] {
            fs::write(root.at("/sys/fs/cgroup/cpu.max"), limit).unwrap();
            let resources = Resources::read(&root, Some("/set".into()), false);
            assert_eq!((resources.flux_cores, resources.flux_gpus), (Some(5), Some(1)));
            assert_eq!(resources.memory_limit, Some(1 << 28));
            let complains = resources.complaint().is_some_and(|text| text.contains("5 cores"));
            assert_eq!(complains, complaint, "{}", resources.text());
        }
        assert_eq!(Resources::read(&root, None, false).flux_cores, None);
    }
}
