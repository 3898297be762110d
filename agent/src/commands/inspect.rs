//! What a pod is and does: `flux-agent plan`, what `run` would do in it; `resources`, what Flux takes it to have;
//! `status`, what the agent that runs it says of itself.

use crate::commands::arguments::{Format, PodArguments};
use crate::commands::error::CommandError;
use crate::commands::pod::PodContext;
use crate::commands::wait::{ANSWER_TIMEOUT, agent_socket};
use crate::flux::resources::Resources;
use crate::plan::decide;
use crate::status::client::ask;
use crate::status::document::StatusReport;
use crate::system::output::chain;
use std::fmt::Write as _;
use std::time::Duration;

pub(crate) fn plan(arguments: &PodArguments, format: Format) -> Result<(), CommandError> {
    let PodContext { config, facts, .. } = PodContext::read(arguments)?;
    let plan =
        decide::plan(&config, &facts).map_err(|error| CommandError::new(error.exit(), &error))?;
    format.print(&plan, || format!("{plan:#}"));
    Ok(())
}

pub(crate) fn resources(arguments: &PodArguments, format: Format) -> Result<(), CommandError> {
    let pod = PodContext::read(arguments)?;
    let resources = Resources::read(&pod.root, pod.resource_set());
    format.print(&resources, || resources.text());
    Ok(())
}

pub(crate) async fn status(arguments: &PodArguments, format: Format) -> Result<(), CommandError> {
    let report = ask(&agent_socket(arguments), ANSWER_TIMEOUT).await;
    let report = report.map_err(|error| CommandError::no(chain(&error)))?;
    format.print(&report, || status_text(&report));
    Ok(())
}

fn status_text(report: &StatusReport) -> String {
    let rank = report.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
    let mut lines = vec![
        ("host", report.hostname.clone()),
        ("role", format!("{}, rank {rank}", report.role)),
        ("phase", phase_text(report)),
        ("broker", report.broker_state.clone().unwrap_or_else(|| "-".to_owned())),
        ("ready", report.ready.to_string()),
        ("restarts", report.restarts.to_string()),
    ];
    lines.extend(report.last_error.clone().map(|error| ("error", error)));
    let mut text = String::new();
    for (name, value) in lines {
        let _ = writeln!(text, "{name:<10}{value}");
    }
    for phase in &report.phases {
        let (start, duration) = (phase.start_milliseconds, phase.duration_milliseconds);
        let _ = writeln!(text, "{:<16}at {start:>7} ms  {duration:>7} ms", phase.name);
    }
    text
}

/// The phase that runs, what it does, and for how long it has.
pub(super) fn phase_text(report: &StatusReport) -> String {
    let doing = report.doing.iter().map(|doing| format!(" ({doing})"));
    let running = report.phases.last().filter(|phase| phase.name == report.phase);
    let time = running.map(|phase| {
        let duration = Duration::from_millis(phase.duration_milliseconds);
        format!(" for {:.1} s", duration.as_secs_f64())
    });
    std::iter::once(report.phase.clone()).chain(doing).chain(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flux_contract::Phase;

    #[test]
    fn the_status_names_what_is_unknown_as_such() {
        let report = StatusReport {
            phase: "wait-for-lead".to_owned(),
            role: "worker".to_owned(),
            last_error: Some("connection refused".to_owned()),
            ..StatusReport::default()
        };
        let text = status_text(&report);
        assert!(text.contains("role      worker, rank -\n"), "{text}");
        assert!(text.contains("error     connection refused\n"), "{text}");
        assert!(text.contains("phase     wait-for-lead\n"), "{text}");
    }

    #[test]
    fn the_status_says_which_hook_runs_and_for_how_long() {
        let hooks = Phase {
            name: "hooks".to_owned(),
            start_milliseconds: 20,
            duration_milliseconds: 61_240,
        };
        let report = StatusReport {
            phase: "hooks".to_owned(),
            doing: Some("commands.pre".to_owned()),
            phases: vec![hooks],
            ..StatusReport::default()
        };
        assert_eq!(phase_text(&report), "hooks (commands.pre) for 61.2 s");
    }
}
