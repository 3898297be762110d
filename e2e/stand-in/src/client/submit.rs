//! `flux submit` and `flux run`.

use std::io::Read;
use std::os::unix::fs::FileTypeExt;

use serde_json::Value;

use super::Call;
use super::connection::{Trouble, ask_with, exchange};
use super::submit_options::{COMMON, Shape, build, fault, integer};
use crate::failure::Failure;
use crate::jobs::spec::JobSpec;
use crate::options::{Argument, Choice, Parsed, long, short};
use crate::output::{self, Stream};
use crate::protocol::{Reply, Request};
use crate::text::{idset, jobid, signal};

const PER_TASK: &[Choice] = &[
    short("ntasks", 'n', Argument::Required),
    short("cores-per-task", 'c', Argument::Required),
    short("gpus-per-task", 'g', Argument::Required),
    long("cores", Argument::Required),
    long("tasks-per-node", Argument::Required),
    long("tasks-per-core", Argument::Required),
    long("gpus-per-node", Argument::Required),
    long("taskmap", Argument::Required),
    short("verbose", 'v', Argument::None),
];

const BULK: &[Choice] = &[
    long("cc", Argument::Required),
    long("bcc", Argument::Required),
    long("wait-event", Argument::Required),
    long("wait", Argument::None),
    long("watch", Argument::None),
    long("log", Argument::Required),
    long("log-stderr", Argument::Required),
    long("progress", Argument::None),
    long("jps", Argument::None),
];

/// How much Python keeps of what goes to a standard output that is no terminal (`io.DEFAULT_BUFFER_SIZE`).
const KEPT_BY_PYTHON: usize = 8192;

/// The numbers a job asks for; the error is Flux's text.
fn shape(parsed: &Parsed) -> Result<Shape, String> {
    let (tasks, nodes) = (integer(parsed, "ntasks")?, integer(parsed, "nodes")?);
    let cores_per_task = integer(parsed, "cores-per-task")?;
    let per_node = integer(parsed, "tasks-per-node")?;
    let cores = integer(parsed, "cores")?;
    if per_node.is_some() || cores.is_some() || parsed.has("gpus-per-node") {
        if parsed.has("ntasks") || parsed.has("cores-per-task") || parsed.has("gpus-per-task") {
            return Err("Per-resource options can't be used with per-task options. \
                        (See --help for details)"
                .to_owned());
        }
        return per_resource(parsed, nodes, per_node, cores);
    }
    let alone = tasks.is_none() && nodes.is_some();
    let tasks = tasks.or(nodes).unwrap_or(1);
    if nodes.is_some_and(|nodes| nodes > tasks) {
        return Err("node count must not be greater than task count".to_owned());
    }
    let exclusive = parsed.has("exclusive") || alone;
    if exclusive && nodes.is_none() {
        return Err("exclusive can only be set with a node count".to_owned());
    }
    Ok(Shape { tasks, nodes, cores: cores_per_task.unwrap_or(1), exclusive })
}

fn per_resource(
    parsed: &Parsed,
    nodes: Option<u32>,
    per_node: Option<u32>,
    cores: Option<u32>,
) -> Result<Shape, String> {
    match (nodes, per_node, cores) {
        (Some(nodes), Some(per_node), None) if !parsed.has("gpus-per-node") => {
            Ok(Shape { tasks: nodes * per_node, nodes: Some(nodes), cores: 1, exclusive: true })
        }
        (None, Some(_), None) => Err("must specify node count if tasks_per_node is set".to_owned()),
        _ => Err("not simulated".to_owned()),
    }
}

fn job(call: &Call, command: &str, parsed: &Parsed) -> Result<JobSpec, Failure> {
    let words = match parsed.rest.as_slice() {
        [] => return Err(fault(command, "job command and arguments are missing")),
        words => words.to_vec(),
    };
    for option in ["gpus-per-task", "gpus-per-node", "taskmap", "tasks-per-core"] {
        if parsed.has(option) {
            return Err(Failure::not_simulated(&format!("{command} --{option}")));
        }
    }
    let shape = shape(parsed).map_err(|text| match text.as_str() {
        "not simulated" => Failure::not_simulated(&format!("{command} per-resource options")),
        text => fault(command, text),
    })?;
    build(call, command, parsed, words, shape)
}

/// `flux submit`.
pub(crate) fn submit(call: &Call) -> Result<u8, Failure> {
    let choices: Vec<Choice> = [COMMON, PER_TASK, BULK].concat();
    let parsed = call.python_options("submit", &choices)?;
    if let Some(option) = parsed.first_of(&["log", "log-stderr", "jps"]) {
        return Err(Failure::not_simulated(&format!("submit --{option}")));
    }
    let spec = job(call, "submit", &parsed)?;
    let ids = submit_copies(call, &parsed, &spec)?;
    let event = parsed.value("wait-event").filter(|event| *event != "clean");
    if let Some(event) = event {
        return Err(Failure::not_simulated(&format!("submit --wait-event={event}")));
    }
    let waits = ["watch", "wait", "wait-event"];
    if parsed.first_of(&waits).is_none() {
        return Ok(0);
    }
    let mut highest = 0;
    for id in ids {
        highest = highest.max(follow(call, id, parsed.has("watch"), parsed.count("verbose"))?);
    }
    Ok(highest)
}

fn submit_copies(call: &Call, parsed: &Parsed, spec: &JobSpec) -> Result<Vec<u64>, Failure> {
    let copies = match parsed.value("cc").or_else(|| parsed.value("bcc")) {
        None => vec![None],
        Some(text) => {
            let ids = idset::decode(text);
            let ids = ids.ok_or_else(|| fault("submit", &format!("invalid idset {text}")))?;
            ids.into_iter().map(Some).collect()
        }
    };
    let mut ids = Vec::new();
    for copy in copies {
        let mut spec = spec.clone();
        if let Some(copy) = copy {
            let fill = |text: &mut String| *text = text.replace("{cc}", &copy.to_string());
            spec.command.iter_mut().for_each(fill);
            [&mut spec.output, &mut spec.error].into_iter().flatten().for_each(fill);
            if parsed.has("cc") {
                spec.environment.insert("FLUX_JOB_CC".to_owned(), copy.to_string());
            }
        }
        let id = send(call, "submit", spec)?;
        if !parsed.has("quiet") {
            output::line(&jobid::encode_in_python(id));
        }
        ids.push(id);
    }
    Ok(ids)
}

/// Submits a job and returns its id.
pub(crate) fn send(call: &Call, command: &str, spec: JobSpec) -> Result<u64, Failure> {
    let prefix = format!("flux-{command}: ERROR");
    let request = Request::Submit(Box::new(spec));
    let answer = exchange(call, &prefix, &request, None, &mut |_| {});
    let answer = answer.map_err(|trouble| match trouble {
        Trouble::Lost(failure) => failure,
        // `flux submit` goes on meanwhile, and prints the bare error when it comes.
        Trouble::Refused { reason, code, errno } if command == "submit" => {
            Failure::with_code(code, format!("[Errno {errno}] {reason}"))
        }
        Trouble::Refused { reason, code, errno: _ } => {
            Failure::with_code(code, format!("{prefix}: {reason}"))
        }
    })?;
    Ok(answer["id"].as_u64().unwrap_or_default())
}

/// Waits for a job's end and returns its code. Standard output is kept until there is much of it or
/// the job has ended, as Python's is that is no terminal.
pub(crate) fn follow(call: &Call, id: u64, watch: bool, verbose: usize) -> Result<u8, Failure> {
    let mut kept = String::new();
    let end = watch_job(call, id, watch, verbose, &mut |stream, text| match stream {
        Stream::Output => {
            kept.push_str(text);
            if kept.len() >= KEPT_BY_PYTHON {
                output::raw(stream, &std::mem::take(&mut kept));
            }
        }
        Stream::Error => output::raw(stream, text),
    })?;
    output::raw(Stream::Output, &kept);
    if let Some(kind) = end["exception"]["type"].as_str() {
        let note = end["exception"]["note"].as_str().unwrap_or_default();
        output::error_line(&format!("job.exception: type={kind} severity=0 {note}"));
    }
    Ok(code(&end))
}

fn code(end: &Value) -> u8 {
    end["code"].as_u64().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn watch_job(
    call: &Call,
    id: u64,
    watch: bool,
    verbose: usize,
    print: &mut dyn FnMut(Stream, &str),
) -> Result<Value, Failure> {
    let request = Request::Watch { id, output: watch };
    ask_with(call, "flux-job", &request, None, &mut |reply| match reply {
        Reply::Output { stream, text, .. } => print(stream, &text),
        Reply::Event { at, text } if verbose >= 2 => {
            output::error_line(&format!("{at:.3}s: job.{text}"));
        }
        Reply::Event { .. } | Reply::Log(_) | Reply::Done(_) | Reply::Failed { .. } => {}
    })
}

/// `flux run`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let choices: Vec<Choice> = [COMMON, PER_TASK].concat();
    let parsed = call.python_options("run", &choices)?;
    let mut spec = job(call, "run", &parsed)?;
    spec.input = standard_input();
    let id = send(call, "run", spec)?;
    if parsed.has("verbose") {
        output::error_line(&format!("jobid: {}", jobid::encode_in_python(id)));
    }
    attach(call, id, parsed.count("verbose"))
}

/// Shows a job's output and returns its code, as `flux job attach` does.
pub(crate) fn attach(call: &Call, id: u64, verbose: usize) -> Result<u8, Failure> {
    let end = watch_job(call, id, true, verbose, &mut output::raw)?;
    let exception = &end["exception"];
    if let Some(kind) = exception["type"].as_str() {
        let note = exception["note"].as_str().unwrap_or_default();
        let id = jobid::encode(id);
        output::error_line(&format!("0.0s: job.exception {id} type={kind} severity=0 {note}"));
    }
    let code = code(&end);
    if code > 128 {
        let how = signal::describe(i32::from(code - 128));
        output::error_line(&format!("flux-job: task(s) {how}"));
    } else if code > 0 && exception["started"] != false {
        output::error_line(&format!("flux-job: task(s) exited with exit code {code}"));
    }
    Ok(code)
}

/// Input that is there at once: of a file, or none of the null device. Anything else stays open.
fn standard_input() -> Option<String> {
    let kind = std::fs::metadata("/proc/self/fd/0").ok()?.file_type();
    let null = std::fs::canonicalize("/proc/self/fd/0").is_ok_and(|path| path.ends_with("null"));
    if kind.is_file() || (kind.is_char_device() && null) {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).ok()?;
        return Some(String::from_utf8_lossy(&bytes).into_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    fn of(options: &str) -> Result<Shape, String> {
        let choices: Vec<Choice> = [COMMON, PER_TASK, BULK].concat();
        let words: Vec<String> = options.split(' ').map(str::to_owned).collect();
        shape(&parse(&words, &choices).expect("parses"))
    }

    #[test]
    fn nodes_alone_are_exclusive_and_have_one_task_each() {
        let expected = Shape { tasks: 3, nodes: Some(3), cores: 1, exclusive: true };
        assert_eq!(of("-N3"), Ok(expected));
        assert_eq!(of("-N3 -n 0"), Ok(expected));
        let expected = Shape { tasks: 4, nodes: Some(2), cores: 2, exclusive: false };
        assert_eq!(of("-N2 -n4 -c2"), Ok(expected));
    }

    #[test]
    fn impossible_shapes_are_refused_with_the_text_of_flux() {
        let text = "node count must not be greater than task count";
        assert_eq!(of("-N4 -n2"), Err(text.to_owned()));
        assert_eq!(of("-n x"), Err("--ntasks: invalid int value 'x'".to_owned()));
        assert!(of("-n2 --cores=4").expect_err("refused").starts_with("Per-resource options"));
    }
}
