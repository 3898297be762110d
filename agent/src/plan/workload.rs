//! What the lead runs.

use super::files::{BATCH_SCRIPT, BATCH_SCRIPT_VARIABLE, custom_script};
use super::{Pod, hooks};
use crate::step::{FileToWrite, Role, Step, shown};
use flux_contract::{Submission, Workload};

/// Files, initial program and submission of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Work {
    /// Needed on every pod.
    pub(super) files: Vec<FileToWrite>,
    /// The batch script, on the lead.
    pub(super) batch: Option<Step>,
    /// The broker's initial program, with its wrapper. Empty on workers.
    pub(super) program: Vec<String>,
    /// Run beside the broker of an interactive MiniCluster.
    pub(super) submission: Option<Vec<String>>,
}

pub(super) fn workload(pod: Pod<'_>) -> Work {
    let lead = pod.role == Role::Lead;
    match &pod.config.workload {
        Workload::Interactive { submission } => Work {
            files: submission.iter().flat_map(files).collect(),
            submission: submission.as_ref().filter(|_| lead).map(|it| submit(pod, it, &[])),
            ..Work::default()
        },
        Workload::Submit { submission } => Work {
            files: files(submission).collect(),
            program: program(pod, submit(pod, submission, &["--quiet", "--watch"])),
            ..Work::default()
        },
        Workload::Launcher { prefix, command } => Work {
            program: program(pod, [prefix.clone(), pod.with_flux(command)].concat()),
            ..Work::default()
        },
        Workload::Batch { prefix, flags, script, output_directory: _ } => Work {
            batch: Some(Step::WriteBatchScript {
                name: BATCH_SCRIPT,
                fallback_directory: pod.config.layout.run_dir(),
                variable: BATCH_SCRIPT_VARIABLE,
                content: script.clone(),
            }),
            program: program(pod, batch(pod, prefix, flags)),
            ..Work::default()
        },
    }
}

fn files(submission: &Submission) -> impl Iterator<Item = FileToWrite> {
    submission.script.iter().map(|script| custom_script(script))
}

/// The submit command, with `options` of ours behind the user's flags.
fn submit(pod: Pod<'_>, submission: &Submission, options: &[&str]) -> Vec<String> {
    let Submission { prefix, submit, flags, command, script: _ } = submission;
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    [prefix.clone(), pod.with_flux(submit), flags.clone(), options, command.clone()].concat()
}

/// Submits the script and waits for its end. `flux batch` prints an id and nothing else.
fn batch(pod: Pod<'_>, prefix: &[String], flags: &[String]) -> Vec<String> {
    let flux = shown(&[pod.flux()]);
    let silent = if pod.config.logging.quiet { " >/dev/null" } else { "" };
    let line = format!(
        "{flux} batch {} --flags=waitable \"${BATCH_SCRIPT_VARIABLE}\"{silent} && {flux} job wait --all{silent}",
        shown(flags)
    );
    let shell = hooks::shell(pod.config, pod.facts)
        .map_or_else(|| "sh".to_owned(), |shell| shell.display().to_string());
    [prefix.to_vec(), vec![shell, "-c".to_owned(), line]].concat()
}

/// The wrapper that records when `command` started and how it ended. Only the lead has a program.
fn program(pod: Pod<'_>, command: Vec<String>) -> Vec<String> {
    if pod.role == Role::Worker {
        return Vec::new();
    }
    let record = pod.config.layout.program_record().display().to_string();
    let mut words = vec![
        pod.facts.agent.display().to_string(),
        "program".to_owned(),
        "--record".to_owned(),
        record,
    ];
    if pod.config.logging.timed {
        words.push("--timed".to_owned());
    }
    words.push("--".to_owned());
    words.extend(command);
    words
}
