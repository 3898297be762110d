//! `flux-agent ps`: the processes of this container as a tree, with their origins, for images without a `ps`.

use crate::accounts::passwd::Databases;
use crate::commands::arguments::PodQuestion;
use crate::commands::wait;
use crate::failure::{Failure, Result};
use crate::system::words::shown;
use flux_contract::{Exit, Layout};
use procfs::process::{Process, all_processes};
use procfs::{Current as _, ProcError, Uptime};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write as _};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Programs of Flux, by their names in the kernel.
const FLUX_BROKER: &str = "flux-broker";
const FLUX_SHELL: &str = "flux-shell";

/// The origin of a process. Its children have the same origin, except for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Origin {
    Agent,
    Broker,
    /// A job of Flux, which runs below the broker.
    Job,
    /// The lead's command, or a sidecar's.
    Command,
    Hook,
    /// An orphan of a killed broker, or a daemon that a hook or the command has started.
    LeftOver,
    /// Started from outside, as by `kubectl exec`.
    Entered,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    pid: i32,
    parent: i32,
    user: String,
    state: char,
    zombie: bool,
    seconds: u64,
    origin: Origin,
    command: Vec<String>,
    #[serde(skip)]
    group: i32,
    #[serde(skip)]
    session: i32,
    #[serde(skip)]
    name: String,
}

pub(crate) fn run(question: &PodQuestion) -> Result<()> {
    let pod = &question.pod;
    // Without this file, users are shown as numbers.
    let passwd = fs::read(pod.root.at("/etc/passwd")).unwrap_or_default();
    let users = Databases { passwd, ..Databases::default() };
    let failed = |error: ProcError| Failure::new(Exit::Prepare, format!("read /proc: {error}"));
    let uptime = Uptime::current().map_err(failed)?.uptime_duration();
    let all = all_processes().map_err(failed)?;
    // Processes that have ended meanwhile are left out.
    let rows = all.filter_map(|process| row(&process.ok()?, uptime, &users)).collect();
    let hook_runs = wait::runs_hook(pod);
    let rows = with_origins(rows, hook_runs);
    question.output.print(&rows, || text(&rows));
    Ok(())
}

fn row(process: &Process, uptime: Duration, users: &Databases) -> Option<Row> {
    let stat = process.stat().ok()?;
    let started = Duration::from_secs(stat.starttime / procfs::ticks_per_second());
    Some(Row {
        pid: stat.pid,
        parent: stat.ppid,
        user: users.name_of(process.uid().ok()?),
        state: stat.state,
        zombie: stat.state == 'Z',
        seconds: uptime.saturating_sub(started).as_secs(),
        origin: Origin::Entered,
        command: process.cmdline().unwrap_or_default(),
        group: stat.pgrp,
        session: stat.session,
        name: stat.comm,
    })
}

/// The processes in the order of a tree, each with its origin. `hook_runs` tells whether a hook runs now.
fn with_origins(rows: Vec<Row>, hook_runs: bool) -> Vec<Row> {
    let agent = rows.iter().find(|row| is_agent(row)).cloned();
    let mut children: BTreeMap<i32, Vec<Row>> = BTreeMap::new();
    let mut roots = Vec::new();
    let pids: Vec<i32> = rows.iter().map(|row| row.pid).collect();
    for row in rows {
        if pids.contains(&row.parent) {
            children.entry(row.parent).or_default().push(row);
        } else {
            roots.push(row);
        }
    }
    let mut ordered = Vec::new();
    let mut open: Vec<(Row, Origin)> =
        roots.into_iter().rev().map(|row| (row, Origin::Entered)).collect();
    while let Some((row, inherited)) = open.pop() {
        let origin = origin(&row, inherited, agent.as_ref(), hook_runs);
        for child in children.remove(&row.pid).into_iter().flatten().rev() {
            open.push((child, origin));
        }
        ordered.push(Row { origin, ..row });
    }
    ordered
}

fn origin(row: &Row, inherited: Origin, agent: Option<&Row>, hook_runs: bool) -> Origin {
    let Some(agent) = agent else { return inherited };
    if row.pid == agent.pid {
        return Origin::Agent;
    }
    if row.parent != agent.pid {
        let is_job = inherited == Origin::Broker && row.name == FLUX_SHELL;
        return if is_job { Origin::Job } else { inherited };
    }
    // Each child of the agent leads a process group in the agent's session.
    if row.group != row.pid || row.session != agent.session || row.name == FLUX_SHELL {
        Origin::LeftOver
    } else if row.name.starts_with(FLUX_BROKER) {
        Origin::Broker
    } else if hook_runs {
        Origin::Hook
    } else {
        Origin::Command
    }
}

fn is_agent(row: &Row) -> bool {
    let [program, first, ..] = row.command.as_slice() else { return false };
    Path::new(program).ends_with(Layout::AGENT_NAME) && first == "run"
}

fn text(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>7} {:>7} {:<10} S {:>9} {:<9} COMMAND\n",
        "PID", "PARENT", "USER", "TIME", "FROM"
    );
    for row in rows {
        let depth = depth(rows, row);
        let command = if row.command.is_empty() {
            format!("[{}]{}", row.name, if row.zombie { " zombie" } else { "" })
        } else {
            shown(&row.command)
        };
        let (minutes, seconds) = (row.seconds / 60, row.seconds % 60);
        let _ = writeln!(
            text,
            "{:>7} {:>7} {:<10} {} {minutes:>6}:{seconds:02} {:<9} {:indent$}{command}",
            row.pid,
            row.parent,
            row.user,
            row.state,
            row.origin,
            "",
            indent = 2 * depth
        );
    }
    text
}

fn depth(rows: &[Row], row: &Row) -> usize {
    let above = |row: &Row| rows.iter().find(|other| other.pid == row.parent);
    std::iter::successors(above(row), |row| above(row)).take(rows.len()).count()
}

impl Display for Origin {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: i32, parent: i32, group: i32, name: &str, command: &[&str]) -> Row {
        Row {
            pid,
            parent,
            user: "flux".to_owned(),
            state: 'S',
            zombie: command.is_empty(),
            seconds: 61,
            origin: Origin::Entered,
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            group,
            session: if parent == 0 { pid } else { 1 },
            name: name.to_owned(),
        }
    }

    fn pod() -> Vec<Row> {
        let mut daemon = row(90, 1, 89, "redis", &["redis"]);
        daemon.session = 89;
        vec![
            row(1, 0, 1, "flux-agent", &["/mnt/flux/bin/flux-agent", "run"]),
            row(20, 1, 20, "flux-broker-0", &["flux-broker"]),
            row(30, 20, 30, "flux-shell", &["flux-shell", "1"]),
            row(31, 30, 31, "python", &["python", "a b"]),
            row(32, 20, 20, "sh", &["sh"]),
            row(40, 1, 40, "flux-job", &["flux-job", "attach", "f1"]),
            row(41, 40, 40, "sed", &[]),
            daemon,
            row(95, 1, 95, "flux-shell", &["flux-shell", "0"]),
            row(200, 0, 200, "bash", &["bash"]),
        ]
    }

    #[test]
    fn each_process_has_an_origin() {
        let of = |hook_runs| {
            let rows = with_origins(pod(), hook_runs);
            let origins = rows.into_iter().map(|row| format!("{} {}", row.pid, row.origin));
            origins.collect::<Vec<_>>().join(", ")
        };
        let expected = "1 agent, 20 broker, 30 job, 31 job, 32 broker, 40 command, 41 command, \
                        90 left-over, 95 left-over, 200 entered";
        assert_eq!(of(false), expected);
        assert_eq!(of(true), expected.replace("command", "hook"));
    }
}
