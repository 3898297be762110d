//! A model of the operator's world: random sequences of what can happen to a MiniCluster, against the
//! simulation of an API server, a Job controller and a node; and what holds whatever happens.
//!
//! The whole controller runs, with its watches, in paused time. `PROPTEST_RNG_SEED` gives other sequences,
//! `PROPTEST_CASES` another number of them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, helpers included")]
#![expect(
    clippy::unimplemented,
    reason = "what the simulation has not is said where it is asked for"
)]

mod action;
mod history;
mod invariants;
mod status;
#[path = "../support/mod.rs"]
mod support;
mod world;

use action::{Action, Flavour, course};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Longest sequence.
const LONGEST: usize = 24;

/// The same sequences each time, unless somebody asks for others.
fn settings(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let is_set = |name: &str| std::env::var_os(name).is_some();
    ProptestConfig {
        cases: if is_set("PROPTEST_CASES") { default.cases } else { cases },
        rng_seed: if is_set("PROPTEST_RNG_SEED") {
            default.rng_seed
        } else {
            RngSeed::Fixed(20_261_123)
        },
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..default
    }
}

/// What is wrong after a MiniCluster of `flavour` was made and `actions` have happened.
fn play(flavour: Flavour, actions: &[Action]) -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(invariants::hold(flavour, actions))
}

proptest! {
    #![proptest_config(settings(1000))]

    #[test]
    fn whatever_happens((flavour, actions) in course(LONGEST)) {
        if let Err(fault) = play(flavour, &actions) {
            return Err(TestCaseError::fail(fault));
        }
    }
}

#[test]
fn nothing_special() {
    play(Flavour::Once, &[]).unwrap();
}
