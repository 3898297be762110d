//! The workload of the lead: the command, its submission and its flags.

use super::text::{argument_vector, is_absolute_path, non_empty, words};
use super::violations::Violations;
use crate::crd::{self, MiniClusterSpec};
use flux_contract::{CUSTOM_SCRIPT_PATH, DEFAULT_OUTPUT_DIRECTORY, Submission, Workload};

/// Most bytes of the script made of the lines of a batch: the `ConfigMap` must stay below 1 MiB.
const BATCH_SCRIPT_LIMIT: usize = 524_288;

/// The workload of the container at `path`; `None` if a command cannot be parsed.
pub(super) fn workload(
    path: &str,
    spec: &MiniClusterSpec,
    container: &crd::Container,
    faults: &mut Violations,
) -> Option<Workload> {
    let commands = container.commands.clone().unwrap_or_default();
    let command = non_empty(container.command.as_ref()).filter(|text| !text.trim().is_empty());
    let script = non_empty(commands.script.as_ref());
    let launcher = spec.launcher || container.launcher;
    let has_lines = command.is_some() || script.is_some();
    faults.require(!container.batch || has_lines, format!("{path}.command"), || {
        "missing: a batch job needs the lines of its script".to_owned()
    });
    if container.diagnostics {
        return Some(Workload::Diagnostics {});
    }
    let prefix = split(&format!("{path}.commands.prefix"), commands.prefix.as_ref(), faults)?;
    let flags = flags(spec, faults)?;
    if container.batch {
        let text = command.or(script).unwrap_or_default();
        return Some(batch(path, text, spec, container, (prefix, flags), faults));
    }
    let (program, script) = match (command, script) {
        (_, Some(script)) => (script_command(script), Some(script.replace("\\$", "$"))),
        (Some(text), None) => (plain_command(path, text, faults)?, None),
        (None, None) => return Some(Workload::Interactive { submission: None }),
    };
    if launcher && !spec.interactive {
        return Some(Workload::Launcher { prefix, command: program, script });
    }
    // A workflow manager submits its own jobs, so it needs only one slot.
    let mut flags = if launcher { vec!["-n1".to_owned()] } else { flags };
    // `flux batch` has no such option.
    flags.extend(spec.logging.debug.then(|| "-vvv".to_owned()));
    let submission = Submission {
        prefix,
        submit: submit_program(spec, faults)?,
        flags,
        command: program,
        script,
    };
    Some(if spec.interactive {
        Workload::Interactive { submission: Some(submission) }
    } else {
        Workload::Submit { submission }
    })
}

/// The command that runs a script at [`CUSTOM_SCRIPT_PATH`]. Scripts without an interpreter line are run by bash, as
/// in the Go operator, because they may use its syntax.
fn script_command(script: &str) -> Vec<String> {
    let path = CUSTOM_SCRIPT_PATH.to_owned();
    if script.starts_with("#!") { vec![path] } else { vec!["bash".to_owned(), path] }
}

fn plain_command(path: &str, text: &str, faults: &mut Violations) -> Option<Vec<String>> {
    let vector = argument_vector(text).filter(|vector| !vector.is_empty());
    faults.require(vector.is_some(), format!("{path}.command"), || {
        "not a command: close every quote".to_owned()
    });
    vector
}

/// The words of a field without shell syntax; no words if it is not given.
fn split(path: &str, text: Option<&String>, faults: &mut Violations) -> Option<Vec<String>> {
    let Some(text) = non_empty(text) else { return Some(vec![]) };
    let words = words(text);
    faults.require(words.is_some(), path, || format!("{text:?} has an open quote: close it"));
    words
}

fn submit_program(spec: &MiniClusterSpec, faults: &mut Violations) -> Option<Vec<String>> {
    let words = split("spec.flux.submitCommand", spec.flux.submit_command.as_ref(), faults)?;
    Some(if words.is_empty() { vec!["flux".to_owned(), "submit".to_owned()] } else { words })
}

fn flags(spec: &MiniClusterSpec, faults: &mut Violations) -> Option<Vec<String>> {
    let (size, tasks) = (spec.size, spec.tasks);
    let mut flags = Vec::new();
    if tasks == 0 || tasks >= size {
        flags.extend(["-N".to_owned(), size.to_string()]);
    }
    if tasks != 0 {
        flags.push(format!("-n{tasks}"));
    }
    flags.extend(split("spec.flux.optionFlags", spec.flux.option_flags.as_ref(), faults)?);
    Some(flags)
}

fn batch(
    path: &str,
    text: &str,
    spec: &MiniClusterSpec,
    container: &crd::Container,
    (prefix, flags): (Vec<String>, Vec<String>),
    faults: &mut Violations,
) -> Workload {
    let output_directory = non_empty(container.logs.as_ref())
        .unwrap_or(DEFAULT_OUTPUT_DIRECTORY)
        .trim_end_matches('/')
        .to_owned();
    faults.require(is_absolute_path(&output_directory), format!("{path}.logs"), || {
        format!("{output_directory:?} is not an absolute path without '..', other than '/'")
    });
    if !container.batch_raw {
        check_lines(path, text, faults);
    }
    let directory = shlex::try_quote(&output_directory).unwrap_or_default().into_owned();
    let script = if container.batch_raw {
        raw_script(text)
    } else {
        batch_script(path, text, &directory, faults)
    };
    if !spec.interactive {
        return Workload::Batch { prefix, flags, script, output_directory };
    }
    let (first, rest) = script.split_once('\n').unwrap_or((&script, ""));
    let submission = Some(Submission {
        prefix,
        submit: vec!["flux".to_owned(), "batch".to_owned()],
        flags,
        command: vec![CUSTOM_SCRIPT_PATH.to_owned()],
        script: Some(format!("{first}\nmkdir -p {directory}\n{rest}")),
    });
    Workload::Interactive { submission }
}

/// Reserved words of the shell (POSIX.1-2024, Shell Command Language, 2.4).
const SHELL_KEYWORDS: [&str; 15] = [
    "!", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "then",
    "until", "while",
];

/// The lines of a batch that are jobs, each with its number among all lines. Comments are no jobs.
fn job_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_job = |(_, line): &(usize, &str)| !line.is_empty() && !line.starts_with('#');
    text.lines().map(str::trim).enumerate().filter(is_job)
}

/// Refuses lines that are no complete command, because the shell would refuse the whole script.
fn check_lines(path: &str, text: &str, faults: &mut Violations) {
    for (number, line) in job_lines(text) {
        let path = format!("{path}.command");
        let first = line.split_whitespace().next().unwrap_or_default();
        let advice = "each line of a batch is a job; for a script of several lines set batchRaw";
        if SHELL_KEYWORDS.contains(&first) {
            let line = number + 1;
            faults.add(path, format!("line {line} begins with the shell's {first:?}: {advice}"));
        } else if shlex::split(line).is_none() {
            let fault = format!("line {} is not a whole command: close every quote", number + 1);
            faults.add(path, format!("{fault}, and let no line end with '\\'; {advice}"));
        }
    }
}

/// A script that submits each line as a job and waits for all. The agent reads from its output which line has failed.
fn batch_script(path: &str, text: &str, directory: &str, faults: &mut Violations) -> String {
    let mut script = "#!/bin/sh\ncode=0\n".to_owned();
    for (number, line) in job_lines(text) {
        let name = format!("job-{number}");
        let shown = format!("{name}: {line}");
        let shown = shlex::try_quote(&shown).unwrap_or_default();
        let files = format!("--error={directory}/{name}.err --output={directory}/{name}.out");
        // The echo of some shells interprets backslashes.
        let commands = [
            format!("printf '%s\\n' {shown}\n"),
            format!("flux submit --flags waitable --input=/dev/null {files} {line}\n"),
            format!("[ $? -eq 0 ] || {{ echo {name} was not submitted; code=1; }}\n"),
        ];
        script.extend(commands);
        if script.len() > BATCH_SCRIPT_LIMIT {
            faults.add(format!("{path}.command"), format!("the script made of its {} lines has more than the {BATCH_SCRIPT_LIMIT} bytes that are allowed: give fewer lines or a shorter logs, or submit them in a loop with batchRaw", text.lines().count()));
            return String::new();
        }
    }
    script + "flux queue idle\nflux jobs -a\nflux job wait --all || code=1\nexit $code\n"
}

/// The lines as a script; without an interpreter line bash runs it, as in the Go operator.
fn raw_script(text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let first = if text.starts_with("#!") { "" } else { "#!/bin/bash\n" };
    format!("{first}{text}{end}")
}
