//! The options `flux submit`, `run` and `batch` share, and what they make of a job.

use super::Call;
use crate::failure::Failure;
use crate::jobs::spec::JobSpec;
use crate::options::Parsed;

/// Options of all submission commands.
pub(crate) const COMMON: &str = "N|nodes= o|setopt= input= output= error= cwd= flags= quiet u|unbuffered x|exclusive! \
    job-name=! env=! env-remove=! env-file=! B|bank=! q|queue=! t|time-limit=! urgency=! S|setattr=! \
    add-file=! dependency=! requires=! begin-time=! rlimit=! l|label-io! signal=! dry-run!";

/// Shell options without a visible effect on what is tested here.
const HARMLESS_SHELL_OPTIONS: [&str; 6] =
    ["cpu-affinity", "gpu-affinity", "mpi", "pmi", "exit-timeout", "verbose"];

/// A fault as the command reports it.
pub(crate) fn fault(command: &str, text: &str) -> Failure {
    Failure::new(format!("flux-{command}: ERROR: {text}"))
}

/// What was asked for by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of tasks or slots.
    pub(crate) tasks: u32,
    /// Number of nodes.
    pub(crate) nodes: Option<u32>,
    /// Cores for each.
    pub(crate) cores: u32,
    /// Whole nodes only.
    pub(crate) exclusive: bool,
}

impl Shape {
    /// The shape, if every node has a task.
    pub(crate) fn checked(self, command: &str) -> Result<Self, Failure> {
        if self.nodes.is_some_and(|nodes| nodes > self.tasks) {
            return Err(fault(command, "node count must not be greater than task count"));
        }
        Ok(self)
    }
}

/// The value of an integer option.
pub(crate) fn integer(command: &str, parsed: &Parsed, name: &str) -> Result<Option<u32>, Failure> {
    let Some(text) = parsed.value(name) else { return Ok(None) };
    match text.parse() {
        Ok(value) if value > 0 => Ok(Some(value)),
        Ok(_) | Err(_) => Err(fault(command, &format!("--{name}: invalid int value '{text}'"))),
    }
}

/// Builds the job from the options and the command.
pub(crate) fn build(
    call: &Call,
    command: &str,
    parsed: &Parsed,
    words: Vec<String>,
    shape: Shape,
) -> Result<JobSpec, Failure> {
    for text in parsed.values("setopt") {
        let name = text.split(['=', '.']).next().unwrap_or_default();
        if !HARMLESS_SHELL_OPTIONS.contains(&name) {
            return Err(Failure::not_simulated(&format!("{command} -o {text}")));
        }
    }
    let directory = match parsed.value("cwd") {
        Some(directory) => directory.to_owned(),
        None => std::env::current_dir()
            .map_err(|error| fault(command, &error.to_string()))?
            .display()
            .to_string(),
    };
    let input = match parsed.value("input") {
        None => None,
        Some("/dev/null") => Some(String::new()),
        Some(path) => return Err(Failure::not_simulated(&format!("{command} --input={path}"))),
    };
    let first = words.first().map(String::as_str).unwrap_or_default();
    let file = |option: &str| match parsed.value(option) {
        Some(template) if template.replace("{{id}}", "").contains("{{") => {
            Err(Failure::not_simulated(&format!("{command} --{option}={template}")))
        }
        template => Ok(template.map(str::to_owned)),
    };
    Ok(JobSpec {
        name: first.rsplit('/').next().unwrap_or_default().to_owned(),
        command: words,
        script: None,
        tasks: shape.tasks,
        nodes: shape.nodes,
        cores_per_task: shape.cores,
        exclusive: shape.exclusive,
        directory,
        environment: call.environment.clone(),
        input,
        output: file("output")?,
        error: file("error")?,
        waitable: waitable(command, parsed)?,
        scope: call.scope(),
        user: nix::unistd::getuid().as_raw(),
    })
}

fn waitable(command: &str, parsed: &Parsed) -> Result<bool, Failure> {
    let flags: Vec<&str> = parsed.values("flags").flat_map(|text| text.split(',')).collect();
    match flags.iter().find(|flag| !["waitable", "debug", "novalidate"].contains(flag)) {
        Some(other) => Err(fault(command, &format!("--flags: Unknown flag {other}"))),
        None => Ok(flags.contains(&"waitable")),
    }
}
