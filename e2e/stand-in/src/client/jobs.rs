//! `flux jobs`, and `flux job` with its sub-commands.

use super::submit::follow;
use super::{Call, formatted, parsed_id};
use crate::options::refusal;
use crate::output::{self, Failure};
use crate::protocol::{Request, Wait};
use crate::release::{Feature, has};
use flux_protocol::job_id::f58;
use serde_json::Value;

/// One's own jobs, the newest first.
fn own_jobs(call: &Call) -> Result<Vec<Value>, Failure> {
    let jobs = call.ask(&format!("flux-{}", call.name), &Request::Jobs(call.scope()))?;
    let own = nix::unistd::getuid().as_raw();
    let jobs = jobs.as_array().into_iter().flatten().rev();
    Ok(jobs.filter(|job| job["userid"] == own).cloned().collect())
}

pub(crate) fn jobs(call: &Call) -> Result<u8, Failure> {
    if call.words.iter().any(|word| word.starts_with("--sort")) && !has(Feature::JobsSort) {
        return Err(refusal("jobs", "unrecognized arguments: --sort"));
    }
    let parsed = call.options("a|a n|no-header o|format=")?;
    let format = parsed.value("format");
    if !parsed.rest.is_empty() || format.is_some() != parsed.has("no-header") {
        return Err(call.but("of all jobs, and with both or none of -n and -o"));
    }
    if format.is_none() {
        output::line("JOBID USER NAME ST NTASKS NNODES");
    }
    let format = format.unwrap_or("{id} {userid} {name} {status_abbrev} {ntasks} {nnodes}");
    for mut job in own_jobs(call)? {
        if parsed.has("a") || job["state"] != "INACTIVE" {
            job["id"] = f58(job["id"].as_u64().unwrap_or_default()).into();
            output::line(&formatted(format, &job)?);
        }
    }
    Ok(0)
}

pub(crate) fn wait(call: &Call) -> Result<u8, Failure> {
    let ["--all"] = call.given()[..] else { return Err(call.but("with --all")) };
    let mut code = 0;
    loop {
        match call.ask("flux-job", &Request::Wait(Wait::Result(call.scope()))) {
            Ok(end) if end["code"] == 0 => {}
            Ok(end) => {
                let id = f58(end["id"].as_u64().unwrap_or_default());
                let text = match end["exception"].as_str() {
                    Some(exception) => format!("Fatal exception {exception}"),
                    None => format!("task(s) exited with exit code {}", end["code"]),
                };
                output::error_line(&format!("{id}: {text}"));
                code = 1;
            }
            // No more of them.
            Err(failure) if failure.code == 2 => return Ok(code),
            Err(failure) => return Err(failure),
        }
    }
}

pub(crate) fn status(call: &Call) -> Result<u8, Failure> {
    if call.words.is_empty() {
        return Err(Failure::new("Usage: flux job status [OPTIONS] JOBID [...]"));
    }
    let mut highest = 0;
    for id in &call.words {
        highest = highest.max(follow(call, parsed_id(id)?, false)?);
    }
    Ok(highest)
}

/// The host that a task of a job has run on.
pub(crate) fn taskmap(call: &Call) -> Result<u8, Failure> {
    let task = |word: &str| word.strip_prefix("--hostname=")?.parse().ok();
    let [option, id] = call.given()[..] else { return Err(call.but("of a task and a job")) };
    let task = task(option).ok_or_else(|| call.but("with --hostname=TASKID"))?;
    let host = call.ask("flux-job: taskmap", &Request::TaskHost(parsed_id(id)?, task))?;
    output::line(host.as_str().unwrap_or_default());
    Ok(0)
}
