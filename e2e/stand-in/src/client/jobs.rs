//! `flux jobs`.

use serde_json::{Value, json};

use super::connection::ask;
use super::{Call, job_id};
use crate::failure::Failure;
use crate::options::{Argument, long, short};
use crate::output;
use crate::protocol::Request;
use crate::text::{duration, jobid};

/// `flux jobs [ID...]`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let choices = [
        short("a", 'a', Argument::None),
        short("A", 'A', Argument::None),
        short("no-header", 'n', Argument::None),
        short("format", 'o', Argument::Required),
        long("json", Argument::None),
        long("stats-only", Argument::None),
    ];
    let parsed = call.python_options("jobs", &choices)?;
    let answer = ask(call, "flux-jobs", &Request::Jobs { scope: call.scope() })?;
    let mut jobs: Vec<Value> = answer["jobs"].as_array().cloned().unwrap_or_default();
    if parsed.has("stats-only") {
        return Ok(statistics(&jobs));
    }
    let ids = parsed.rest.iter().map(|id| job_id(id)).collect::<Result<Vec<_>, _>>()?;
    let all = parsed.has("a") || parsed.has("A");
    jobs.retain(|job| {
        let named = job["id"].as_u64().is_some_and(|id| ids.contains(&id));
        if ids.is_empty() { all || job["state"] != "INACTIVE" } else { named }
    });
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

fn statistics(jobs: &[Value]) -> u8 {
    let count = |key: &str, value: &str| jobs.iter().filter(|job| job[key] == value).count();
    let (running, pending) = (count("state", "RUN"), count("state", "SCHED"));
    let completed = count("result", "COMPLETED");
    let failed = count("state", "INACTIVE") - completed;
    output::line(&format!(
        "{running} running, {completed} completed, {failed} failed, {pending} pending"
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
    let id = jobid::encode(job["id"].as_u64().unwrap_or_default());
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
