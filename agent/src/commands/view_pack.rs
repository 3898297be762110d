//! `flux-agent view pack`: makes a view image's files from an installed Flux, and checks them.

use crate::commands::arguments::Format;
use crate::commands::failure::{Done, NO, failed};
use crate::system::check::{Check, any_failed, text};
use crate::system::output::complain;
use crate::view::{CheckRequest, Fault, PackError, PackReport, PackRequest, check_view, pack};
use flux_contract::Exit;
use serde::Serialize;

/// What was packed, and what a check of it found.
#[derive(Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    report: PackReport,
    checks: Vec<Check>,
}

/// Packs and says what takes how much; ends with 1 if what was made has a fault.
pub(crate) fn run(request: &PackRequest, format: Format) -> Done {
    let report = pack(request, &mut |step| complain(step)).map_err(|error| {
        if let PackError::Faults(faults) = &error {
            explain(faults);
        }
        failed(Exit::View, &error)
    })?;
    let checks = check_view(&CheckRequest {
        root: request.to.clone(),
        application: None,
        mount_path: request.mount_path.clone(),
    });
    let answer = Answer { report, checks };
    format.print(&answer, || format!("{}{}", answer.report, text(&answer.checks)));
    if any_failed(&answer.checks) { Err(NO) } else { Ok(()) }
}

/// Says each fault, and what to do about it.
fn explain(faults: &[Fault]) {
    for Fault { cause, remedy } in faults {
        complain(&format!("fault: {cause}"));
        complain(&format!("remedy: {remedy}"));
    }
}
