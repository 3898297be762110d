//! A job as the clients of flux-restful submit it: in the query, with variables of the environment in the body.

use crate::query::Query;
use crate::submission::{Defaults, Fields, Submission, object};
use flux_protocol::jobspec::Variables;
use serde_json::{Map, Value, json};

/// Fields that are numbers.
const NUMBERS: [&str; 5] = ["num_tasks", "cores_per_task", "gpus_per_task", "num_nodes", "runtime"];
/// Fields that have another name in [`Submission`].
const RENAMED: [(&str, &str); 3] =
    [("envars", "environment"), ("workdir", "cwd"), ("runtime", "duration")];

/// Parts that the name of an option may have: more than Flux knows, and few enough to be a document inside of documents.
const MOST_PARTS: usize = 8;

/// A job that a client of flux-restful submits.
#[derive(Debug, PartialEq)]
pub(crate) struct Submitted {
    pub(crate) submission: Submission,
    exclusive: bool,
    /// Options of Flux's shell.
    options: Vec<(String, Value)>,
}

impl Submitted {
    /// Reads a request. The error has all that is wrong with it.
    pub(crate) fn read(query: &Query, body: &[u8]) -> Result<Self, Vec<String>> {
        let mut fields = Fields { object: of_query(query), wrong: Vec::new() };
        take_body(&mut fields, body);
        let options = options(&mut fields);
        let exclusive = take_switch(&mut fields, "exclusive");
        if exclusive && !fields.object.contains_key("num_nodes") {
            fields.wrong("exclusive", "give num_nodes, too: whole nodes are what is exclusive");
        }
        if take_switch(&mut fields, "is_launcher") {
            let what = "this server starts no launcher: submit it as the command of a job";
            fields.wrong("is_launcher", what);
        }
        split_command(&mut fields);
        for (name, other) in RENAMED {
            let value = fields.object.remove(name);
            fields.object.extend(value.map(|value| (other.to_owned(), value)));
        }
        // A job has one task by default, or one on each node.
        if let Some(nodes) = fields.object.get("num_nodes").cloned() {
            fields.object.entry("num_tasks").or_insert(nodes);
        }
        Ok(Self { submission: Submission::of(fields)?, exclusive, options })
    }

    /// The jobspec, as flux-restful makes it.
    pub(crate) fn jobspec(&self, defaults: &Defaults) -> Value {
        let mut jobspec = self.submission.jobspec(defaults);
        if self.exclusive {
            jobspec["resources"][0]["exclusive"] = true.into();
        }
        for (name, value) in &self.options {
            let shell = &mut jobspec["attributes"]["system"]["shell"];
            let place = name.split('.').fold(&mut shell["options"], |at, name| {
                // A value that is no object gives way.
                if !at.is_object() {
                    *at = json!({});
                }
                &mut at[name]
            });
            *place = value.clone();
        }
        jobspec
    }
}

/// The fields in a query: numbers as such, the variables as the object that Python has written.
fn of_query(query: &Query) -> Map<String, Value> {
    let value = |name: &str, text: &str| match name {
        _ if NUMBERS.contains(&name) => text.parse().map_or_else(|_| text.into(), u64::into),
        // A dictionary of strings is JSON5 as Python prints it.
        "envars" => {
            json5::from_str::<Variables>(text).map_or_else(|_| text.into(), |all| json!(all))
        }
        _ => Value::from(text),
    };
    query.iter().map(|(name, text)| (name.clone(), value(name, text))).collect()
}

/// Takes what is in the body: the variables; or all fields, in the request that `flux-restful-client` 0.2.1 repeats when
/// it had to authenticate.
fn take_body(fields: &mut Fields, body: &[u8]) {
    if body.is_empty() {
        return;
    }
    match object(body) {
        Ok(body) if !fields.object.contains_key("command") && body.contains_key("command") => {
            // These clients write `null` for what is not given.
            fields.object.extend(body.into_iter().filter(|(_, value)| !value.is_null()));
        }
        Ok(body) => drop(fields.object.insert("envars".to_owned(), body.into())),
        Err(why) => fields.wrong.push(why),
    }
}

/// Splits the command at blanks, as a shell does.
fn split_command(fields: &mut Fields) {
    let Some(Value::String(text)) = fields.object.get("command") else { return };
    let (text, words) = (text.clone(), shlex::split(text));
    if words.is_none() {
        let what = "a quotation mark is open, or a backslash is the last character";
        fields.wrong("command", what);
    }
    fields.object.insert("command".to_owned(), words.unwrap_or_else(|| vec![text]).into());
}

/// Whether a switch is on. Python's `True` is one, too.
pub(crate) fn switch(name: &str, value: Option<Value>) -> Result<bool, String> {
    let value = value.unwrap_or(Value::Bool(false));
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_ascii_lowercase);
    text.parse().map_err(|_| format!("{name}: {value} is neither true nor false"))
}

fn take_switch(fields: &mut Fields, name: &str) -> bool {
    let is_on = switch(name, fields.object.remove(name));
    is_on.unwrap_or_else(|why| {
        fields.wrong.push(why);
        false
    })
}

/// The options of Flux's shell, as in `a=1,b.c=x`.
fn options(fields: &mut Fields) -> Vec<(String, Value)> {
    let text = match fields.object.remove("option_flags") {
        None => return Vec::new(),
        Some(Value::String(text)) => text,
        Some(other) => {
            fields.wrong("option_flags", format!("{other} is no string"));
            return Vec::new();
        }
    };
    let mut options = Vec::new();
    for option in text.split(',') {
        let Some((name, value)) = option.split_once('=') else {
            fields.wrong("option_flags", format!("{option:?} is not NAME=VALUE"));
            continue;
        };
        // The clients look for these words.
        if name.starts_with('-') {
            let what = format!("Please provide keys without -o, {name} is invalid.");
            fields.wrong("option_flags", what);
        } else if name.split('.').any(str::is_empty) || name.split('.').count() > MOST_PARTS {
            fields.wrong("option_flags", format!("{name:?} is no name of an option"));
        }
        // As `flux run --setopt` takes it.
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        options.push((name.to_owned(), value));
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{names, read};
    use crate::submission::tests::defaults;
    use axum::http::Method;

    fn submitted(query: &str, body: &str) -> Result<Value, String> {
        let query = read(query, &names("/v1/jobs/submit", &Method::POST))
            .map_err(|refusal| refusal.detail)?;
        let submitted = Submitted::read(&query, body.as_bytes()).map_err(|all| all.join("; "))?;
        Ok(submitted.jobspec(&defaults()))
    }

    #[test]
    fn a_request_becomes_the_job_of_flux_restful() {
        let all = "command=a+%27b+c%27&num_tasks=4&num_nodes=2&cores_per_task=3&gpus_per_task=1&exclusive=true\
            &option_flags=verbose%3D1,mpi%3Dnone,rlimit.nofile%3D5,rlimit.core.x%3D6&workdir=/x&runtime=7&is_launcher=false";
        insta::assert_snapshot!(submitted(all, r#"{"B":"3"}"#).unwrap(), @r#"{"attributes":{"system":{"cwd":"/x","duration":7,"environment":{"A":"1","B":"3"},"shell":{"options":{"mpi":"none","rlimit":{"core":{"x":6},"nofile":5},"verbose":1}}}},"resources":[{"count":2,"exclusive":true,"type":"node","with":[{"count":2,"label":"task","type":"slot","with":[{"count":3,"type":"core"},{"count":1,"type":"gpu"}]}]}],"tasks":[{"command":["a","b c"],"count":{"per_slot":1},"slot":"task"}],"version":1}"#);
        let least = submitted("command=a", "").unwrap();
        assert_eq!(least["resources"][0]["count"], 1);
        let nodes = submitted("command=a&num_nodes=2", "").unwrap();
        let node = &nodes["resources"][0];
        assert_eq!((&node["exclusive"], &node["with"][0]["count"]), (&Value::Null, &json!(1)));
        // As httpx sends a dictionary of Python in a query.
        let query =
            "command=a&envars=%7B%27B%27%3A+%22it%27s%22%2C+%27C%27%3A+%27x%5C%5Cy%5Cn%27%7D";
        let environment = &submitted(query, "").unwrap()["attributes"]["system"]["environment"];
        assert_eq!(environment, &json!({ "A": "1", "B": "it's", "C": "x\\y\n" }));
        // As 0.2.1 repeats it.
        let body = r#"{"command":"a b","num_tasks":2,"num_nodes":null,"exclusive":false,"envars":{"B":"3"}}"#;
        let repeated = submitted("", body).unwrap();
        assert_eq!(repeated["tasks"][0]["command"], json!(["a", "b"]));
        assert_eq!(repeated["attributes"]["system"]["environment"]["B"], "3");
    }

    #[test]
    fn all_that_is_wrong_is_in_the_refusal() {
        for (query, body, wrong) in [
            ("", "", vec!["command: it is missing"]),
            ("command=", "", vec!["command: it is no list"]),
            ("command=a+%27b", "", vec!["command: a quotation mark is open"]),
            ("command=a", "[]", vec!["the body: it is no JSON object"]),
            ("command=a", "{", vec!["the body: EOF"]),
            ("command=a", r#"{"B":1}"#, vec!["environment.B: "]),
            ("command=a&envars=%5B", "", vec!["environment: it is no object"]),
            ("command=a&num_tasks=x&workdir=y", "", vec!["num_tasks: \"x\" is no", "cwd: \"y\""]),
            ("command=a&num_tasks=1&num_nodes=2", "", vec!["num_nodes: 2 is more than"]),
            ("command=a&exclusive=true", "", vec!["exclusive: give num_nodes"]),
            ("command=a&exclusive=maybe", "", vec!["exclusive: \"maybe\" is neither"]),
            ("command=a&is_launcher=True", "", vec!["is_launcher: "]),
            ("command=a&option_flags=-o%3Dx", "", vec!["Please provide keys without -o, -o"]),
            ("command=a&option_flags=y,.z%3D1", "", vec!["\"y\" is not", "\".z\" is no"]),
            ("", r#"{"command":"a","option_flags":{}}"#, vec!["option_flags: {} is no"]),
            ("", r#"{"command":"a","x":1}"#, vec!["x: not known"]),
        ] {
            let refused = submitted(query, body).unwrap_err();
            for text in wrong {
                assert!(refused.contains(text), "{query} {body}: {text}: {refused}");
            }
        }
    }

    /// No text makes the reader, or the jobspec, recurse.
    #[test]
    fn nothing_becomes_a_deep_document() {
        let brackets = "%5B".repeat(16 << 10);
        assert!(submitted(&format!("command=a&envars={brackets}"), "").is_err());
        let parts = "a.".repeat(500_000);
        for body in [
            format!(r#"{{"command":"a","option_flags":"{parts}a=1"}}"#),
            format!(r#"{{"command":"a","option_flags":"a={}"}}"#, "[".repeat(1 << 19)),
        ] {
            let _ = submitted("", &body);
        }
        assert!(submitted("command=a&option_flags=a.a.a.a.a.a.a.a.a%3D1", "").is_err());
    }
}
