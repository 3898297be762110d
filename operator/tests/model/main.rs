//! A model of the operator's world: random sequences of what can happen to a MiniCluster, against the
//! simulation of an API server, a Job controller and a node; and what holds whatever happens.
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

use action::{Action, Flavour, scenario};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many sequences are played; optimised code plays thousands in the same time.
const SEQUENCES: u32 = 600;
/// In how many parts, each on a processor of its own.
const PARTS: u32 = 2;
/// Longest sequence, in steps of which some are several actions.
const LONGEST: usize = 24;

/// The same sequences each time, unless somebody asks for others; each part has its own.
fn settings(part: u32) -> Config {
    let default = Config::default();
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let all = if is_set("PROPTEST_CASES") { default.cases } else { SEQUENCES };
    let seed = match default.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => 20_261_123,
    };
    Config {
        cases: all.div_ceil(PARTS),
        rng_seed: RngSeed::Fixed(seed + u64::from(part)),
        failure_persistence: None,
        max_shrink_iters: 1000,
        ..default
    }
}

/// What is wrong after a MiniCluster of `flavour` was made and `actions` have happened.
fn play(flavour: Flavour, actions: &[Action]) -> Result<(), String> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    let played = || runtime.block_on(invariants::hold(flavour, actions));
    catch_unwind(AssertUnwindSafe(played)).unwrap_or_else(|_| Err("a panic, see above".to_owned()))
}

/// What is left of `actions` when each is left out that something is wrong without, too.
fn shortest(flavour: Flavour, mut actions: Vec<Action>) -> Vec<Action> {
    let mut position = actions.len();
    while position > 0 {
        position -= 1;
        let mut fewer = actions.clone();
        fewer.remove(position);
        if play(flavour, &fewer).is_err() {
            actions = fewer;
        }
    }
    actions
}

#[test]
fn whatever_happens() {
    play_part(0);
}

#[test]
fn whatever_else_happens() {
    play_part(1);
}

/// How the sequences of `seed` are played again: the first part has the seed that is given.
fn again(seed: RngSeed, cases: u32) -> String {
    let seed = match seed {
        RngSeed::Fixed(seed) => seed.to_string(),
        RngSeed::Random => "random".to_owned(),
    };
    format!(
        "seed {seed}; play it again: PROPTEST_RNG_SEED={seed} PROPTEST_CASES={cases} \
         cargo test -p flux-operator --test model whatever_happens"
    )
}

#[test]
fn a_failure_says_how_it_is_played_again() {
    let said = again(settings(1).rng_seed, 2000);
    let first = match settings(0).rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => 0,
    };
    assert!(
        said.contains(&format!("PROPTEST_RNG_SEED={} PROPTEST_CASES=2000", first + 1)),
        "{said}"
    );
}

#[expect(clippy::panic, reason = "a test fails by it")]
fn play_part(part: u32) {
    let settings = settings(part);
    let (seed, cases) = (settings.rng_seed, settings.cases * PARTS);
    let mut runner = TestRunner::new(settings);
    let played = runner.run(&scenario(LONGEST), |(flavour, actions)| {
        play(flavour, &actions).map_err(TestCaseError::fail)
    });
    match played {
        Ok(()) => {}
        Err(TestError::Abort(reason)) => panic!("{reason}"),
        Err(TestError::Fail(_, (flavour, actions))) => {
            let actions = shortest(flavour, actions);
            let fault = play(flavour, &actions).err().unwrap_or_default();
            panic!("{fault}\n\n{flavour:?}, {actions:?}\n\n{}", again(seed, cases));
        }
    }
}
