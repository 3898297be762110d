//! The stand-in, or the real Flux that `FLUX_UNDER_TEST` names, as the agent and people use it.

#![expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
#![expect(clippy::print_stderr, reason = "why a test is skipped has to be seen")]

mod instance;
mod jobs;
mod refusals;
mod releases;
#[path = "../../../../agent/tests/it/settings.rs"]
mod settings;
mod site;
mod socket;
