//! `flux submit` and `flux run`.

use nix::sys::signal::{SigSet, Signal};
use serde_json::Value;

use super::Call;
use super::connection::{ask, ask_with};
use super::submit_options::{COMMON, Shape, build, fault, integer};
use crate::failure::Failure;
use crate::jobs::spec::JobSpec;
use crate::options::Parsed;
use crate::output;
use crate::protocol::Request;
use crate::text::jobid;

const PER_TASK: &str = "n|ntasks= c|cores-per-task= v|verbose g|gpus-per-task=! cores=! \
                        tasks-per-node=! tasks-per-core=! gpus-per-node=! taskmap=!";

const BULK: &str = "wait! watch cc=! bcc=! wait-event=! log=! log-stderr=! progress! jps!";

/// The numbers a job asks for.
fn shape(command: &str, parsed: &Parsed) -> Result<Shape, Failure> {
    let integer = |name: &str| integer(command, parsed, name);
    let (tasks, nodes) = (integer("ntasks")?, integer("nodes")?);
    let cores = integer("cores-per-task")?.unwrap_or(1);
    let alone = tasks.is_none() && nodes.is_some();
    let tasks = tasks.or(nodes).unwrap_or(1);
    Shape { tasks, nodes, cores, exclusive: alone }.checked(command)
}

fn job(call: &Call, command: &str, parsed: &Parsed) -> Result<JobSpec, Failure> {
    if parsed.rest.is_empty() {
        return Err(fault(command, "job command and arguments are missing"));
    }
    build(call, command, parsed, parsed.rest.clone(), shape(command, parsed)?)
}

/// Submits a job and returns its id.
pub(crate) fn send(call: &Call, command: &str, spec: JobSpec) -> Result<u64, Failure> {
    let prefix = format!("flux-{command}: ERROR");
    let id = ask(call, &prefix, &Request::Submit(Box::new(spec)))?;
    Ok(id.as_u64().unwrap_or_default())
}

/// `flux submit`.
pub(crate) fn submit(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("submit", &format!("{COMMON} {PER_TASK} {BULK}"))?;
    let id = send(call, "submit", job(call, "submit", &parsed)?)?;
    if !parsed.has("quiet") {
        output::line(&jobid::encode_in_python(id));
    }
    if parsed.has("watch") { follow(call, id, true) } else { Ok(0) }
}

/// Waits for a job's end and returns its code. Output is kept until then: real Flux, whose Python
/// writes to what is no terminal, keeps up to 8 KiB of it.
pub(crate) fn follow(call: &Call, id: u64, output: bool) -> Result<u8, Failure> {
    let mut kept = Vec::new();
    let end = ask_with(call, "flux-job", &Request::Watch { id, output }, &mut |stream, text| {
        kept.push((stream, text.to_owned()));
    })?;
    for (stream, text) in kept {
        output::raw(stream, &text);
    }
    Ok(code(id, &end))
}

/// Says why a job failed, if it did, and returns its code.
fn code(id: u64, end: &Value) -> u8 {
    if let Some(text) = end["exception"].as_str() {
        output::error_line(&format!("0.0s: job.exception {} {text}", jobid::encode(id)));
    }
    let code = end["code"].as_u64().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    if code > 0 && end["started"] != false {
        output::error_line(&format!("flux-job: task(s) exited with exit code {code}"));
    }
    code
}

/// `flux run`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("run", &format!("{COMMON} {PER_TASK}"))?;
    let mut spec = job(call, "run", &parsed)?;
    spec.input = spec.input.or_else(standard_input);
    let id = send(call, "run", spec)?;
    pass_on_signals(call.clone(), id);
    let end = ask_with(call, "flux-job", &Request::Watch { id, output: true }, &mut output::raw)?;
    Ok(code(id, &end))
}

/// Passes on to the job what `flux job attach` passes on (flux-core, `src/cmd/job/attach.c`).
fn pass_on_signals(call: Call, id: u64) {
    let taken = SigSet::from_iter([Signal::SIGTERM, Signal::SIGHUP]);
    if taken.thread_block().is_ok() {
        std::thread::spawn(move || {
            while let Ok(signal) = taken.wait() {
                drop(ask(&call, "flux-job: kill", &Request::Kill(id, signal as i32)));
            }
        });
    }
}

/// No input where it is the null device. Anything else stays open, and empty.
fn standard_input() -> Option<String> {
    let null = std::fs::canonicalize("/proc/self/fd/0").is_ok_and(|path| path.ends_with("null"));
    null.then(String::new)
}
