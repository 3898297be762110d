//! Differences between releases of flux-core on which a plan depends. The page on custom views has the whole table.

use crate::failure::Failure;
use crate::plan::bulk::is_flux_submit;
use crate::plan::facts::Facts;
use flux_contract::{Exit, Workload};

/// The first release with `flux submit`, `flux run` and `flux batch` (`src/bindings/python/flux/cli`).
const OLDEST: [u32; 2] = [0, 48];
/// The first release in which `broker.quorum` is a number of brokers and not a set of ranks (`quorum_configure` in
/// `src/broker/state_machine.c`).
const QUORUM_IS_NUMBER: [u32; 2] = [0, 51];

/// Refuses a release that lacks the command by which the `workload` is submitted.
pub(super) fn check(facts: &Facts, workload: &Workload) -> Result<(), Failure> {
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
        format!("0-{}", brokers.saturating_sub(1))
    } else {
        brokers.to_string()
    }
}

/// Whether Flux is known to be of an earlier release than `since`.
fn is_before(facts: &Facts, since: [u32; 2]) -> bool {
    let numbers = |release: &String| {
        let mut numbers = release.split('.').map_while(|number| number.parse().ok());
        Some([numbers.next()?, numbers.next()?])
    };
    facts.flux_version.as_ref().and_then(numbers).is_some_and(|release: [u32; 2]| release < since)
}
