//! Subcommands that read the status of the agent of this pod: `flux-agent status` prints it, `ready` checks whether the pod
//! is ready, `wait` waits for an event.

use crate::commands::arguments::{Awaited, PodArguments, PodQuestion, duration};
use crate::commands::pod::{PodContext, own_layout, read_certificate};
use crate::failure::{Failure, NO, Result};
use crate::lead::wait::wait_for_lead;
use crate::plan::config::read_config;
use crate::plan::decide;
use crate::status::document::StatusReport;
use crate::status::file;
use crate::system::output::log_line;
use flux_contract::Layout;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) async fn ready(arguments: &PodArguments, seconds: u64) -> Result<()> {
    let deadline = Instant::now() + duration(seconds);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match report_of(arguments) {
            Ok(report) if report.ready => return Ok(()),
            Ok(report) if left.is_zero() || report.over => return Err(not_ready(&report)),
            Err(error) if left.is_zero() => return Err(error),
            // The pod is not ready yet, or its agent has not started yet.
            Ok(_) | Err(_) => tokio::time::sleep(POLL_INTERVAL.min(left)).await,
        }
    }
}

fn not_ready(report: &StatusReport) -> Failure {
    let broker =
        report.broker_state.as_ref().map_or_else(String::new, |state| format!(", broker {state}"));
    let error = report.last_error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    Failure::with_code(NO, format!("not ready: {}{broker}{error}", phase_text(report)))
}

pub(crate) async fn wait(what: Awaited, arguments: &PodArguments, seconds: u64) -> Result<()> {
    let limit = duration(seconds);
    if what == Awaited::Lead {
        return wait_lead(arguments, limit).await;
    }
    let reached = async || {
        if what == Awaited::Complete {
            return arguments.root.at(layout(arguments).complete_marker()).exists();
        }
        report_of(arguments).is_ok_and(|report| report.online)
    };
    let polled = async {
        while !reached().await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let polled = tokio::time::timeout(limit, polled).await;
    polled.map_err(|_| Failure::with_code(NO, format!("still waiting after {seconds} s")))
}

async fn wait_lead(arguments: &PodArguments, limit: Duration) -> Result<()> {
    let pod = PodContext::read(arguments)?;
    let certificate = read_certificate(&pod.certificate_path())?;
    let lead = decide::lead(&pod.config, &pod.facts)?;
    wait_for_lead(&lead, &certificate, limit, &mut |line, _| log_line(line)).await.map(drop)
}

/// The layout in the configuration. If that cannot be read, the layout follows from the path of this program.
fn layout(arguments: &PodArguments) -> Layout {
    let config = read_config(&arguments.root.at(&arguments.config));
    config.ok().map(|config| config.layout).or_else(own_layout).unwrap_or_default()
}

fn report_of(arguments: &PodArguments) -> Result<StatusReport> {
    file::read(&arguments.root, &layout(arguments))
}

pub(crate) fn status(question: &PodQuestion) -> Result<()> {
    let report = report_of(&question.pod)?;
    question.output.print(&report, || status_text(&report));
    Ok(())
}

pub(crate) fn runs_hook(arguments: &PodArguments) -> bool {
    report_of(arguments).is_ok_and(|report| report.doing.is_some())
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
    lines.extend(report.modules_loaded_by.clone().map(|loader| ("modules", loader)));
    lines.extend(report.notes.iter().map(|note| ("note", note.clone())));
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

/// The current phase, its activity, and its time so far.
fn phase_text(report: &StatusReport) -> String {
    let doing = report.doing.iter().map(|doing| format!(" ({doing})"));
    let running = report.phases.last().filter(|phase| phase.name == report.phase);
    let time = running.map(|phase| {
        let duration = Duration::from_millis(phase.duration_milliseconds);
        format!(" for {:.1} s", duration.as_secs_f64())
    });
    std::iter::once(report.phase.clone()).chain(doing).chain(time).collect()
}
