//! `flux-agent doctor`: checks what a pod needs, one thing after the other, and says for each that
//! is wrong what it means and what to do about it.

use crate::commands::arguments::{Format, PodArguments};
use crate::commands::doctor::checks;
use crate::commands::failure::{Done, NO};
use crate::system::check::{any_failed, text};

/// Checks everything and prints it; ends with 1 if a check failed.
pub(crate) async fn run(arguments: &PodArguments, format: Format) -> Done {
    let checks = checks::all(arguments).await;
    format.print(&checks, || text(&checks));
    if any_failed(&checks) { Err(NO) } else { Ok(()) }
}
