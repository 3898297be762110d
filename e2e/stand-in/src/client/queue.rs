//! `flux queue`.

use std::time::Duration;

use super::Call;
use super::connection::{ask, ask_with};
use crate::failure::Failure;
use crate::options::{Argument, long, short};
use crate::output;
use crate::protocol::{QueueAction, Request};
use crate::text::duration;

/// `flux queue SUBCOMMAND`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let (command, call) = super::split(call, "queue")?;
    match command {
        "idle" => return wait(&call, "idle", false),
        "drain" => return wait(&call, "drain", true),
        _ => {}
    }
    call.refuse_in_batch(&format!("queue {command}"))?;
    let action = match command {
        "status" => QueueAction::Status,
        "enable" => QueueAction::Enable,
        "disable" => QueueAction::Disable,
        "start" => QueueAction::Start,
        "stop" => QueueAction::Stop,
        other => return Err(Failure::not_simulated(&format!("queue {other}"))),
    };
    let choices = [
        short("all", 'a', Argument::None),
        short("queue", 'q', Argument::Required),
        short("verbose", 'v', Argument::None),
        short("message", 'm', Argument::Required),
        long("quiet", Argument::None),
        long("nocheckpoint", Argument::None),
    ];
    let parsed = call.python_options("queue", &choices)?;
    if parsed.has("queue") || (action == QueueAction::Disable && !parsed.rest.is_empty()) {
        return Err(Failure::not_simulated("named queues"));
    }
    let queue = ask(&call, "flux-queue: ERROR", &Request::Queue(action))?;
    let submission = if queue["disabled"] == true { "disabled" } else { "enabled" };
    let scheduling = if queue["stopped"] == true { "stopped" } else { "started" };
    let both = action == QueueAction::Status;
    let quiet = parsed.has("quiet");
    if !quiet && (both || matches!(action, QueueAction::Enable | QueueAction::Disable)) {
        output::line(&format!("Job submission is {submission}"));
    }
    if !quiet && (both || matches!(action, QueueAction::Start | QueueAction::Stop)) {
        output::line(&format!("Scheduling is {scheduling}"));
    }
    Ok(0)
}

fn wait(call: &Call, name: &str, drain: bool) -> Result<u8, Failure> {
    let choices = [short("timeout", 't', Argument::Required), long("quiet", Argument::None)];
    let parsed = call.python_options("queue", &choices)?;
    let limit = match parsed.value("timeout") {
        None => None,
        Some(text) => duration::parse(text)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .map(Some)
            .ok_or_else(|| Failure::new(format!("flux-queue: ERROR: invalid FSD '{text}'")))?,
    };
    let request = Request::Idle { drain, scope: call.scope() };
    let prefix = format!("flux-queue: ERROR: {name}");
    let answer = ask_with(call, &prefix, &request, limit, &mut |_| {}).map_err(|failure| {
        if failure.message.ends_with("Connection timed out") {
            Failure::new(format!("{prefix}: timeout"))
        } else {
            failure
        }
    })?;
    let pending = answer["pending"].as_u64().unwrap_or_default();
    if !drain && (!parsed.has("quiet") || pending > 0) {
        output::line(&format!("{pending} jobs"));
    }
    Ok(0)
}
