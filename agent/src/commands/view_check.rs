//! `flux-agent view check`: whether an image holds a view, and whether that runs in an application's image.

use crate::commands::arguments::Format;
use crate::commands::failure::{Done, NO};
use crate::system::check::{any_failed, text};
use crate::view::{CheckRequest, check_view};

/// Checks everything and prints it; ends with 1 if a check failed.
pub(crate) fn run(request: &CheckRequest, format: Format) -> Done {
    let checks = check_view(request);
    format.print(&checks, || text(&checks));
    if any_failed(&checks) { Err(NO) } else { Ok(()) }
}
