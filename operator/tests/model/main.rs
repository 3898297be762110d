//! A model test: random sequences of actions on a MiniCluster, played against a simulated API server, Job
//! controller and nodes; and the invariants that hold after any of them.
//!
//! The whole controller runs, with its watches, in paused time. `PROPTEST_RNG_SEED` gives other sequences,
//! `PROPTEST_CASES` another number of them.
#![expect(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod action;
mod history;
mod invariants;
mod status;
#[path = "../support/mod.rs"]
mod support;
mod world;

use action::{Action, scenario};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// How many sequences are played; optimised code plays thousands in the same time.
const SEQUENCES: u32 = 600;
/// In how many parts, each on a processor of its own.
const PARTS: u32 = 2;
/// Longest sequence, in steps of which some are several actions.
const LONGEST: usize = 24;

/// The same sequences each time, unless the variable gives another seed; each part has its own.
fn settings(part: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let is_set = std::env::var_os("PROPTEST_CASES").is_some();
    let seed = match default.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => 20_261_123,
    };
    ProptestConfig {
        cases: if is_set { default.cases } else { SEQUENCES }.div_ceil(PARTS),
        rng_seed: RngSeed::Fixed(seed + u64::from(part)),
        failure_persistence: None,
        max_shrink_iters: 1000,
        ..default
    }
}

/// The violations after a MiniCluster with `fields` was created and `actions` were played.
fn play(fields: &str, actions: &[Action]) -> Result<(), TestCaseError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(invariants::hold(fields, actions)).map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(settings(0))]

    #[test]
    fn whatever_happens((fields, actions) in scenario(LONGEST)) {
        play(fields, &actions)?;
    }
}

proptest! {
    #![proptest_config(settings(1))]

    #[test]
    fn whatever_else_happens((fields, actions) in scenario(LONGEST)) {
        play(fields, &actions)?;
    }
}
