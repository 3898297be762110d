//! `flux submit`, `flux run` and `flux batch`. The script of a batch job runs on the first node of its allocation, and
//! what it submits is scheduled on the allocation only, as in the instance real Flux would start for it.

use super::{Call, parsed_id};
use crate::jobs::jobspec::{self, program_name};
use crate::options::Parsed;
use crate::output::{self, Failure, strerror};
use crate::protocol::{JobSpec, Request, Wait};
use crate::release::{Feature, has};
use flux_protocol::job_id::f58;
use nix::sys::signal::{SigSet, Signal};
use serde_json::Value;

/// Options of all submission commands.
const COMMON: &str = "N|nodes= o|setopt= input= output= error= flags= quiet v|verbose cwd=! u|unbuffered! \
    x|exclusive! job-name=! env=! env-remove=! env-file=! B|bank=! q|queue=! t|time-limit=! urgency=! S|setattr=! \
    add-file=! dependency=! requires=! begin-time=! rlimit=! l|label-io! signal=! dry-run! g|gpus-per-task=! \
    c|cores-per-task=! cores=! tasks-per-node=! tasks-per-core=! gpus-per-node=! taskmap=! wait! cc=! bcc=! \
    wait-event=! log=! log-stderr=! progress! jps! cores-per-slot=! gpus-per-slot=! wrap! conf=! broker-opts=! dump!";

/// Shell options without a visible effect on what is tested here.
const HARMLESS_SHELL_OPTIONS: [&str; 6] =
    ["cpu-affinity", "gpu-affinity", "mpi", "pmi", "exit-timeout", "verbose"];

pub(crate) fn submit(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options(&format!("n|ntasks= watch {COMMON}"))?;
    let id = send(call, job(call, &parsed)?)?;
    if !parsed.has("quiet") {
        output::line(&f58(id));
    }
    if parsed.has("watch") { follow(call, id, true) } else { Ok(0) }
}

pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options(&format!("n|ntasks= {COMMON}"))?;
    let mut spec = job(call, &parsed)?;
    // It ends where it is the null device. Anything else stays open, and empty.
    let input = std::fs::canonicalize("/proc/self/fd/0");
    spec.no_input |= input.is_ok_and(|path| path.ends_with("null"));
    let signals = held();
    let id = send(call, spec)?;
    attached(call, id, signals)
}

/// `flux job attach ID`. It has no input for the job in any case.
pub(crate) fn attach(call: &Call) -> Result<u8, Failure> {
    let ([id] | ["--read-only", id]) = call.given()[..] else { return Err(call.but("with an id")) };
    attached(call, parsed_id(id)?, held())
}

/// Keeps what is to be passed on to a job until there is one.
fn held() -> SigSet {
    let signals = [Signal::SIGTERM, Signal::SIGHUP].into_iter();
    let signals: SigSet = signals.filter(|_| has(Feature::ForwardedSignals)).collect();
    let _ = signals.thread_block();
    signals
}

/// Prints what a job prints, and passes signals on to it (flux-core, `src/cmd/job/attach.c`).
fn attached(call: &Call, id: u64, signals: SigSet) -> Result<u8, Failure> {
    let caller = call.clone();
    std::thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            drop(caller.ask("flux-job: kill", &Request::Kill(id, signal as i32)));
        }
    });
    follow(call, id, true)
}

/// `flux job submit`, with a jobspec (RFC 25) on its standard input. Whoever attaches to the job has no input for it.
pub(crate) fn submit_jobspec(call: &Call) -> Result<u8, Failure> {
    let fault = |text: &str| Failure::new(format!("flux-job: {text}"));
    let parsed = call.options("f|flags=")?;
    let flags = flags(&parsed).map_err(|flag| fault(&format!("unknown flag: {flag}")))?;
    let text = std::io::read_to_string(std::io::stdin()).unwrap_or_default();
    if text.is_empty() {
        return Err(fault("required jobspec is empty"));
    }
    let jobspec = serde_json::from_str(&text).map_err(|error| fault(&error.to_string()))?;
    let spec = jobspec::job(&jobspec).ok_or_else(|| call.but("of nodes, slots and cores"))?;
    let waitable = flags.contains(&"waitable");
    let (scope, user) = (call.scope(), nix::unistd::getuid().as_raw());
    let id = send(call, JobSpec { waitable, scope, user, no_input: true, ..spec })?;
    output::line(&f58(id));
    Ok(0)
}

pub(crate) fn batch(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options(&format!("n|nslots= {COMMON}"))?;
    let Some((path, arguments)) = parsed.rest.split_first() else {
        return Err(Failure::not_simulated("batch with a script on standard input"));
    };
    let script = std::fs::read_to_string(path)
        .map_err(|error| fault(call, &format!("{}: '{path}'", strerror(&error))))?;
    // RFC 36.
    if script.lines().any(|line| line.starts_with("# flux:") || line.starts_with("#flux:")) {
        return Err(Failure::not_simulated("directives in a batch script"));
    }
    if !script.starts_with("#!") {
        return Err(fault(call, &format!("{path} does not appear to start with '#!'")));
    }
    let mut spec = spec(call, &parsed, arguments.to_vec(), "nslots")?;
    if spec.nodes.is_none() && !parsed.has("nslots") {
        return Err(fault(call, "Number of slots to allocate must be specified"));
    }
    spec.name.clone_from(path);
    spec.script = Some(script);
    spec.output.get_or_insert_with(|| "flux-{{id}}.out".to_owned());
    spec.error = spec.error.or_else(|| spec.output.clone());
    let id = send(call, spec)?;
    output::line(&f58(id));
    Ok(0)
}

fn fault(call: &Call, text: &str) -> Failure {
    Failure::new(format!("flux-{}: ERROR: {text}", call.name))
}

fn job(call: &Call, parsed: &Parsed) -> Result<JobSpec, Failure> {
    let Some(program) = parsed.rest.first() else {
        return Err(fault(call, "job command and arguments are missing"));
    };
    let mut spec = spec(call, parsed, parsed.rest.clone(), "ntasks")?;
    program_name(program).clone_into(&mut spec.name);
    Ok(spec)
}

/// The flags of a submission, or one that there is not.
fn flags(parsed: &Parsed) -> Result<Vec<&str>, &str> {
    let flags: Vec<&str> = parsed.values("flags").flat_map(|text| text.split(',')).collect();
    let unknown = flags.iter().find(|flag| !["novalidate", "waitable"].contains(flag));
    unknown.map_or(Ok(()), |flag| Err(*flag)).map(|()| flags)
}

/// What the options make of a job that runs `command`, whose number of tasks is that of option `count`.
fn spec(
    call: &Call,
    parsed: &Parsed,
    command: Vec<String>,
    count: &str,
) -> Result<JobSpec, Failure> {
    let not_simulated = |text: &str| Failure::not_simulated(&format!("{} {text}", call.name));
    let number = |name: &str| {
        let Some(text) = parsed.value(name) else { return Ok(None) };
        let value = text.parse().ok().filter(|value: &usize| *value > 0);
        let invalid = || fault(call, &format!("--{name}: invalid int value '{text}'"));
        value.map(Some).ok_or_else(invalid)
    };
    let (tasks, nodes) = (number(count)?, number("nodes")?);
    for text in parsed.values("setopt") {
        if !HARMLESS_SHELL_OPTIONS.iter().any(|name| text.starts_with(name)) {
            return Err(not_simulated(&format!("-o {text}")));
        }
    }
    let directory = std::env::current_dir().map_err(|error| fault(call, &error.to_string()))?;
    if let Some(path) = parsed.value("input").filter(|path| *path != "/dev/null") {
        return Err(not_simulated(&format!("--input={path}")));
    }
    let file = |option: &str| match parsed.value(option) {
        Some(template) if template.replace("{{id}}", "").contains("{{") => {
            Err(not_simulated(&format!("--{option}={template}")))
        }
        template => Ok(template.map(str::to_owned)),
    };
    let unknown = |flag| fault(call, &format!("--flags: Unknown flag {flag}"));
    let flags = flags(parsed).map_err(unknown)?;
    let spec = JobSpec {
        command,
        tasks: tasks.or(nodes).unwrap_or(1),
        nodes,
        exclusive: tasks.is_none() && nodes.is_some(),
        directory: directory.display().to_string(),
        environment: call.environment.clone(),
        no_input: parsed.has("input"),
        output: file("output")?,
        error: file("error")?.or(file("output")?),
        waitable: flags.contains(&"waitable"),
        scope: call.scope(),
        user: nix::unistd::getuid().as_raw(),
        ..JobSpec::default()
    };
    if nodes.is_some_and(|nodes| nodes > spec.tasks) {
        return Err(fault(call, "node count must not be greater than task count"));
    }
    Ok(spec)
}

fn send(call: &Call, spec: JobSpec) -> Result<u64, Failure> {
    let prefix = format!("flux-{}: ERROR", call.name);
    let id = call.ask(&prefix, &Request::Submit(Box::new(spec)))?;
    Ok(id.as_u64().unwrap_or_default())
}

/// Waits for a job's end and returns its code.
pub(super) fn follow(call: &Call, id: u64, output: bool) -> Result<u8, Failure> {
    let end = Request::Wait(Wait::End { id, output });
    Ok(code(id, &call.ask_with("flux-job", &end, &mut output::raw)?))
}

fn code(id: u64, end: &Value) -> u8 {
    if let Some(text) = end["exception"].as_str() {
        output::error_line(&format!("0.0s: job.exception {} {text}", f58(id)));
    }
    let code = end["code"].as_u64().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    if code > 0 && end["started"] != false {
        output::error_line(&format!("flux-job: task(s) exited with exit code {code}"));
    }
    code
}
