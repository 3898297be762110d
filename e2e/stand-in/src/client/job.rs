//! `flux job`.

use super::connection::ask;
use super::submit::follow;
use super::{Call, job_id};
use crate::failure::Failure;
use crate::output;
use crate::protocol::Request;
use crate::text::jobid;

/// `flux job SUBCOMMAND`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    match call.words.first().map_or("", String::as_str) {
        "wait" => wait(call),
        "status" => status(call),
        "last" => last(call),
        _ => eventlog(call),
    }
}

fn wait(call: &Call) -> Result<u8, Failure> {
    let parsed = call.of_subcommand("job", "wait", "a|all v|verbose!")?;
    if !parsed.has("all") || !parsed.rest.is_empty() {
        return Err(Failure::not_simulated("job wait but with --all"));
    }
    let mut code = 0;
    loop {
        match ask(call, "flux-job", &Request::Wait(call.scope())) {
            Ok(result) => {
                if let Some(text) = result["text"].as_str() {
                    let id = jobid::encode(result["id"].as_u64().unwrap_or_default());
                    output::error_line(&format!("{id}: {text}"));
                    code = 1;
                }
            }
            // No more of them.
            Err(failure) if failure.code == 2 => return Ok(code),
            Err(failure) => return Err(failure),
        }
    }
}

fn status(call: &Call) -> Result<u8, Failure> {
    let list = "e|exception-exit-code=! v|verbose! j|json!";
    let parsed = call.of_subcommand("job", "status", list)?;
    if parsed.rest.is_empty() {
        return Err(Failure::new("Usage: flux job status [OPTIONS] JOBID [...]"));
    }
    let mut highest = 0;
    for id in &parsed.rest {
        highest = highest.max(follow(call, job_id(id)?, false)?);
    }
    Ok(highest)
}

/// The ids of one's own jobs, the newest first.
fn last(call: &Call) -> Result<u8, Failure> {
    let parsed = call.of_subcommand("job", "last", "")?;
    let slice = parsed.rest.first().map_or("[:1]", String::as_str);
    let count = slice.strip_prefix("[:").and_then(|rest| rest.strip_suffix(']'));
    let count: usize = count
        .and_then(|count| count.parse().ok())
        .ok_or_else(|| Failure::not_simulated(&format!("job last {slice}")))?;
    let jobs = ask(call, "flux-job", &Request::Jobs(call.scope()))?;
    let own = nix::unistd::getuid().as_raw();
    let jobs = jobs.as_array().into_iter().flatten().rev().filter(|job| job["userid"] == own);
    let ids: Vec<u64> = jobs.filter_map(|job| job["id"].as_u64()).take(count).collect();
    if ids.is_empty() {
        return Err(Failure::new("flux-job: job history is empty"));
    }
    for id in ids {
        output::line(&jobid::encode(id));
    }
    Ok(0)
}

/// The events of a job, or of its execution, as JSON.
fn eventlog(call: &Call) -> Result<u8, Failure> {
    let list = "f|format= p|path= T|time-format=! H|human! L|color?! F|follow!";
    let parsed = call.of_subcommand("job", "eventlog", list)?;
    let path = parsed.value("path").unwrap_or("eventlog");
    if parsed.value("format") != Some("json") || !["eventlog", "exec"].contains(&path) {
        return Err(Failure::not_simulated("job eventlog but with --format=json [--path=exec]"));
    }
    let [id] = parsed.rest.as_slice() else {
        return Err(Failure::new("Usage: flux job eventlog [OPTIONS] id"));
    };
    let events = ask(call, "flux-job", &Request::Eventlog(job_id(id)?))?;
    let Some(events) = events[path].as_array() else {
        return Err(Failure::new(format!("flux-job: {path} of job {id} not found")));
    };
    for event in events {
        output::line(&event.to_string());
    }
    Ok(0)
}
