//! `flux job` and `flux cancel`.

use super::connection::{ask, ask_with};
use super::submit::{attach, follow};
use super::{Call, job_id};
use crate::failure::Failure;
use crate::options::{Argument, long, short};
use crate::output;
use crate::protocol::Request;
use crate::text::jobid;

/// `flux job SUBCOMMAND`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let (command, call) = super::split(call, "job")?;
    match command {
        "wait" => wait(&call),
        "attach" => {
            let parsed = call.options("job", &[short("verbose", 'v', Argument::None)])?;
            let [id] = parsed.rest.as_slice() else {
                return Err(Failure::new("Usage: flux job attach [OPTIONS] id"));
            };
            attach(&call, job_id(id)?, parsed.count("verbose"))
        }
        "status" => status(&call),
        "last" => last(&call),
        "eventlog" => eventlog(&call),
        other => Err(Failure::not_simulated(&format!("job {other}"))),
    }
}

fn wait(call: &Call) -> Result<u8, Failure> {
    let choices = [short("all", 'a', Argument::None), short("verbose", 'v', Argument::None)];
    let parsed = call.options("job", &choices)?;
    let scope = call.scope();
    if parsed.has("all") {
        if !parsed.rest.is_empty() {
            return Err(Failure::new("flux-job: jobid not supported with --all"));
        }
        return wait_for_all(call, scope, parsed.has("verbose"));
    }
    let id = match parsed.rest.as_slice() {
        [] => None,
        [id] => Some(job_id(id)?),
        _ => return Err(Failure::new("Usage: flux job wait [--all] [id]")),
    };
    let result = ask(call, "flux-job", &Request::Wait { id, scope })?;
    if id.is_none() {
        output::line(&jobid::encode(result["id"].as_u64().unwrap_or_default()));
    }
    if result["code"] == 0 {
        return Ok(0);
    }
    let text = result["text"].as_str().unwrap_or_default();
    let text = text.split_once(": ").map_or(text, |(_, text)| text);
    Err(Failure::new(format!("flux-job: {text}")))
}

fn wait_for_all(call: &Call, scope: Option<u64>, verbose: bool) -> Result<u8, Failure> {
    let mut code = 0;
    loop {
        match ask(call, "flux-job", &Request::Wait { id: None, scope }) {
            Ok(result) if result["code"] == 0 => {
                if verbose {
                    let id = jobid::encode(result["id"].as_u64().unwrap_or_default());
                    output::error_line(&format!("{id}: job completed successfully"));
                }
            }
            Ok(result) => {
                output::error_line(result["text"].as_str().unwrap_or_default());
                code = 1;
            }
            // No more of them.
            Err(failure) if failure.code == 2 => return Ok(code),
            Err(failure) => return Err(failure),
        }
    }
}

fn status(call: &Call) -> Result<u8, Failure> {
    let choices = [
        short("exception-exit-code", 'e', Argument::Required),
        short("verbose", 'v', Argument::None),
        short("json", 'j', Argument::None),
    ];
    let parsed = call.options("job", &choices)?;
    if let Some(option) = parsed.first_of(&["exception-exit-code", "json"]) {
        return Err(Failure::not_simulated(&format!("job status --{option}")));
    }
    if parsed.rest.is_empty() {
        return Err(Failure::new("Usage: flux job status [OPTIONS] JOBID [...]"));
    }
    let mut highest = 0;
    for id in &parsed.rest {
        highest = highest.max(follow(call, job_id(id)?, false, 0)?);
    }
    Ok(highest)
}

/// The ids of one's own jobs, the newest first.
fn last(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("job", &[])?;
    let slice = match parsed.rest.as_slice() {
        [] => "1",
        [slice] => {
            slice.strip_prefix("[:").and_then(|rest| rest.strip_suffix(']')).unwrap_or(slice)
        }
        _ => return Err(Failure::new("Usage: flux job last [N | SLICE]")),
    };
    let count: usize =
        slice.parse().map_err(|_| Failure::not_simulated(&format!("job last {slice}")))?;
    let answer = ask(call, "flux-job", &Request::Jobs { scope: call.scope() })?;
    let own = nix::unistd::getuid().as_raw();
    let jobs = answer["jobs"].as_array().into_iter().flatten();
    let ids: Vec<u64> =
        jobs.filter(|job| job["userid"] == own).filter_map(|job| job["id"].as_u64()).collect();
    if ids.is_empty() {
        return Err(Failure::new("flux-job: job history is empty"));
    }
    for id in ids.into_iter().rev().take(count) {
        output::line(&jobid::encode(id));
    }
    Ok(0)
}

/// The events of a job, or of its execution, as JSON.
fn eventlog(call: &Call) -> Result<u8, Failure> {
    let choices = [
        short("format", 'f', Argument::Required),
        short("path", 'p', Argument::Required),
        short("time-format", 'T', Argument::Required),
        short("human", 'H', Argument::None),
        short("color", 'L', Argument::Optional),
        short("follow", 'F', Argument::None),
    ];
    let parsed = call.options("job", &choices)?;
    let path = parsed.value("path").unwrap_or("eventlog");
    let simulated = parsed.first_of(&["time-format", "human", "color", "follow"]).is_none()
        && parsed.value("format") == Some("json")
        && ["eventlog", "exec"].contains(&path);
    if !simulated {
        return Err(Failure::not_simulated("job eventlog other than --format=json [--path=exec]"));
    }
    let [id] = parsed.rest.as_slice() else {
        return Err(Failure::new("Usage: flux job eventlog [OPTIONS] id"));
    };
    let events = ask(call, "flux-job", &Request::Eventlog { id: job_id(id)? })?;
    let Some(events) = events[path].as_array() else {
        let text = match path {
            "eventlog" => format!("job {id} not found"),
            _ => "eventlog path guest.exec.eventlog not found".to_owned(),
        };
        return Err(Failure::new(format!("flux-job: {text}")));
    };
    for event in events {
        output::line(&event.to_string());
    }
    Ok(0)
}

/// `flux cancel ID...` or `flux cancel --all`.
pub(crate) fn cancel(call: &Call) -> Result<u8, Failure> {
    let choices = [
        long("all", Argument::None),
        short("quiet", 'q', Argument::None),
        short("user", 'u', Argument::Required),
        short("states", 'S', Argument::Required),
        short("message", 'm', Argument::Required),
        short("dry-run", 'n', Argument::None),
    ];
    let parsed = call.python_options("cancel", &choices)?;
    if let Some(option) = parsed.first_of(&["user", "states", "dry-run"]) {
        return Err(Failure::not_simulated(&format!("cancel --{option}")));
    }
    let all = parsed.has("all");
    if all != parsed.rest.is_empty() {
        let text = if all {
            "Do not specify --all with jobids"
        } else {
            "ERROR: No target jobs were provided"
        };
        return Err(Failure::new(format!("flux-cancel: {text}")));
    }
    let ids = parsed.rest.iter().map(|id| job_id(id)).collect::<Result<Vec<_>, _>>()?;
    let user = nix::unistd::getuid().as_raw();
    let request = Request::Cancel { ids, user, scope: call.scope() };
    let answer = ask_with(call, "flux-cancel: ERROR", &request, None, &mut |_| {})?;
    if all && !parsed.has("quiet") {
        let count = answer["count"].as_u64().unwrap_or_default();
        let text = match count {
            0 => "flux-cancel: Matched 0 jobs".to_owned(),
            1 => "flux-cancel: Canceled 1 job (0 errors)".to_owned(),
            count => format!("flux-cancel: Canceled {count} jobs (0 errors)"),
        };
        output::error_line(&text);
    }
    Ok(0)
}
