//! Jobspecs (RFC 25): the one that `flux run` submits for a command with numbers of nodes and tasks and no other option,
//! and the environment that `flux run` gives to the job. Both are to the byte those of flux-core 0.88 (`flux/cli/base.py`,
//! `flux/job/Jobspec.py`).

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// An environment. A job can have only UTF-8 in it.
pub type Variables = BTreeMap<String, String>;

/// The soft limits that `flux run` passes on to a job, by the names that Flux's shell knows.
pub const LIMITS: [&str; 9] =
    ["as", "core", "cpu", "data", "fsize", "nofile", "nproc", "rss", "stack"];

/// Variables that change which files `flux run` is made of, or what Python does with the environment.
const CHANGING_FLUX_RUN: [&str; 6] = [
    "FLUX_CLI_PLUGINPATH",
    "FLUX_CLI_PLUGINPATH_OVERRIDE",
    "FLUX_EXEC_PATH_PREPEND",
    "FLUX_PYTHONPATH_PREPEND",
    "PYTHONCOERCECLOCALE",
    "PYTHONHOME",
];
/// The variable in which the wrapper of Flux's Python programs keeps `PYTHONPATH` of its caller (flux-core, `cmd/py-runner.py`).
const ORIGINAL_PYTHON_PATH: &str = "FLUX_PYTHONPATH_ORIG";

/// The size of a job, as the options of `flux run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Nodes. Without a number of tasks, the job gets whole nodes and has a task on each.
    pub nodes: Option<u32>,
    /// Tasks.
    pub tasks: Option<u32>,
}

/// The resources of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Cores of each task.
    pub cores: u32,
    /// GPUs of each task.
    pub gpus: u32,
}

impl Slot {
    /// The default of `flux run`.
    pub const ONE_CORE: Self = Self { cores: 1, gpus: 0 };
}

/// Why this crate cannot predict the job that `flux run` would submit in `environment`, if it cannot.
pub fn obstacle(environment: &Variables) -> Option<String> {
    if let Some(name) = CHANGING_FLUX_RUN.into_iter().find(|name| environment.contains_key(*name)) {
        return Some(format!("{name} is set"));
    }
    let locale = locale(environment);
    (!is_c(locale) && !locale.starts_with("C.") && !has_lc_all(environment))
        .then(|| format!("whether the C library has the locale {locale} is not known"))
}

/// The environment that `flux run` gives to a job, made from `environment`, in which the front end `flux` starts programs.
pub fn flux_run_environment(mut environment: Variables) -> Variables {
    if let Some(path) = environment.remove("PYTHONPATH") {
        let mut seen = BTreeSet::new();
        let once = |entry: &&str| !entry.is_empty() && seen.insert((*entry).to_owned());
        let path = path.split(':').filter(once).collect::<Vec<_>>().join(":");
        environment.insert(ORIGINAL_PYTHON_PATH.to_owned(), path);
    }
    if let Some(path) = environment.get(ORIGINAL_PYTHON_PATH).cloned() {
        environment.insert("PYTHONPATH".to_owned(), path);
    }
    // Python replaces the locale C by another one, which every C library of today has, and sets the variable (PEP 538).
    if is_c(locale(&environment)) && !has_lc_all(&environment) {
        environment.insert("LC_CTYPE".to_owned(), "C.UTF-8".to_owned());
    }
    environment
}

fn value<'set>(environment: &'set Variables, name: &str) -> Option<&'set str> {
    environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

fn has_lc_all(environment: &Variables) -> bool {
    value(environment, "LC_ALL").is_some()
}

fn locale(environment: &Variables) -> &str {
    value(environment, "LC_CTYPE").or_else(|| value(environment, "LANG")).unwrap_or("C")
}

fn is_c(locale: &str) -> bool {
    ["C", "POSIX"].contains(&locale)
}

/// The jobspec of `command` in `directory`, with the soft `limits` of its processes by the names of [`LIMITS`].
pub fn jobspec(
    counts: Counts,
    slot: Slot,
    command: &[String],
    directory: &str,
    environment: &Variables,
    limits: &BTreeMap<&str, i64>,
) -> Value {
    let slots = |count| {
        let mut with = vec![json!({ "type": "core", "count": slot.cores })];
        with.extend((slot.gpus > 0).then(|| json!({ "type": "gpu", "count": slot.gpus })));
        json!({ "type": "slot", "count": count, "with": with, "label": "task" })
    };
    let mut per_task = json!({ "per_slot": 1 });
    let resource = if let Some(nodes) = counts.nodes {
        let tasks = counts.tasks.unwrap_or(nodes);
        if !tasks.is_multiple_of(nodes) {
            per_task = json!({ "total": tasks });
        }
        let slots = slots(tasks.div_ceil(nodes));
        let mut node = json!({ "type": "node", "count": nodes, "with": [slots] });
        if counts.tasks.is_none() {
            node["exclusive"] = true.into();
        }
        node
    } else {
        slots(counts.tasks.unwrap_or(1))
    };
    json!({
        "resources": [resource],
        "tasks": [{ "command": command, "slot": "task", "count": per_task }],
        "attributes": { "system": {
            "duration": 0,
            "environment": environment,
            "cwd": directory,
            "shell": { "options": { "rlimit": limits } },
        } },
        "version": 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// The output of `flux run --dry-run` of flux-core 0.88.0, and the environment that `flux /PATH/TO/PROGRAM` gave to a
    /// program at the same place.
    const RECORDED: &str = include_str!("../tests/recorded/flux_run.json");

    #[derive(Deserialize)]
    struct Recorded {
        flags: Vec<String>,
        command: Vec<String>,
        environment: Variables,
        jobspec: Value,
    }

    /// Reads flags such as `-N 2 -n4`.
    fn counts(flags: &[String]) -> Counts {
        let text = flags.concat();
        let (nodes, tasks) = text.split_once("-n").unwrap_or((text.as_str(), ""));
        let nodes = nodes.strip_prefix("-N").and_then(|count| count.parse().ok());
        Counts { nodes, tasks: tasks.parse().ok() }
    }

    #[test]
    fn jobspecs_are_those_of_flux_run() {
        let recorded: Vec<Recorded> = serde_json::from_str(RECORDED).unwrap();
        for Recorded { flags, command, environment, jobspec: expected } in recorded {
            assert_eq!(obstacle(&environment), None);
            let system = &expected["attributes"]["system"];
            let limits = system["shell"]["options"]["rlimit"].as_object().unwrap();
            let limits = limits.iter().map(|(name, it)| (name.as_str(), it.as_i64().unwrap()));
            let limits: BTreeMap<_, _> = limits.collect();
            assert!(limits.keys().eq(&LIMITS), "{limits:?}");
            let (counts, environment) = (counts(&flags), flux_run_environment(environment));
            let found = jobspec(counts, Slot::ONE_CORE, &command, "/tmp", &environment, &limits);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn other_locales_and_settings_of_python_are_obstacles() {
        for (variables, is_known) in [
            (&[("LANG", "en_US.UTF-8")][..], false),
            (&[("LANG", "en_US.UTF-8"), ("LC_ALL", "C")], true),
            (&[("LANG", "en_US.UTF-8"), ("LC_CTYPE", "C.utf8")], true),
            (&[("LANG", "POSIX"), ("LC_CTYPE", "de_DE")], false),
            (&[("FLUX_CLI_PLUGINPATH_OVERRIDE", "")], false),
            (&[("PYTHONPATH", "/app")], true),
            (&[], true),
        ] {
            let own = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            assert_eq!(obstacle(&own.collect()).is_none(), is_known, "{variables:?}");
        }
    }
}
