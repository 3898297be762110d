//! `flux jobs`.

use serde_json::{Value, json};

use super::connection::ask;
use super::{Call, usage};
use crate::failure::Failure;
use crate::options::{Argument, Choice, long, short};
use crate::output;
use crate::protocol::Request;
use crate::text::{duration, jobid};

const CHOICES: &[Choice] = &[
    short("a", 'a', Argument::None),
    short("A", 'A', Argument::None),
    short("no-header", 'n', Argument::None),
    short("format", 'o', Argument::Required),
    long("json", Argument::None),
    long("stats-only", Argument::None),
];

const NOT_SIMULATED: &[Choice] = &[
    short("count", 'c', Argument::Required),
    short("filter", 'f', Argument::Required),
    short("user", 'u', Argument::Required),
    short("queue", 'q', Argument::Required),
    short("include", 'i', Argument::Required),
    short("width", 'w', Argument::Optional),
    short("recursive", 'R', Argument::None),
    short("level", 'L', Argument::Required),
    long("since", Argument::Required),
    long("name", Argument::Required),
    long("sort", Argument::Required),
    long("color", Argument::Optional),
    long("recurse-all", Argument::None),
    long("threads", Argument::Required),
    long("stats", Argument::None),
];

/// `flux jobs [ID...]`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let choices: Vec<Choice> = [CHOICES, NOT_SIMULATED].concat();
    let parsed = call.python_options("jobs", &choices)?;
    if let Some(option) = NOT_SIMULATED.iter().find(|choice| parsed.has(choice.name)) {
        return Err(Failure::not_simulated(&format!("jobs --{}", option.name)));
    }
    let answer = ask(call, "flux-jobs", &Request::Jobs { scope: call.scope() })?;
    let mut jobs: Vec<Value> = answer["jobs"].as_array().cloned().unwrap_or_default();
    if parsed.has("stats-only") {
        return Ok(statistics(&jobs));
    }
    if parsed.rest.is_empty() {
        // `-A` is about users, `-a` about states.
        let own = nix::unistd::getuid().as_raw();
        jobs.retain(|job| {
            (parsed.has("A") || job["userid"] == own)
                && (parsed.has("a") || job["state"] != "INACTIVE")
        });
    } else {
        let ids = named(&parsed.rest, &jobs)?;
        jobs.retain(|job| job["id"].as_u64().is_some_and(|id| ids.contains(&id)));
    }
    // The newest comes first.
    jobs.reverse();
    if parsed.has("json") {
        output::line(&json!({ "jobs": jobs }).to_string());
        return Ok(0);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let format = parsed.value("format");
    if !parsed.has("no-header") {
        if format.is_some() {
            return Err(Failure::not_simulated("jobs -o without -n"));
        }
        output::line("       JOBID USER     NAME       ST NTASKS NNODES     TIME INFO");
    }
    for job in &jobs {
        output::line(&line(job, format, &users)?);
    }
    Ok(0)
}

/// The jobs that `words` name, which must all be known.
fn named(words: &[String], jobs: &[Value]) -> Result<Vec<u64>, Failure> {
    let mut ids = Vec::new();
    for word in words {
        let invalid = || usage("jobs", &format!("argument JOBID: invalid JobID value: '{word}'"));
        let id = jobid::decode(word).ok_or_else(invalid)?;
        if !jobs.iter().any(|job| job["id"] == id) {
            return Err(Failure::new(format!("JobID {word} unknown")));
        }
        ids.push(id);
    }
    Ok(ids)
}

fn statistics(jobs: &[Value]) -> u8 {
    let count = |key: &str, value: &str| jobs.iter().filter(|job| job[key] == value).count();
    let (running, pending) = (count("state", "RUN"), count("state", "SCHED"));
    let completed = count("result", "COMPLETED");
    let failed = count("state", "INACTIVE") - completed;
    output::line(&format!(
        "{running} running, {completed} completed, {failed} failed, {pending} pending, 0 inactive purged"
    ));
    u8::from(running + pending == 0)
}

fn line(job: &Value, format: Option<&str>, users: &str) -> Result<String, Failure> {
    let text = |key: &str| match &job[key] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    };
    let id = jobid::encode_in_python(job["id"].as_u64().unwrap_or_default());
    let user = job["userid"].as_u64().unwrap_or_default().to_string();
    let user = crate::client::uptime::user(&user, users).to_owned();
    let Some(format) = format else {
        let runtime = job["runtime"].as_f64().unwrap_or_default();
        let time = if runtime > 0.0 { duration::format(runtime, 4) } else { "-".to_owned() };
        return Ok(format!(
            "{id:>12} {user:<8.8} {name:<10.10} {status:>2} {tasks:>6} {nodes:>6} {time:>8} {hosts}",
            name = text("name"),
            status = text("status_abbrev"),
            tasks = text("ntasks"),
            nodes = text("nnodes"),
            hosts = text("nodelist"),
        ));
    };
    let tags = [
        "name",
        "state",
        "status",
        "status_abbrev",
        "result",
        "returncode",
        "ntasks",
        "nnodes",
        "nodelist",
        "ranks",
        "userid",
        "success",
    ];
    let mut line = format.replace("{id}", &id).replace("{id.f58}", &id);
    line = line.replace("{id.dec}", &text("id")).replace("{username}", &user);
    for tag in tags {
        line = line.replace(&format!("{{{tag}}}"), &text(tag));
    }
    if line.contains('{') {
        return Err(Failure::not_simulated(&format!("format {format}")));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_filled_in_or_refused() {
        let job = json!({"id": 58, "name": "x", "status": "COMPLETED", "returncode": 0});
        let users = "";
        let filled = line(&job, Some("{id.dec} {name} {returncode}"), users).expect("formats");
        assert_eq!(filled, "58 x 0");
        assert_eq!(line(&job, Some("{t_run}"), users).expect_err("refused").code, 64);
    }
}
