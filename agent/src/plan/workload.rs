//! What the lead runs.

use crate::plan::bulk::{is_flux_submit, runs_one_job};
use crate::plan::directives;
use crate::plan::facts::{ENV, Facts, IMAGE_SHELLS, USR_SHELLS};
use crate::plan::files::file;
use crate::plan::pod::Pod;
use crate::plan::release;
use crate::plan::step::{FileToWrite, LeadCommand, Role, Step, Submitter};
use crate::plan::submission::{has_validator, submits_itself, submitter};
use crate::plan::variables::{self, chosen_shell, output_directory};
use crate::system::subcommand::{BATCH, CONNECT, DIAGNOSE, START, SUBMIT, call};
use flux_contract::{CUSTOM_SCRIPT_PATH, Submission, Workload};
use std::path::{Path, PathBuf};

/// The flag that `novalidate` of flux-submit(1) is; the instance's owner alone may give it.
pub(crate) const NO_VALIDATOR: &str = "--flags=novalidate";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Work {
    /// Needed wherever the command may run.
    pub(super) script: Option<FileToWrite>,
    pub(super) batch: Option<Step>,
    /// The command with which the lead's run ends.
    pub(super) command: Option<LeadCommand>,
    pub(super) submission: Option<Vec<String>>,
    /// The command line by which people enter an instance that stays up for them.
    pub(super) attach_hint: Option<String>,
}

pub(super) fn workload(pod: Pod<'_>) -> Work {
    let lead = pod.role == Role::Lead;
    match &pod.config.workload {
        Workload::Interactive { submission } => Work {
            script: submission.as_ref().and_then(|it| Some(script(pod, it.script.as_ref()?))),
            submission: submission
                .iter()
                .find(|_| pod.submits())
                .map(|it| beside_the_broker(pod, it)),
            attach_hint: lead.then(|| attach_hint(pod)),
            ..Work::default()
        },
        Workload::Submit { submission } => Work {
            script: submission.script.as_ref().map(|text| script(pod, text)),
            command: submit_and_wait(pod, submission),
            ..Work::default()
        },
        Workload::Launcher { prefix, command, script: text } => Work {
            script: text.as_ref().filter(|_| lead).map(|text| script(pod, text)),
            command: lead_command(pod, [prefix.clone(), pod.with_flux(command)].concat(), false),
            ..Work::default()
        },
        Workload::Batch { prefix, flags, script, output_directory: _ } => Work {
            batch: Some(Step::WriteBatchScript {
                fallback_directory: output_directory(pod).into(),
                script: runnable(pod, script),
            }),
            command: batch(pod, prefix, flags),
            ..Work::default()
        },
        Workload::Diagnostics {} => {
            let flux = ["--flux".to_owned(), pod.flux()];
            let words = [call(&pod.facts.agent, DIAGNOSE), flux.into()].concat();
            Work { command: lead_command(pod, words, false), ..Work::default() }
        }
    }
}

fn script(pod: Pod<'_>, text: &str) -> FileToWrite {
    file(CUSTOM_SCRIPT_PATH, 0o755, runnable(pod, text))
}

/// `script` with a shell in its first line that exists: an image may lack `/bin/sh` and `/bin/bash`, while the view has a
/// shell.
fn runnable(pod: Pod<'_>, script: &str) -> String {
    let (first, rest) = script.split_once('\n').unwrap_or((script, ""));
    match first.strip_prefix("#!").and_then(|line| missing_shell(pod.facts, line.trim())) {
        Some(options) => {
            let shell = chosen_shell(pod.config, pod.facts).display().to_string();
            format!("{}\n{rest}", format!("#!{shell} {options}").trim_end())
        }
        None => script.to_owned(),
    }
}

/// The options of the shell that `line` of a script names, if that shell is missing.
fn missing_shell<'line>(facts: &Facts, line: &'line str) -> Option<&'line str> {
    let split = |text: &'line str| text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (asked, rest) = split(line);
    if facts.executables.contains(Path::new(asked)) {
        return None;
    }
    if IMAGE_SHELLS.contains(&asked) || USR_SHELLS.contains(&asked) {
        return Some(rest.trim());
    }
    // `env bash`, or with options `env -S bash -e`.
    let rest = rest.trim();
    let (name, options) = split(rest.strip_prefix("-S").unwrap_or(rest).trim_start());
    (asked == ENV && ["bash", "sh"].contains(&name)).then_some(options.trim())
}

/// The submit command of an interactive MiniCluster. The working directory, where `flux batch` puts
/// its output by default, may be closed to the broker's user.
fn beside_the_broker(pod: Pod<'_>, submission: &Submission) -> Vec<String> {
    let output = format!("--output={}/flux-{{{{id}}}}.out", output_directory(pod));
    let options = [output.as_str()];
    let is_batch = submission.submit.iter().any(|word| word == "batch");
    let has_output = directives::output_option(&submission.flags).is_some()
        || submission.script.as_deref().is_some_and(|it| directives::output(it).is_some());
    submit(pod, submission, if is_batch && !has_output { &options } else { &[] })
}

/// The command that submits and ends as the jobs do.
///
/// `flux run` prints the output of a job at once. `flux submit --watch` keeps it until there are 8 KiB or the job has ended
/// (flux-core, `flux/job/watcher.py`): the log stays empty for long, and a stop loses the rest. Only `flux submit` makes
/// several jobs of one command.
fn submit_and_wait(pod: Pod<'_>, submission: &Submission) -> Option<LeadCommand> {
    let may_be_refused = submits_itself(submission);
    if !runs_one_job(submission) {
        let words = submit(pod, submission, &["--quiet", "--watch"]);
        return lead_command(pod, words, may_be_refused);
    }
    let submitter = submitter(pod, submission);
    let words = if submitter == Submitter::Agent {
        let own = [pod.flux()].into_iter().chain(call(&pod.facts.agent, SUBMIT));
        let own = own.chain([format!("--flux={}", pod.flux())]).chain(submission.flags.clone());
        own.chain(["--".to_owned()]).chain(submission.command.clone()).collect()
    } else {
        let mut run = submission.clone();
        run.submit.splice(..2, ["flux", "run"].map(str::to_owned));
        submit(pod, &run, &[])
    };
    let command = lead_command(pod, words, may_be_refused)?;
    let signals_job = !release::run_passes_signals_on(pod.facts);
    Some(LeadCommand { submitter: Some(submitter), signals_job, ..command })
}

/// The submit command, with `options` of ours behind the user's flags.
///
/// The standard input of a job of `flux submit` would stay open for `flux job attach`, and a command that reads it would
/// wait forever; other flags of the user come later and count. `flux run` passes on its own input, which ends at once:
/// with `--input` Flux's shell would hold each job for half a second (`input.batch-timeout`).
fn submit(pod: Pod<'_>, submission: &Submission, options: &[&str]) -> Vec<String> {
    let Submission { prefix, submit, flags, command, script: _ } = submission;
    let input = is_flux_submit(submit).then(|| "--input=/dev/null".to_owned());
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    let submit = pod.with_flux(submit).into_iter().chain(input).chain(no_validator(pod, submit));
    [prefix.clone(), submit.collect(), flags.clone(), options, command.clone()].concat()
}

/// The option by which the submission program `submit`, if it is Flux's, needs no Python program to check its own job.
fn no_validator(pod: Pod<'_>, submit: &[String]) -> Option<String> {
    let is_known = |command| submit.starts_with(&["flux", command].map(str::to_owned));
    let is_known = ["run", "submit", "batch"].into_iter().any(is_known);
    (is_known && !has_validator(pod.config)).then(|| NO_VALIDATOR.to_owned())
}

fn batch(pod: Pod<'_>, prefix: &[String], flags: &[String]) -> Option<LeadCommand> {
    let error_file = PathBuf::from(pod.config.layout.command_failure());
    let mut words = [prefix, &call(&pod.facts.agent, BATCH)].concat();
    words.push(format!("--flux={}", pod.flux()));
    words.push(format!("--output-directory={}", output_directory(pod)));
    words.push(format!("--failure={}", error_file.display()));
    words.extend(pod.config.logging.quiet.then(|| "--quiet".to_owned()));
    words.push("--".to_owned());
    words.extend((!has_validator(pod.config)).then(|| NO_VALIDATOR.to_owned()));
    words.extend_from_slice(flags);
    let command = lead_command(pod, words, prefix.is_empty())?;
    Some(LeadCommand { error_file: Some(error_file), ..command })
}

/// The command line works in any pod: each is connected to the instance.
fn attach_hint(pod: Pod<'_>) -> String {
    let (name, namespace) = (&pod.config.cluster.name, &pod.config.cluster.namespace);
    let agent = pod.facts.agent.display();
    format!("kubectl exec -it -n {namespace} job/{name} -c {name} -- {agent} {CONNECT}")
}

/// `words` as the command of the lead. A program other than Flux is started by `flux env`, which adds the variables for a use
/// of Flux, and by `start`, which ends as shells do where the program cannot be started.
fn lead_command(pod: Pod<'_>, words: Vec<String>, may_be_refused: bool) -> Option<LeadCommand> {
    let flux = pod.flux();
    let start = if words.first() == Some(&flux) {
        Vec::new()
    } else {
        let start = call(&pod.facts.agent, START);
        [vec![flux, "env".to_owned()], start, vec!["--".to_owned()]].concat()
    };
    let (words, cleans_up) = ([start, words].concat(), variables::cleans_up_later(pod.facts));
    let (submitter, signals_job, error_file) = (None, false, None);
    let may_be_refused = may_be_refused && release::has_history(pod);
    let command =
        LeadCommand { words, submitter, may_be_refused, signals_job, cleans_up, error_file };
    (pod.role == Role::Lead).then_some(command)
}
