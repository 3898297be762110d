//! What the lead runs.

use super::environment::{chosen_shell, output_directory};
use super::files::{BATCH_SCRIPT, BATCH_SCRIPT_VARIABLE, custom_script};
use super::{Pod, hooks};
use crate::facts::IMAGE_SHELLS;
use crate::step::{FileToWrite, Role, Step, shown};
use flux_contract::{Submission, Workload};
use std::path::Path;

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
    /// What people type to enter the instance, where it stays up for them.
    pub(super) entrance: Option<String>,
}

pub(super) fn workload(pod: Pod<'_>) -> Work {
    let lead = pod.role == Role::Lead;
    match &pod.config.workload {
        Workload::Interactive { submission } => Work {
            files: submission.iter().flat_map(|it| files(pod, it)).collect(),
            submission: submission.as_ref().filter(|_| lead).map(|it| beside_the_broker(pod, it)),
            entrance: lead.then(|| entrance(pod)),
            ..Work::default()
        },
        Workload::Submit { submission } => Work {
            files: files(pod, submission),
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
                fallback_directory: output_directory(pod).into(),
                variable: BATCH_SCRIPT_VARIABLE,
                content: runnable(pod, script),
            }),
            program: program(pod, batch(pod, prefix, flags)),
            ..Work::default()
        },
        Workload::Diagnostics {} => {
            Work { program: program(pod, diagnose(pod)), ..Work::default() }
        }
    }
}

fn files(pod: Pod<'_>, submission: &Submission) -> Vec<FileToWrite> {
    let scripts = submission.script.iter();
    scripts.map(|script| custom_script(&runnable(pod, script))).collect()
}

/// `script` with a shell in its first line that is there: scripts ask for `/bin/sh` or `/bin/bash`,
/// which an image without a shell lacks, while the view has one.
fn runnable(pod: Pod<'_>, script: &str) -> String {
    let (first, rest) = script.split_once('\n').unwrap_or((script, ""));
    let asked = first.strip_prefix("#!").map(str::trim).unwrap_or_default();
    let is_missing =
        IMAGE_SHELLS.contains(&asked) && !pod.facts.executables.contains(Path::new(asked));
    if is_missing {
        format!("#!{}\n{rest}", chosen_shell(pod.config, pod.facts).display())
    } else {
        script.to_owned()
    }
}

/// The submit command of an interactive MiniCluster. The working directory, where `flux batch` puts
/// its output by default, may be closed to the broker's user.
fn beside_the_broker(pod: Pod<'_>, submission: &Submission) -> Vec<String> {
    if submission.submit.iter().any(|word| word == "batch") {
        let output = format!("--output={}/flux-{{{{id}}}}.out", output_directory(pod));
        return submit(pod, submission, &[&output]);
    }
    submit(pod, submission, &[])
}

/// The submit command, with `options` of ours behind the user's flags.
fn submit(pod: Pod<'_>, submission: &Submission, options: &[&str]) -> Vec<String> {
    let Submission { prefix, submit, flags, command, script: _ } = submission;
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    [prefix.clone(), pod.with_flux(submit), flags.clone(), options, command.clone()].concat()
}

/// Submits the script, waits for its end, and ends with its code. What the script itself prints goes
/// to a file beside it, which is shown when it failed: nobody would see it otherwise.
fn batch(pod: Pod<'_>, prefix: &[String], flags: &[String]) -> Vec<String> {
    let flux = shown(&[pod.flux()]);
    let say_id = if pod.config.logging.quiet { "" } else { "echo \"$job\"; " };
    let flags = shown(flags);
    let line = format!(
        "directory=\"${{{BATCH_SCRIPT_VARIABLE}%/*}}\"; \
         job=$({flux} batch --output=\"$directory/flux-{{{{id}}}}.out\" {flags} --flags=waitable \"${BATCH_SCRIPT_VARIABLE}\") || exit; \
         {say_id}{flux} job status \"$job\"; code=$?; output=\"$directory/flux-$job.out\"; \
         if [ $code -ne 0 ] && [ -r \"$output\" ]; then \
         while IFS= read -r line; do printf '%s\\n' \"$line\"; done <\"$output\" >&2; \
         fi; exit $code"
    );
    let shell = hooks::shell(pod.config, pod.facts)
        .map_or_else(|| "sh".to_owned(), |shell| shell.display().to_string());
    [prefix.to_vec(), vec![shell, "-c".to_owned(), line]].concat()
}

/// Any pod will do: each is connected to the instance.
fn entrance(pod: Pod<'_>) -> String {
    let (name, namespace) = (&pod.config.cluster.name, &pod.config.cluster.namespace);
    let agent = pod.facts.agent.display();
    format!("kubectl exec -it -n {namespace} job/{name} -c {name} -- {agent} connect")
}

/// Says how the instance stands and keeps it up.
fn diagnose(pod: Pod<'_>) -> Vec<String> {
    let agent = pod.facts.agent.display().to_string();
    vec![agent, "diagnose".to_owned(), "--flux".to_owned(), pod.flux()]
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
