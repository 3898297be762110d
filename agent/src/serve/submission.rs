//! A job that a request asks for: what it says, the jobspec of that (RFC 25), and how it is given to Flux.

use crate::plan::jobspec::{Counts, Slot, Variables, jobspec};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Deserializer, Number, Value, json};
use std::collections::BTreeMap;

/// More tasks, nodes, cores or GPUs than an instance has.
const MOST: u32 = 1 << 20;
/// Thirty years, in seconds.
const LONGEST: f64 = 1e9;
/// flux-core, `src/common/libjob/job.h`.
const MOST_URGENT: u32 = 31;
const URGENCY: u32 = 16;
/// Of a job that nobody else need check: the agent makes its jobspec (flux-core, `src/common/libjob/job.h`).
const NO_VALIDATION: u32 = 8;

/// What a job has that the request says nothing of.
#[derive(Debug)]
pub(crate) struct Defaults {
    pub(crate) directory: String,
    pub(crate) environment: Variables,
    pub(crate) limits: BTreeMap<&'static str, i64>,
    /// Whether Flux is asked to check each job: the user has configured that.
    pub(crate) validated: bool,
    /// Flux's user.
    pub(crate) uid: u32,
}

/// A job as a request asks for it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Submission {
    command: Vec<String>,
    num_tasks: Option<Whole<1, MOST>>,
    num_nodes: Option<Whole<1, MOST>>,
    cores_per_task: Option<Whole<1, MOST>>,
    gpus_per_task: Option<Whole<0, MOST>>,
    cwd: Option<String>,
    #[serde(default)]
    environment: Variables,
    name: Option<String>,
    duration: Option<Number>,
    urgency: Option<Whole<0, MOST_URGENT>>,
}

/// A whole number. JSON Schema takes 8.0 for one (draft 2020-12, validation, section 6.1.1), as Python writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "f64")]
struct Whole<const LEAST: u32, const MOST: u32>(u32);

impl<const LEAST: u32, const MOST: u32> TryFrom<f64> for Whole<LEAST, MOST> {
    type Error = String;

    fn try_from(number: f64) -> Result<Self, String> {
        let whole = number.to_string().parse().ok().filter(|it| (LEAST..=MOST).contains(it));
        whole.map(Self).ok_or_else(|| format!("{number} is no whole number in {LEAST}..{MOST}"))
    }
}

impl Submission {
    /// Reads the body of a request; else what is wrong with it.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let mut reader = Deserializer::from_slice(body);
        let read: Self = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let what = if error.path().iter().len() == 0 { "the body: " } else { "" };
            let text = format!("{what}{error}");
            // Where in the text it is, is of no use for who has written it by a program.
            text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text).to_owned()
        })?;
        reader.end().map_err(|error| format!("the body: {error}"))?;
        let wrong = read.wrong();
        if wrong.is_empty() { Ok(read) } else { Err(wrong.join("; ")) }
    }

    /// What of it makes no sense.
    fn wrong(&self) -> Vec<&'static str> {
        let has_nul = |text: &String| text.contains('\0');
        let is_text = |text: &String| !text.is_empty() && !has_nul(text);
        let is_variable = |(name, value): (&String, &String)| {
            is_text(name) && !name.contains('=') && !has_nul(value)
        };
        let is_time = |it: &Number| it.as_f64().is_some_and(|it| (0.0..=LONGEST).contains(&it));
        let (Counts { nodes, tasks }, Slot { cores, gpus }) = (self.counts(), self.slot());
        let all = tasks.or(nodes).unwrap_or(1).saturating_mul(cores.max(gpus));
        [
            (self.command.first().is_some_and(is_text), "command: it has no program"),
            (!self.command.iter().any(has_nul), "command: a word has a NUL"),
            (
                self.cwd.as_ref().is_none_or(|path| path.starts_with('/') && is_text(path)),
                "cwd: it is no absolute path",
            ),
            (
                self.environment.iter().all(is_variable),
                "environment: a name is empty or has a =, or there is a NUL",
            ),
            (self.name.as_ref().is_none_or(is_text), "name: it is empty or has a NUL"),
            (
                self.duration.as_ref().is_none_or(is_time),
                "duration: it is no number of seconds up to 1e9 (0: no limit)",
            ),
            (
                nodes.zip(tasks).is_none_or(|(nodes, tasks)| nodes <= tasks),
                "num_nodes: it is more than num_tasks",
            ),
            (
                all <= MOST,
                "cores_per_task or gpus_per_task: all tasks have more than any instance has",
            ),
        ]
        .into_iter()
        .filter_map(|(is_right, what)| (!is_right).then_some(what))
        .collect()
    }

    fn counts(&self) -> Counts {
        let number = |count: Whole<1, MOST>| count.0;
        Counts { nodes: self.num_nodes.map(number), tasks: self.num_tasks.map(number) }
    }

    fn slot(&self) -> Slot {
        let cores = self.cores_per_task.map_or(1, |count| count.0);
        Slot { cores, gpus: self.gpus_per_task.map_or(0, |count| count.0) }
    }

    /// The request to `job-ingest.submit`. What the instance's owner submits needs no signature (flux-core,
    /// `src/common/libjob/sign_none.c`).
    pub(super) fn request(&self, defaults: &Defaults) -> Value {
        let header = format!("version\0i1\0userid\0i{}\0mechanism\0snone\0", defaults.uid);
        let encode = |text: &str| STANDARD.encode(text);
        let signed =
            format!("{}.{}.none", encode(&header), encode(&self.jobspec(defaults).to_string()));
        let flags = if defaults.validated { 0 } else { NO_VALIDATION };
        let urgency = self.urgency.map_or(URGENCY, |urgency| urgency.0);
        json!({ "J": signed, "urgency": urgency, "flags": flags })
    }

    /// As `flux run` makes it.
    fn jobspec(&self, defaults: &Defaults) -> Value {
        let directory = self.cwd.as_ref().unwrap_or(&defaults.directory);
        let mut environment = defaults.environment.clone();
        environment.extend(self.environment.clone());
        let limits = &defaults.limits;
        let mut jobspec =
            jobspec(self.counts(), self.slot(), &self.command, directory, &environment, limits);
        if let Some(system) =
            jobspec.pointer_mut("/attributes/system").and_then(Value::as_object_mut)
        {
            let duration = self.duration.as_ref().map_or_else(|| json!(0), |it| json!(it));
            system.insert("duration".to_owned(), duration);
            let name = self.name.as_ref();
            system.extend(name.map(|name| ("job".to_owned(), json!({ "name": name }))));
        }
        jobspec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Defaults {
        Defaults {
            directory: "/work".to_owned(),
            environment: [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())]
                .into(),
            limits: [("nofile", 1024)].into(),
            validated: false,
            uid: 1000,
        }
    }

    fn read(body: &Value) -> Result<Submission, String> {
        Submission::read(body.to_string().as_bytes())
    }

    #[test]
    fn a_request_becomes_the_job_of_flux_run() {
        let asked = read(&json!({
            "command": ["a", ""], "num_tasks": 4, "num_nodes": 2, "cores_per_task": 3, "gpus_per_task": 1, "cwd": "/x",
            "environment": { "B": "" }, "name": "n", "duration": 1.5, "urgency": 31,
        }));
        insta::assert_snapshot!(asked.unwrap().jobspec(&defaults()), @r#"{"attributes":{"system":{"cwd":"/x","duration":1.5,"environment":{"A":"1","B":""},"job":{"name":"n"},"shell":{"options":{"rlimit":{"nofile":1024}}}}},"resources":[{"count":2,"type":"node","with":[{"count":2,"label":"task","type":"slot","with":[{"count":3,"type":"core"},{"count":1,"type":"gpu"}]}]}],"tasks":[{"command":["a",""],"count":{"per_slot":1},"slot":"task"}],"version":1}"#);
        let least = read(&json!({ "command": ["a"] })).unwrap().jobspec(&defaults());
        let system = &least["attributes"]["system"];
        assert_eq!((&system["cwd"], &system["duration"]), (&json!("/work"), &json!(0)));
        assert_eq!(system.get("job"), None);
        assert_eq!(least["resources"][0]["count"], 1);
        let nodes = read(&json!({ "command": ["a"], "num_nodes": 2.0 })).unwrap();
        assert_eq!(nodes.jobspec(&defaults())["resources"][0]["exclusive"], true);
    }

    #[test]
    fn the_owner_of_the_instance_needs_no_signature() {
        let mut defaults = defaults();
        let request =
            |defaults: &Defaults| read(&json!({ "command": ["a"] })).unwrap().request(defaults);
        let asked = request(&defaults);
        assert_eq!((&asked["flags"], &asked["urgency"]), (&json!(8), &json!(16)));
        let signed: Vec<_> = asked["J"].as_str().unwrap().split('.').collect();
        let decoded = |part: &str| String::from_utf8(STANDARD.decode(part).unwrap()).unwrap();
        assert_eq!(decoded(signed[0]), "version\0i1\0userid\0i1000\0mechanism\0snone\0");
        assert_eq!(serde_json::from_str::<Value>(&decoded(signed[1])).unwrap()["version"], 1);
        assert_eq!(signed[2], "none");
        defaults.validated = true;
        assert_eq!(request(&defaults)["flags"], 0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, text) in [
            (json!({}), "missing field `command`"),
            (json!([]), "the body: invalid"),
            (json!({ "command": ["a"], "x": 1 }), "unknown field `x`, expected one of `command`, "),
            (json!({ "command": ["a", 1] }), "command[1]: invalid type: integer `1`"),
            (json!({ "command": ["a"], "num_tasks": 0 }), "num_tasks: 0 is no whole number in 1.."),
            (json!({ "command": ["a"], "num_nodes": 2.5 }), "num_nodes: 2.5 is no whole number"),
            (json!({ "command": ["a"], "gpus_per_task": -1.0 }), "gpus_per_task: -1 is"),
            (json!({ "command": ["a"], "urgency": 32 }), "urgency: 32 is no whole number in 0..31"),
            (json!({ "command": [] }), "command: it has no program"),
            (json!({ "command": ["a", "\0"] }), "command: a word has a NUL"),
            (json!({ "command": ["a"], "cwd": "x" }), "cwd: it is no absolute path"),
            (json!({ "command": ["a"], "environment": { "A=": "" } }), "environment: "),
            (json!({ "command": ["a"], "environment": { "C": "\0" } }), "environment: "),
            (json!({ "command": ["a"], "num_tasks": 1, "num_nodes": 2 }), "num_nodes: it is more"),
            (json!({ "command": ["a"], "num_tasks": 1025, "cores_per_task": 1024 }), "cores_per_"),
        ] {
            let wrong = read(&body).unwrap_err();
            assert!(wrong.contains(text), "{text}: {wrong}");
        }
        let several = json!({ "command": ["a"], "name": "", "duration": -1 });
        let expected = "name: it is empty or has a NUL; duration: it is no number of seconds";
        assert!(read(&several).unwrap_err().starts_with(expected));
        assert!(Submission::read(b"{").unwrap_err().contains("EOF"));
    }
}
