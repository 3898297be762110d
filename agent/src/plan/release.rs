//! Differences between releases of flux-core on which a plan depends. The page on custom views has the whole table.

use crate::failure::{Failure, Result};
use crate::plan::bulk::is_flux_submit;
use crate::plan::facts::Facts;
use crate::plan::pod::Pod;
use flux_contract::{AgentConfig, Exit, Workload};
use flux_protocol::idset::idset;

/// The first release with `flux submit`, `flux run` and `flux batch` (`src/bindings/python/flux/cli`).
const OLDEST: [u32; 2] = [0, 48];
/// The first release in which `broker.quorum` is a number of brokers and not a set of ranks (`quorum_configure` in
/// `src/broker/state_machine.c`).
const QUORUM_IS_NUMBER: [u32; 2] = [0, 51];

/// The first release that gives root the ids of its jobs (`userid2key` in `src/modules/job-manager/plugins/history.c`).
const ROOT_HAS_HISTORY: [u32; 2] = [0, 57];

/// The first release whose `flux run` passes signals on to its job (`attach_fwd_signals` in `src/cmd/job/attach.c`).
const RUN_PASSES_SIGNALS_ON: [u32; 2] = [0, 73];

/// What a release lacks that this configuration asks for: the first release that has it, whether it is asked for, and the
/// effect of an older one.
type Lack = ([u32; 2], fn(&AgentConfig) -> bool, &'static str);

const LACKS: [Lack; 9] = [
    ([0, 49], |it| it.shutdown.idle_seconds.is_some(), "idleDeadlineSeconds has no effect"),
    ([0, 50], |it| it.broker.connect_timeout.is_some(), "flux.connectTimeout has no effect"),
    ([0, 51], |it| it.broker.quorum.is_some(), "minSize means the lowest ranks"),
    ([0, 53], |it| it.rest.is_some(), "flux.rest lists no jobs"),
    ([0, 57], |it| it.user.run_as_root, "a command of root that Flux refuses counts as failed"),
    ([0, 61], |it| it.rest.is_some(), "flux.rest has no ranks, metrics, and news of jobs"),
    ([0, 61], |it| it.autoscale.is_some(), "autoscale has no effect"),
    (
        [0, 75],
        |it| it.broker.topology.as_deref().is_some_and(|it| it.starts_with("mincrit")),
        "flux.topology: mincrit ends the broker",
    ),
    ([0, 78], |it| it.broker.simple_scheduler, "flux.scheduler.simple has no effect"),
];

/// What this release lacks that the configuration asks for, a line for each.
pub(super) fn notes(facts: &Facts, config: &AgentConfig) -> Vec<String> {
    let release = facts.flux_version.as_deref().unwrap_or_default();
    let lacks = LACKS.iter().filter(|(since, asks, _)| is_before(facts, *since) && asks(config));
    lacks.map(|(_, _, effect)| format!("with Flux {release}, {effect}")).collect()
}

/// Refuses a release that lacks the command by which the `workload` is submitted.
pub(super) fn check(facts: &Facts, workload: &Workload) -> Result<()> {
    let needs = match workload {
        Workload::Submit { submission }
        | Workload::Interactive { submission: Some(submission) } => {
            is_flux_submit(&submission.submit)
        }
        Workload::Batch { .. } => true,
        Workload::Interactive { submission: None }
        | Workload::Launcher { .. }
        | Workload::Diagnostics {} => false,
    };
    if !needs || !is_before(facts, OLDEST) {
        return Ok(());
    }
    let release = facts.flux_version.as_deref().unwrap_or_default();
    let text = format!(
        "this is Flux {release}, which lacks flux submit, flux run and flux batch: use flux-core 0.48 or newer \
         (flux.container.image), or for one command flux.submitCommand: flux mini submit"
    );
    Err(Failure::new(Exit::View, text))
}

/// The value of `broker.quorum` for this number of `brokers`, those of the lowest ranks.
pub(super) fn quorum(facts: &Facts, brokers: u32) -> String {
    if is_before(facts, QUORUM_IS_NUMBER) {
        // A range of one rank is none to Flux.
        idset(&(0..brokers).collect::<Vec<_>>())
    } else {
        brokers.to_string()
    }
}

/// Whether the user of Flux can ask it for the newest jobs.
pub(super) fn has_history(pod: Pod<'_>) -> bool {
    let is_root = pod.facts.uid == 0 && pod.config.user.run_as_root;
    !is_root || !is_before(pod.facts, ROOT_HAS_HISTORY)
}

/// Whether a signal for `flux run` reaches its job. Before, the signal ends `flux run`, and what the job prints then is lost.
pub(super) fn run_passes_signals_on(facts: &Facts) -> bool {
    !is_before(facts, RUN_PASSES_SIGNALS_ON)
}

/// Whether Flux is known to be of an earlier release than `since`.
fn is_before(facts: &Facts, since: [u32; 2]) -> bool {
    let numbers = |release: &String| {
        let mut numbers = release.split('.').map_while(|number| number.parse().ok());
        Some([numbers.next()?, numbers.next()?])
    };
    facts.flux_version.as_ref().and_then(numbers).is_some_and(|release: [u32; 2]| release < since)
}
