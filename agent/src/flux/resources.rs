//! What Flux takes this pod to have, beside what its control group lets it use.
//!
//! Flux counts the cores of the node; a CPU limit of Kubernetes is a share of their time, which it
//! cannot see. Its resource set is therefore narrowed to whole cores of that limit.

use crate::system::root::Root;
use flux_contract::Hostlist;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// What a resource set calls GPUs.
const GPU: &str = "gpu";
const CONTROL_GROUP: &str = "/sys/fs/cgroup";
/// Without a limit, version 1 of control groups reports the largest whole number of pages.
const NO_LIMIT: u64 = 1 << 60;
/// More ranks than an instance has, and more cores than a host has: `0-4294967295` would take 16 GiB.
const MOST_IDS: usize = 1 << 20;

/// Flux's view and the kernel's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resources {
    /// Cores that Flux schedules on in every pod; `None` before the resource set is written, and on a
    /// worker, which does not know it.
    pub flux_cores: Option<usize>,
    /// GPUs that Flux schedules in every pod, likewise.
    pub flux_gpus: Option<usize>,
    /// Processors this process may run on (`sched_getaffinity(2)`, and the control group's quota).
    pub processors: Option<usize>,
    pub cpu_limit: Option<f64>,
    pub memory_limit: Option<u64>,
}

impl Resources {
    /// Reads both below `root`, Flux's from its resource set at `set`; what cannot be read is left out.
    pub(crate) fn read(root: &Root, set: Option<PathBuf>) -> Self {
        let set = set.and_then(|path| fs::read_to_string(root.at(path)).ok());
        let count = |kind: &str| set.as_deref().and_then(|text| counted(text, kind));
        // As the first version of control groups has it.
        let quota_and_period = || {
            let file = |name: &str| read(root, &format!("cpu/cpu.cfs_{name}_us"));
            Some(format!("{} {}", file("quota")?, file("period")?))
        };
        Self {
            flux_cores: count("core"),
            flux_gpus: count(GPU),
            processors: std::thread::available_parallelism().ok().map(Into::into),
            cpu_limit: read(root, "cpu.max")
                .or_else(quota_and_period)
                .and_then(|text| cpu_limit(&text)),
            memory_limit: memory_limit(root),
        }
    }

    pub(crate) fn complaint(&self) -> Option<String> {
        let (cores, limit) = (self.flux_cores?, self.cpu_limit?);
        // A count of cores is far below what a float holds exactly.
        let counted = f64::from(u32::try_from(cores).unwrap_or(u32::MAX));
        (limit + 0.01 < counted).then(|| {
            format!("Flux schedules on {cores} cores, but the CPU limit is {limit:.2} processors")
        })
    }

    pub(crate) fn text(&self) -> String {
        let number = |it: Option<usize>| it.map_or_else(|| "-".to_owned(), |it| it.to_string());
        let limit = |it: Option<String>| it.unwrap_or_else(|| "none".to_owned());
        let lines = [
            ("cores for Flux", number(self.flux_cores)),
            ("GPUs for Flux", number(self.flux_gpus)),
            ("processors", number(self.processors)),
            ("CPU limit", limit(self.cpu_limit.map(|it| format!("{it:.2} processors")))),
            ("memory limit", limit(self.memory_limit.map(|it| format!("{} MiB", it >> 20)))),
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

/// What the control group of this container says at `path`, in the root directory `root`.
fn read(root: &Root, path: &str) -> Option<String> {
    let path = root.at(CONTROL_GROUP).join(path);
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

pub(crate) fn memory_limit(root: &Root) -> Option<u64> {
    let text = read(root, "memory.max").or_else(|| read(root, "memory/memory.limit_in_bytes"));
    text.and_then(|text| text.parse().ok()).filter(|&bytes| bytes < NO_LIMIT)
}

/// The resource set (RFC 20) of `hosts` that have so many cores and GPUs each, with at most `limit` of the cores.
///
/// Flux binds the tasks of a job to the cores it gives them. Pods of one node that all had its first
/// cores would share these and leave the others idle, so the ranks take the cores in turn. A container
/// knows its GPUs by numbers from 0, whatever these are on the node, and Flux names them so in `CUDA_VISIBLE_DEVICES`.
pub(crate) fn resource_set(hosts: &Hostlist, cores: usize, limit: usize, gpus: usize) -> String {
    let cores: Vec<u32> = (0..).take(cores.max(1)).collect();
    let parts: Vec<&[u32]> = cores.chunks_exact(limit.clamp(1, cores.len())).collect();
    let ranks: Vec<u32> = (0..).zip(hosts.hosts()).map(|(rank, _)| rank).collect();
    let entry = |(turn, part): (usize, &&[u32])| {
        let ranks: Vec<u32> = ranks.iter().copied().skip(turn).step_by(parts.len()).collect();
        let mut children = json!({ "core": idset(part) });
        if gpus > 0 {
            children[GPU] = idset(&(0..).take(gpus).collect::<Vec<_>>()).into();
        }
        (!ranks.is_empty()).then(|| json!({ "rank": idset(&ranks), "children": children }))
    };
    let entries: Vec<Value> = parts.iter().enumerate().filter_map(entry).collect();
    let set = json!({"version": 1, "execution": {
        "R_lite": entries,
        "nodelist": [hosts.to_string()],
        "starttime": 0,
        "expiration": 0,
    }});
    format!("{set}\n")
}

/// How many `kind` the first host of a resource set (RFC 20) has; 0 when it has none.
fn counted(set: &str, kind: &str) -> Option<usize> {
    let set: Value = serde_json::from_str(set).ok()?;
    let host = set.pointer("/execution/R_lite/0")?;
    let ids = host.get("children").and_then(|children| children.get(kind));
    ids.map_or(Some(0), |ids| ids_of(ids.as_str()?).map(|ids| ids.len()))
}

/// The ids of an idset (RFC 22) such as `0-3,7`, unless these are more than [`MOST_IDS`].
pub(crate) fn ids_of(text: &str) -> Option<Vec<u32>> {
    let mut ids = Vec::new();
    for range in text.trim_matches(['[', ']']).split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let before_last = last.checked_sub(first)? as usize;
        if ids.len() + before_last >= MOST_IDS {
            return None;
        }
        ids.extend(first..=last);
    }
    Some(ids)
}

pub(crate) fn idset(ids: &[u32]) -> String {
    let ranges = ids.chunk_by(|id, next| id.checked_add(1) == Some(*next));
    let texts = ranges.map(|range| match range {
        [first, .., last] => format!("{first}-{last}"),
        [only] => only.to_string(),
        [] => String::new(),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Processors of `cpu.max`: quota and period, or `max` (or -1 in version 1) where there is no limit.
fn cpu_limit(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = r#"{"version":1,"execution":{"R_lite":[
        {"rank":"0-3","children":{"core":"0-3,8","gpu":"1"}}],"nodelist":["a-[0-3]"]}}"#;

    #[test]
    fn ids_are_counted_up_to_more_than_any_instance_has() {
        assert_eq!((counted(SET, "core"), counted(SET, "gpu")), (Some(5), Some(1)));
        assert_eq!((counted(SET, "fpga"), counted("{}", "core")), (Some(0), None));
        assert_eq!(ids_of("0-1048575").map(|ids| ids.len()), Some(1 << 20));
        for text in ["3-1", "0-1048576", "7,0-1048575", "0-4294967295"] {
            assert_eq!(ids_of(text), None, "{text}");
        }
    }

    #[test]
    fn each_host_has_the_cores_of_a_limit_in_turn_and_all_gpus() {
        let hosts = Hostlist::parse("away,a-[0-2]").unwrap();
        insta::assert_snapshot!(resource_set(&hosts, 1, 1, 0), @r#"{"execution":{"R_lite":[{"children":{"core":"0"},"rank":"0-3"}],"expiration":0,"nodelist":["away,a-[0-2]"],"starttime":0},"version":1}"#);
        let of = |cores, limit, gpus| {
            let set = resource_set(&hosts, cores, limit, gpus);
            serde_json::from_str::<Value>(&set).unwrap()["execution"]["R_lite"].take()
        };
        assert_eq!(
            of(5, 2, 2),
            json!([
                { "rank": "0,2", "children": { "core": "0-1", "gpu": "0-1" } },
                { "rank": "1,3", "children": { "core": "2-3", "gpu": "0-1" } },
            ])
        );
        assert_eq!(
            of(4, 8, 1),
            json!([{ "rank": "0-3", "children": { "core": "0-3", "gpu": "0" } }])
        );
        // More parts than hosts, and one core where the limit is less than that.
        assert_eq!(of(5, 1, 0).as_array().unwrap().len(), 4);
        assert_eq!((of(5, 0, 0), of(0, 1, 0)), (of(5, 1, 0), of(1, 1, 0)));
    }

    #[test]
    fn a_limit_is_quota_by_period_and_one_below_what_flux_schedules_is_said() {
        assert_eq!(cpu_limit("150000 100000"), Some(1.5));
        assert_eq!((cpu_limit("max 100000"), cpu_limit("-1 100000")), (None, None));
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        fs::create_dir_all(root.at("/sys/fs/cgroup")).unwrap();
        fs::write(root.at("/set"), SET).unwrap();
        fs::write(root.at("/sys/fs/cgroup/memory.max"), "268435456\n").unwrap();
        for (limit, complaint) in [("150000 100000\n", true), ("max 100000\n", false)] {
            fs::write(root.at("/sys/fs/cgroup/cpu.max"), limit).unwrap();
            let resources = Resources::read(&root, Some("/set".into()));
            assert_eq!((resources.flux_cores, resources.memory_limit), (Some(5), Some(1 << 28)));
            let said = resources.complaint().is_some_and(|text| text.contains("5 cores"));
            assert_eq!(said, complaint, "{}", resources.text());
        }
        assert_eq!(Resources::read(&root, None).flux_cores, None);
    }
}
