//! The options `flux submit`, `run` and `batch` share, and what they make of a job.

use std::collections::BTreeMap;

use super::Call;
use crate::failure::Failure;
use crate::jobs::spec::JobSpec;
use crate::options::{Argument, Choice, Parsed, long, short};
use crate::text::duration;

/// Options of all submission commands.
pub(crate) const COMMON: &[Choice] = &[
    short("bank", 'B', Argument::Required),
    short("queue", 'q', Argument::Required),
    short("time-limit", 't', Argument::Required),
    long("urgency", Argument::Required),
    long("job-name", Argument::Required),
    short("setopt", 'o', Argument::Required),
    short("setattr", 'S', Argument::Required),
    long("add-file", Argument::Required),
    long("dependency", Argument::Required),
    long("requires", Argument::Required),
    long("begin-time", Argument::Required),
    long("env", Argument::Required),
    long("env-remove", Argument::Required),
    long("env-file", Argument::Required),
    long("rlimit", Argument::Required),
    long("input", Argument::Required),
    long("output", Argument::Required),
    long("error", Argument::Required),
    short("unbuffered", 'u', Argument::None),
    short("label-io", 'l', Argument::None),
    long("cwd", Argument::Required),
    long("flags", Argument::Required),
    long("signal", Argument::Required),
    long("dry-run", Argument::None),
    long("quiet", Argument::None),
    short("nodes", 'N', Argument::Required),
    short("exclusive", 'x', Argument::None),
];

/// Options that real Flux takes and that change a job in ways the stand-in cannot.
const UNSUPPORTED: &[&str] = &[
    "bank",
    "queue",
    "add-file",
    "dependency",
    "requires",
    "begin-time",
    "env-file",
    "rlimit",
    "signal",
    "dry-run",
];

/// Shell options without a visible effect on what is tested here.
const HARMLESS_SHELL_OPTIONS: &[&str] =
    &["cpu-affinity", "gpu-affinity", "mpi", "pmi", "exit-timeout", "verbose"];

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

/// The value of an integer option; 0 counts as unset.
pub(crate) fn integer(parsed: &Parsed, name: &str) -> Result<Option<u32>, String> {
    let Some(text) = parsed.value(name) else { return Ok(None) };
    let value: i64 = text.parse().map_err(|_| format!("--{name}: invalid int value '{text}'"))?;
    match u32::try_from(value) {
        Ok(0) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(format!("{name} must be an integer >= 1 (got {value})")),
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
    if let Some(option) = parsed.first_of(UNSUPPORTED) {
        return Err(Failure::not_simulated(&format!("{command} --{option}")));
    }
    shell_options(command, parsed)?;
    if parsed.values("setattr").iter().any(|text| text.starts_with('^')) {
        return Err(Failure::not_simulated(&format!("{command} --setattr=^FILE")));
    }
    let directory = match parsed.value("cwd") {
        Some(directory) => directory.to_owned(),
        None => std::env::current_dir()
            .map_err(|error| fault(command, &error.to_string()))?
            .display()
            .to_string(),
    };
    let urgency = match parsed.value("urgency") {
        None | Some("default") => 16,
        Some("hold") => 0,
        Some("expedite") => 31,
        Some(text) => text
            .parse()
            .ok()
            .filter(|urgency| *urgency <= 31)
            .ok_or_else(|| fault(command, &format!("invalid urgency {text}")))?,
    };
    let input = match parsed.value("input") {
        None => None,
        Some("/dev/null") => Some(String::new()),
        Some(path) => return Err(Failure::not_simulated(&format!("{command} --input={path}"))),
    };
    let name = parsed.value("job-name").map(str::to_owned);
    let template = |option: &str| -> Result<Option<String>, Failure> {
        match parsed.value(option) {
            Some("none" | "kvs") => Err(Failure::not_simulated(&format!("--{option}=none"))),
            value => Ok(value.map(str::to_owned)),
        }
    };
    Ok(JobSpec {
        name: name.unwrap_or_else(|| JobSpec::default_name(&words)),
        command: words,
        script: None,
        tasks: shape.tasks,
        nodes: shape.nodes,
        cores_per_task: shape.cores,
        exclusive: shape.exclusive,
        directory,
        environment: environment(call, command, parsed)?,
        input,
        output: template("output")?,
        error: template("error")?,
        label: parsed.has("label-io"),
        waitable: waitable(command, parsed)?,
        urgency,
        limit: limit(command, parsed)?,
        scope: call.scope(),
        user: nix::unistd::getuid().as_raw(),
    })
}

fn shell_options(command: &str, parsed: &Parsed) -> Result<(), Failure> {
    for text in parsed.values("setopt") {
        let name = text.split(['=', '.']).next().unwrap_or_default();
        if !HARMLESS_SHELL_OPTIONS.contains(&name) {
            return Err(Failure::not_simulated(&format!("{command} -o {text}")));
        }
    }
    Ok(())
}

fn waitable(command: &str, parsed: &Parsed) -> Result<bool, Failure> {
    let mut waitable = false;
    for flag in parsed.values("flags").iter().flat_map(|text| text.split(',')) {
        match flag {
            "waitable" => waitable = true,
            "debug" | "novalidate" => {}
            other => return Err(fault(command, &format!("--flags: Unknown flag {other}"))),
        }
    }
    Ok(waitable)
}

/// Seconds; a plain number is minutes.
fn limit(command: &str, parsed: &Parsed) -> Result<Option<f64>, Failure> {
    let Some(text) = parsed.value("time-limit") else { return Ok(None) };
    match text.parse::<f64>() {
        Ok(minutes) => Ok(Some(minutes * 60.0)),
        Err(_) => duration::parse(text)
            .map(Some)
            .ok_or_else(|| fault(command, &format!("invalid Flux standard duration '{text}'"))),
    }
}

fn environment(
    call: &Call,
    command: &str,
    parsed: &Parsed,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut environment = call.environment.clone();
    for pattern in parsed.values("env-remove") {
        remove(&mut environment, pattern)?;
    }
    for rule in parsed.values("env") {
        if let Some(pattern) = rule.strip_prefix('-') {
            remove(&mut environment, pattern)?;
            continue;
        }
        match rule.split_once('=') {
            Some((name, value)) if !value.contains('$') && !name.is_empty() => {
                environment.insert(name.to_owned(), value.to_owned());
            }
            None => match call.environment.get(rule) {
                Some(value) => drop(environment.insert(rule.to_owned(), value.clone())),
                None if rule.contains(['*', '?', '[', '/', '^']) => {
                    return Err(Failure::not_simulated(&format!("{command} --env={rule}")));
                }
                None => {}
            },
            Some(_) => return Err(Failure::not_simulated(&format!("{command} --env={rule}"))),
        }
    }
    Ok(environment)
}

fn remove(environment: &mut BTreeMap<String, String>, pattern: &str) -> Result<(), Failure> {
    let stem = pattern.strip_suffix('*').unwrap_or(pattern);
    if stem.contains(['*', '?', '[', '/']) {
        return Err(Failure::not_simulated(&format!("environment pattern {pattern}")));
    }
    let all = pattern.ends_with('*');
    environment.retain(|name, _| !(name == stem || (all && name.starts_with(stem))));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    fn spec(options: &[&str]) -> Result<JobSpec, Failure> {
        let words: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
        let parsed = parse(&words, COMMON).expect("parses");
        let variables = [("A", "1"), ("B_X", "2"), ("B_Y", "3")];
        let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let call = Call { words: Vec::new(), environment: environment.into_iter().collect() };
        let shape = Shape { tasks: 1, nodes: None, cores: 1, exclusive: false };
        build(&call, "submit", &parsed, vec!["/bin/true".to_owned()], shape)
    }

    #[test]
    fn environment_rules_add_and_remove() {
        let spec = spec(&["--env=C=4", "--env-remove=B_*"]).expect("builds");
        let names: Vec<&str> = spec.environment.keys().map(String::as_str).collect();
        assert_eq!(names, ["A", "C"]);
        assert_eq!(spec.name, "true");
    }

    #[test]
    fn input_is_open_unless_it_is_the_null_device() {
        assert_eq!(spec(&[]).expect("builds").input, None);
        assert_eq!(spec(&["--input=/dev/null"]).expect("builds").input, Some(String::new()));
        assert_eq!(spec(&["--input=file"]).expect_err("refused").code, 64);
    }

    #[test]
    fn what_changes_a_job_unseen_is_not_simulated() {
        for option in ["--queue=a", "--requires=x", "-oexit-on-error", "--env=X=$Y"] {
            assert_eq!(spec(&[option]).expect_err("refused").code, 64, "{option}");
        }
        assert!(spec(&["-ocpu-affinity=per-task", "--flags=waitable"]).expect("builds").waitable);
        assert_eq!(spec(&["--flags=nope"]).expect_err("refused").code, 1);
    }

    #[test]
    fn plain_time_limits_are_minutes() {
        assert_eq!(spec(&["-t2"]).expect("builds").limit, Some(120.0));
        assert_eq!(spec(&["-t30s"]).expect("builds").limit, Some(30.0));
    }
}
