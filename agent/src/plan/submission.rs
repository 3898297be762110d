//! The kind of a submission, and the program that makes it.

use crate::plan::bulk::is_flux_submit;
use crate::plan::pod::Pod;
use crate::plan::step::Submitter;
use flux_contract::{AgentConfig, Submission};
use flux_protocol::jobspec::obstacle;
use toml::Table;

/// Releases whose `flux run` was compared with the agent's own submission.
const COMPARED: [&str; 8] =
    ["0.82.0", "0.83.0", "0.83.1", "0.84.0", "0.85.0", "0.86.0", "0.87.0", "0.88.0"];

/// Whether the submission is Flux's own and runs the command as a job of this instance and in no other way: only then the
/// absence of a job proves that the command did not run.
pub(super) fn submits_itself(submission: &Submission) -> bool {
    submission.prefix.is_empty() && is_flux_submit(&submission.submit)
}

/// The program that submits one job ([`runs_one_job`]).
pub(super) fn submitter(pod: Pod<'_>, submission: &Submission) -> Submitter {
    why_flux(pod, submission).map_or(Submitter::Agent, Submitter::Flux)
}

/// Why `flux run` has to submit the job: the agent does not know its jobspec to the byte.
fn why_flux(pod: Pod<'_>, submission: &Submission) -> Option<String> {
    let (config, facts) = (pod.config, pod.facts);
    let is_option = |word: &String| word.starts_with('-');
    for (applies, why) in [
        (!submission.prefix.is_empty(), "there is a commands.prefix"),
        (submission.submit.len() > 2, "flux.submitCommand has options"),
        (!has_counts_alone(&submission.flags), "there are options besides -N and -n"),
        (submission.command.first().is_none_or(is_option), "the command begins with an option"),
        (!config.view.enabled, "Flux is the image's own"),
        (has_validator(pod.config), "flux.brokerConfig has a table [ingest]"),
        (facts.has_submission_plugins, "Flux has plugins for its submission programs"),
    ] {
        if applies {
            return Some(why.to_owned());
        }
    }
    let release = facts.flux_version.as_deref().unwrap_or("of unknown release");
    if !COMPARED.contains(&release) {
        let [first, .., last] = COMPARED;
        return Some(format!("Flux {release} is none of {first} to {last}"));
    }
    obstacle(&facts.environment)
}

/// Whether `flags` are how many nodes and tasks there are, as the operator writes them, and make sense.
fn has_counts_alone(flags: &[String]) -> bool {
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
    let (nodes, rest) = match flags {
        [name, nodes, rest @ ..] if name == "-N" => (number(nodes), rest),
        rest => (Some(1), rest),
    };
    let tasks = match rest {
        [] => nodes,
        [tasks] => tasks.strip_prefix("-n").and_then(number),
        _ => None,
    };
    nodes.zip(tasks).is_some_and(|(nodes, tasks)| nodes <= tasks)
}

/// Whether the user has configured a check of jobs before Flux takes them (flux-config-ingest(5)). Without one, a Python
/// program would check jobs that the agent or Flux has made.
pub(crate) fn has_validator(config: &AgentConfig) -> bool {
    let custom = config.broker.custom_config.as_deref().unwrap_or_default();
    custom.parse::<Table>().map_or(true, |table| table.contains_key("ingest"))
}
