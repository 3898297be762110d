//! A job that a client submits: the request, and its jobspec (RFC 25).

use flux_protocol::jobspec::{Counts, Slot, Variables, jobspec};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;

/// More tasks, nodes, cores or GPUs than an instance has.
const MOST: u64 = 1 << 20;
/// Thirty years, in seconds.
const LONGEST: f64 = 1e9;
/// flux-core, `src/common/libjob/job.h`.
const URGENCIES: RangeInclusive<u64> = 0..=31;
const URGENCY: u64 = 16;
/// The fields that a request may have.
const FIELDS: &str = "command, num_tasks, num_nodes, cores_per_task, gpus_per_task, cwd, environment, name, duration, urgency";

/// What a job gets where the request has no field for it.
#[derive(Debug)]
pub(crate) struct Defaults {
    pub(crate) directory: String,
    pub(crate) environment: Variables,
    pub(crate) limits: BTreeMap<String, i64>,
    /// The validators of Flux check each job: the user has configured that.
    pub(crate) validated: bool,
    /// Flux's user.
    pub(crate) uid: u32,
}

/// A job that a client submits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Submission {
    command: Vec<String>,
    counts: Counts,
    slot: Slot,
    directory: Option<String>,
    environment: Variables,
    name: Option<String>,
    duration: Value,
    pub(crate) urgency: u64,
}

impl Submission {
    /// Reads the body of a request.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Vec<String>> {
        let object = object(body).map_err(|why| vec![why])?;
        Self::of(Fields { object, wrong: Vec::new() })
    }

    /// The job with these fields. The error has all that is wrong with them.
    pub(crate) fn of(mut fields: Fields) -> Result<Self, Vec<String>> {
        let nodes = fields.count("num_nodes", 1..=MOST);
        let tasks = fields.count("num_tasks", 1..=MOST);
        let cores = fields.count("cores_per_task", 1..=MOST).unwrap_or(1);
        let gpus = fields.count("gpus_per_task", 0..=MOST).unwrap_or(0);
        let submission = Self {
            command: fields.command(),
            counts: Counts { nodes, tasks },
            slot: Slot { cores, gpus },
            directory: fields.directory(),
            environment: fields.environment(),
            name: fields.text("name"),
            duration: fields.duration(),
            urgency: fields.number("urgency", URGENCIES).unwrap_or(URGENCY),
        };
        fields.finish(&submission)?;
        Ok(submission)
    }

    /// The jobspec, as `flux run` makes it.
    pub(crate) fn jobspec(&self, defaults: &Defaults) -> Value {
        let directory = self.directory.as_ref().unwrap_or(&defaults.directory);
        let mut environment = defaults.environment.clone();
        environment.extend(self.environment.clone());
        let limits = defaults.limits.iter().map(|(name, limit)| (name.as_str(), *limit)).collect();
        let mut jobspec =
            jobspec(self.counts, self.slot, &self.command, directory, &environment, &limits);
        let system = &mut jobspec["attributes"]["system"];
        system["duration"] = self.duration.clone();
        if let Some(name) = &self.name {
            system["job"]["name"] = name.as_str().into();
        }
        jobspec
    }
}

/// The object that is the body of a request.
pub(crate) fn object(body: &[u8]) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("the body: it is no JSON object".to_owned()),
        Err(error) => Err(format!("the body: {error}")),
    }
}

/// The fields of a request that are still to be read, and what was wrong with the others.
pub(crate) struct Fields {
    pub(crate) object: Map<String, Value>,
    pub(crate) wrong: Vec<String>,
}

impl Fields {
    pub(crate) fn wrong(&mut self, name: &str, what: impl Display) {
        self.wrong.push(format!("{name}: {what}"));
    }

    fn number(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.object.remove(name)?;
        let number = whole(&value).filter(|number| range.contains(number));
        if number.is_none() {
            let (first, last) = range.into_inner();
            self.wrong(name, format!("{value} is no whole number in {first}..{last}"));
        }
        number
    }

    fn count(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u32> {
        self.number(name, range).and_then(|number| number.try_into().ok())
    }

    fn text(&mut self, name: &str) -> Option<String> {
        let value = self.object.remove(name)?;
        match value.as_str() {
            Some(text) if is_text(text) => return Some(text.to_owned()),
            Some(_) => self.wrong(name, "it is empty or has a NUL"),
            None => self.wrong(name, format!("{value} is no string")),
        }
        None
    }

    fn command(&mut self) -> Vec<String> {
        let words = match self.object.remove("command") {
            Some(Value::Array(words)) if !words.is_empty() => Ok(words),
            Some(_) => Err("it is no list of at least one string"),
            None => Err("it is missing: a list of strings, program and arguments"),
        };
        let words = words.map_err(|what| self.wrong("command", what)).unwrap_or_default();
        let mut command = Vec::new();
        for (at, word) in words.into_iter().enumerate() {
            let is_right = |word: &&str| is_text(word) || (at > 0 && word.is_empty());
            if let Some(word) = word.as_str().filter(is_right) {
                command.push(word.to_owned());
            } else {
                let what = format!("{word} is no string, or is empty or has a NUL");
                self.wrong(&format!("command[{at}]"), what);
            }
        }
        command
    }

    fn directory(&mut self) -> Option<String> {
        let directory = self.text("cwd")?;
        if !directory.starts_with('/') {
            self.wrong("cwd", format!("{directory:?} is no absolute path"));
        }
        Some(directory)
    }

    fn environment(&mut self) -> Variables {
        let given = self.object.remove("environment").unwrap_or_else(|| json!({}));
        let Value::Object(variables) = given else {
            self.wrong("environment", "it is no object of strings");
            return Variables::new();
        };
        let mut environment = Variables::new();
        for (name, value) in variables {
            match value.as_str().filter(|value| !value.contains('\0')) {
                _ if !is_text(&name) || name.contains('=') => {
                    self.wrong("environment", format!("{name:?} is no name of a variable"));
                }
                Some(value) => drop(environment.insert(name, value.to_owned())),
                None => self.wrong(&format!("environment.{name}"), "it is no string without a NUL"),
            }
        }
        environment
    }

    fn duration(&mut self) -> Value {
        let Some(value) = self.object.remove("duration") else { return json!(0) };
        if !value.as_f64().is_some_and(|seconds| (0.0..=LONGEST).contains(&seconds)) {
            let what = format!("{value} is no number of seconds up to {LONGEST:e} (0: no limit)");
            self.wrong("duration", what);
        }
        value
    }

    /// Refuses unknown fields, and fields that contradict each other.
    fn finish(mut self, submission: &Submission) -> Result<(), Vec<String>> {
        let Counts { nodes, tasks } = submission.counts;
        if let (Some(nodes), Some(tasks)) = (nodes, tasks)
            && nodes > tasks
        {
            self.wrong("num_nodes", format!("{nodes} is more than num_tasks, {tasks}"));
        }
        let tasks = u64::from(tasks.or(nodes).unwrap_or(1));
        let Slot { cores, gpus } = submission.slot;
        for (name, each) in [("cores_per_task", cores), ("gpus_per_task", gpus)] {
            let all = tasks * u64::from(each);
            if all > MOST {
                self.wrong(name, format!("{all} for all tasks is more than any instance has"));
            }
        }
        for name in std::mem::take(&mut self.object).keys() {
            self.wrong(name, format!("not known (known are: {FIELDS})"));
        }
        if self.wrong.is_empty() { Ok(()) } else { Err(self.wrong) }
    }
}

/// A whole number. JSON Schema takes 8.0 for one (draft 2020-12, validation, section 6.1.1), as Python writes it.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64()?.to_string().parse().ok())
}

fn is_text(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn defaults() -> Defaults {
        Defaults {
            directory: "/work".to_owned(),
            environment: [("A", "1"), ("B", "2")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
            limits: [("nofile".to_owned(), 1024)].into(),
            validated: false,
            uid: 1000,
        }
    }

    fn read(body: &Value) -> Result<Submission, String> {
        Submission::read(body.to_string().as_bytes()).map_err(|wrong| wrong.join("; "))
    }

    #[test]
    fn a_request_becomes_the_job_of_flux_run() {
        let asked = read(&json!({
            "command": ["a", ""], "num_tasks": 4, "num_nodes": 2, "cores_per_task": 3, "gpus_per_task": 1, "cwd": "/x",
            "environment": { "B": "" }, "name": "n", "duration": 1.5, "urgency": 31,
        }));
        insta::assert_snapshot!(asked.unwrap().jobspec(&defaults()), @r#"{"attributes":{"system":{"cwd":"/x","duration":1.5,"environment":{"A":"1","B":""},"job":{"name":"n"},"shell":{"options":{"rlimit":{"nofile":1024}}}}},"resources":[{"count":2,"type":"node","with":[{"count":2,"label":"task","type":"slot","with":[{"count":3,"type":"core"},{"count":1,"type":"gpu"}]}]}],"tasks":[{"command":["a",""],"count":{"per_slot":1},"slot":"task"}],"version":1}"#);
        let least = read(&json!({ "command": ["a"] })).unwrap();
        assert_eq!(least.urgency, 16);
        let least = least.jobspec(&defaults());
        let system = &least["attributes"]["system"];
        assert_eq!(
            json!([system["cwd"], system["duration"], system["job"]]),
            json!(["/work", 0, null])
        );
        assert_eq!(least["resources"][0]["count"], 1);
        let nodes = read(&json!({ "command": ["a"], "num_nodes": 2.0 })).unwrap();
        assert_eq!(nodes.jobspec(&defaults())["resources"][0]["exclusive"], true);
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let wrong = read(&json!({
            "command": ["", 1], "num_tasks": 0, "num_nodes": 2.5, "cores_per_task": null, "cwd": "x",
            "gpus_per_task": -1.0, "environment": { "A=": "", "C": 1, "D": "\0" }, "name": "", "duration": -1, "urgency": 32, "x": 1,
        }));
        let wrong = wrong.unwrap_err();
        for text in [
            "command[0]: \"\" is no string, or is empty",
            "command[1]: 1 is no string",
            "num_tasks: 0 is no whole number in 1..",
            "num_nodes: 2.5",
            "cores_per_task: null",
            "gpus_per_task: -1.0",
            "cwd: \"x\" is no absolute path",
            "environment: \"A=\"",
            "environment.C: ",
            "environment.D: ",
            "name: it is empty",
            "duration: -1",
            "urgency: 32 is no whole number in 0..31",
            "x: not known (known are: command, ",
        ] {
            assert!(wrong.contains(text), "{text}: {wrong}");
        }
        for (body, text) in [
            (json!({}), "command: it is missing"),
            (json!({ "command": [] }), "command: it is no list"),
            (json!([]), "the body: it is no JSON object"),
            (json!({ "command": ["a"], "num_tasks": 1, "num_nodes": 2 }), "num_nodes: 2 is more"),
            (json!({ "command": ["a"], "num_tasks": 1025, "cores_per_task": 1024 }), "cores_per_"),
        ] {
            assert!(read(&body).unwrap_err().starts_with(text), "{body}");
        }
        assert!(Submission::read(b"{").unwrap_err()[0].starts_with("the body: EOF"));
    }
}
