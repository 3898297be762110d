//! `flux jobs`.

use serde_json::Value;

use super::connection::ask;
use super::{Call, user_name};
use crate::failure::Failure;
use crate::output;
use crate::protocol::Request;
use crate::text::jobid;

const OPTIONS: &str = "a|a A|A n|no-header o|format= c|count=! f|filter=! u|user=! q|queue=! i|include=! \
                       w|width?! R|recursive! L|level=! json! stats-only! stats! since=! name=! sort=! \
                       color?! recurse-all! threads=!";

/// What a format may name.
const TAGS: [&str; 6] = ["name", "state", "status", "returncode", "nnodes", "nodelist"];

/// `flux jobs`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("jobs", OPTIONS)?;
    if !parsed.rest.is_empty() {
        return Err(Failure::not_simulated("jobs JOBID"));
    }
    let format = parsed.value("format");
    let header = !parsed.has("no-header");
    if header && format.is_some() {
        return Err(Failure::not_simulated("jobs -o without -n"));
    }
    let jobs = ask(call, "flux-jobs", &Request::Jobs(call.scope()))?;
    if header {
        output::line("       JOBID USER     NAME       ST NTASKS NNODES     TIME INFO");
    }
    // `-A` is about users, `-a` about states. The newest comes first.
    let own = nix::unistd::getuid().as_raw();
    let shown = |job: &&Value| {
        (parsed.has("A") || job["userid"] == own) && (parsed.has("a") || job["state"] != "INACTIVE")
    };
    for job in jobs.as_array().into_iter().flatten().rev().filter(shown) {
        output::line(&line(job, format)?);
    }
    Ok(0)
}

fn line(job: &Value, format: Option<&str>) -> Result<String, Failure> {
    let text = |key: &str| match job[key].as_str() {
        Some(text) => text.to_owned(),
        None => job[key].to_string(),
    };
    let id = jobid::encode_in_python(job["id"].as_u64().unwrap_or_default());
    let Some(format) = format else {
        let user = user_name(job["userid"].as_u64().unwrap_or_default());
        return Ok(format!(
            "{id:>12} {user:<8.8} {name:<10.10} {status:>2} {tasks:>6} {nodes:>6}        - {hosts}",
            name = text("name"),
            status = text("status_abbrev"),
            tasks = text("ntasks"),
            nodes = text("nnodes"),
            hosts = text("nodelist"),
        ));
    };
    let line = TAGS.iter().fold(format.replace("{id}", &id), |line, tag| {
        line.replace(&format!("{{{tag}}}"), &text(tag))
    });
    if line.contains('{') {
        return Err(Failure::not_simulated(&format!("format {format}")));
    }
    Ok(line)
}
