//! A worker's wait for the lead.

use crate::execute::context::Context;
use crate::execute::error::StepError;
use crate::execute::steps::write_file;
use crate::lead::wait::wait_for_lead;
use crate::plan::step::{AwaitLead, FileToWrite};
use flux_contract::phase;
use std::net::IpAddr;
use std::time::Duration;

/// Waits until the lead lets this pod in, and gives the address where it did; what was seen last is in the status all
/// along.
pub(crate) async fn await_lead(
    context: &mut Context,
    lead: &AwaitLead,
) -> Result<IpAddr, StepError> {
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
    let found = context.signals.unless_stopped(wait).await??;
    context.progress.set_last_error(before);
    let seconds = found.elapsed.as_secs_f64();
    log.info(&format!(
        "the lead broker answers at {} after {seconds:.1} s ({} attempts)",
        found.address, found.attempts
    ));
    Ok(found.address.ip())
}

/// Has the broker go the way on which the lead was `found`: `now` in the place of the configuration `before`. The file
/// that is there, which a hook may have changed, stays where the two are one.
pub(crate) fn take_way(
    context: &Context,
    lead: &AwaitLead,
    found: IpAddr,
    before: &FileToWrite,
    now: &FileToWrite,
) -> Result<(), StepError> {
    if before == now {
        return Ok(());
    }
    if let Some(address) = lead.address {
        context.log.info(if address == found {
            "its address leads there again: the broker will use the address"
        } else {
            "only its name led there: the broker will use the name"
        });
    }
    write_file(context, now)
}
