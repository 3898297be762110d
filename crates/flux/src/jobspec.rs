//! The jobspec (RFC 25) that `flux run` submits for a command with numbers of nodes and tasks and nothing else, and the
//! environment that it gives to the job: to the byte those of flux-core 0.88 (`flux/cli/base.py`, `flux/job/Jobspec.py`).

use clap::{Args, value_parser};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// An environment of which everything is UTF-8, as that of a job has to be.
pub(crate) type Variables = BTreeMap<String, String>;

/// Variables that change which files `flux run` is made of, or what Python does with the environment.
const OF_FLUX_RUN: [&str; 6] = [
    "FLUX_CLI_PLUGINPATH",
    "FLUX_CLI_PLUGINPATH_OVERRIDE",
    "FLUX_EXEC_PATH_PREPEND",
    "FLUX_PYTHONPATH_PREPEND",
    "PYTHONCOERCECLOCALE",
    "PYTHONHOME",
];
/// Where the wrapper of Flux's Python programs keeps the list of the caller (flux-core, `cmd/py-runner.py`).
const ORIGINAL_PYTHON_PATH: &str = "FLUX_PYTHONPATH_ORIG";

/// How large a job is, as `flux run` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub(crate) struct Counts {
    /// Nodes; alone, whole nodes with a task each
    #[arg(short = 'N', value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) nodes: Option<u32>,
    /// Tasks
    #[arg(short = 'n', value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) tasks: Option<u32>,
}

/// What a task gets of the node that it runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) cores: u32,
    pub(crate) gpus: u32,
}

impl Slot {
    pub(crate) const ONE_CORE: Self = Self { cores: 1, gpus: 0 };
}

/// Why the job of `flux run` in `environment` is not known, if it is not.
pub(crate) fn obstacle(environment: &Variables) -> Option<String> {
    if let Some(name) = OF_FLUX_RUN.into_iter().find(|name| environment.contains_key(*name)) {
        return Some(format!("{name} is set"));
    }
    let locale = locale(environment);
    (!is_c(locale) && !locale.starts_with("C.") && !has_for_all(environment))
        .then(|| format!("whether the C library has the locale {locale} is not known"))
}

/// `environment`, which is that behind the front end `flux`, as `flux run` has it.
pub(crate) fn of_flux_run(mut environment: Variables) -> Variables {
    if let Some(path) = environment.remove("PYTHONPATH") {
        let mut seen = BTreeSet::new();
        let once = |entry: &&str| !entry.is_empty() && seen.insert((*entry).to_owned());
        let path = path.split(':').filter(once).collect::<Vec<_>>().join(":");
        environment.insert(ORIGINAL_PYTHON_PATH.to_owned(), path);
    }
    if let Some(path) = environment.get(ORIGINAL_PYTHON_PATH).cloned() {
        environment.insert("PYTHONPATH".to_owned(), path);
    }
    // Python takes another locale for that of C and says so in the environment (PEP 538). Every C library of today has it.
    if is_c(locale(&environment)) && !has_for_all(&environment) {
        environment.insert("LC_CTYPE".to_owned(), "C.UTF-8".to_owned());
    }
    environment
}

fn value<'set>(environment: &'set Variables, name: &str) -> Option<&'set str> {
    environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

fn has_for_all(environment: &Variables) -> bool {
    value(environment, "LC_ALL").is_some()
}

fn locale(environment: &Variables) -> &str {
    value(environment, "LC_CTYPE").or_else(|| value(environment, "LANG")).unwrap_or("C")
}

fn is_c(locale: &str) -> bool {
    ["C", "POSIX"].contains(&locale)
}

/// The job of `command` in `directory`, with the soft limits that it gets, by the names that Flux's shell knows.
pub(crate) fn jobspec(
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
    use clap::Parser;
    use serde::Deserialize;

    /// What `flux run --dry-run` of flux-core 0.88.0 printed, and which environment `flux /PATH/TO/PROGRAM` gave to a
    /// program where it did.
    const RECORDED: &str = include_str!("../../tests/recorded/flux_run.json");

    #[derive(Deserialize)]
    struct Recorded {
        flags: Vec<String>,
        command: Vec<String>,
        environment: Variables,
        jobspec: Value,
    }

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        counts: Counts,
    }

    #[test]
    fn the_jobspec_is_that_of_flux_run() {
        let recorded: Vec<Recorded> = serde_json::from_str(RECORDED).unwrap();
        for Recorded { flags, command, environment, jobspec: expected } in recorded {
            let words = ["submit".to_owned()].into_iter().chain(flags);
            let Flags { counts } = Flags::try_parse_from(words).unwrap();
            assert_eq!(obstacle(&environment), None);
            let system = &expected["attributes"]["system"];
            let limits = system["shell"]["options"]["rlimit"].as_object().unwrap();
            let limits =
                limits.iter().map(|(name, limit)| (name.as_str(), limit.as_i64().unwrap()));
            let (limits, environment) = (limits.collect(), of_flux_run(environment));
            assert_eq!(
                jobspec(counts, Slot::ONE_CORE, &command, "/tmp", &environment, &limits),
                expected
            );
        }
    }

    #[test]
    fn what_python_makes_of_a_locale_or_a_path_of_its_own_is_not_known() {
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
