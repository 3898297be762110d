//! A worker's wait for the lead.

use crate::execute::context::Context;
use crate::execute::error::StepError;
use crate::execute::steps::write_file;
use crate::lead::wait::wait_for_lead;
use crate::plan::step::{AwaitLead, Way};
use flux_contract::phase;
use std::mem;
use std::time::Duration;

/// Waits until the lead lets this pod in; what was seen last is in the status all along.
pub(crate) async fn await_lead(context: &mut Context, lead: &AwaitLead) -> Result<(), StepError> {
    context.progress.enter(phase::WAIT_FOR_LEAD);
    context.log.info(&lead.to_string());
    let certificate = context
        .session
        .certificate
        .clone()
        .ok_or(StepError::Order { what: "the CURVE certificate" })?;
    let deadline = Duration::from_secs(lead.deadline_seconds);
    let before = context.progress.last_error();
    let (log, progress) = (context.log, &context.progress);
    let mut report = |line: &str| {
        log.info(line);
        progress.failed(line);
    };
    let wait = wait_for_lead(lead, &certificate, deadline, &mut report);
    let found =
        context.signals.unless_stopped(wait).await?.map_err(|source| StepError::Lead { source })?;
    context.progress.set_last_error(before);
    let seconds = found.elapsed.as_secs_f64();
    log.info(&format!(
        "the lead broker answers at {} after {seconds:.1} s ({} attempts)",
        found.address, found.attempts
    ));
    take_way(context, lead, lead.way_to(found.address.ip()))
}

/// Has the broker go the way that led to the lead.
fn take_way(context: &mut Context, lead: &AwaitLead, way: Way) -> Result<(), StepError> {
    let before = mem::replace(&mut context.session.way, way);
    let Some(file) = lead.rewritten(before, way) else { return Ok(()) };
    match way {
        Way::Address => {
            context.log.info("its address leads there again: the broker will use the address");
        }
        Way::Name { .. } if lead.address.is_some() => {
            context.log.info("only its name led there: the broker will use the name");
        }
        Way::Name { .. } => {}
    }
    write_file(context, file)
}
