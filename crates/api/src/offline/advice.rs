//! Warnings about valid but probably unintended parts: commands that wait for themselves, directives without effect.

use crate::cluster::validate::{Violation, runner_position};
use crate::crd::{Container, MiniClusterSpec};

/// Options of `flux batch` that the MiniCluster sets on the command line, which overrides the script.
const DECIDED: [&str; 4] = ["--nodes", "-N", "--nslots", "-n"];

/// Warnings about the command of the container that runs Flux.
pub(super) fn advice(spec: &MiniClusterSpec) -> Vec<Violation> {
    let position = runner_position(&spec.containers).unwrap_or_default();
    let Some(container) = spec.containers.get(position) else { return Vec::new() };
    let script = container.commands.as_ref().and_then(|commands| commands.script.as_deref());
    let texts = [("command", container.command.as_deref()), ("commands.script", script)];
    let texts = texts
        .into_iter()
        .filter_map(|(field, text)| Some((format!("spec.containers[{position}].{field}"), text?)));
    texts
        .flat_map(|(path, text)| {
            let wait = waits_for_itself(spec, container, text).map(str::to_owned);
            let messages = wait.into_iter().chain(directives(container, text));
            messages.map(|message| Violation { path: path.clone(), message }).collect::<Vec<_>>()
        })
        .collect()
}

/// Warning about a command that is a job and waits until no job is left.
fn waits_for_itself(
    spec: &MiniClusterSpec,
    container: &Container,
    text: &str,
) -> Option<&'static str> {
    let is_job = spec.interactive || !(spec.launcher || container.launcher);
    let words = text.split(|c: char| c.is_whitespace() || ";&|()".contains(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let waits = words.windows(3).any(|it| matches!(it, ["flux", "queue", "drain" | "idle"]));
    (is_job && waits && !container.batch && !container.diagnostics).then_some(
        "is submitted as a job, and waits until no job is left, itself included: set launcher: true, without interactive, so that it runs beside the broker; or leave out the wait",
    )
}

/// Warnings about directives for `flux batch` (RFC 36) in `text` that have no effect.
fn directives(container: &Container, text: &str) -> Vec<String> {
    let is_read = container.batch && container.batch_raw;
    let found =
        text.lines().zip(1_u32..).filter_map(|(line, number)| Some((directive(line)?, number)));
    let is_decided = |options: &str| {
        let option = options.split(['=', ' ']).next().unwrap_or_default();
        let short = |it: &&str| it.len() == 2 && option.starts_with(it);
        DECIDED.iter().any(|it| option == *it || short(it))
    };
    let lost = found.filter(|(options, _)| !is_read || is_decided(options));
    let why = if is_read {
        "size and tasks of the MiniCluster give these numbers"
    } else {
        "only flux batch reads it, where the text is its script: set batch and batchRaw, or use flux.optionFlags"
    };
    lost.map(|(_, line)| format!("the directive in line {line} has no effect: {why}")).collect()
}

fn directive(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_');
    let options = line.strip_prefix("flux:").or_else(|| line.strip_prefix("FLUX:"))?.trim();
    options.starts_with('-').then_some(options)
}
