//! Finds the failed task of a job. Flux's shell records only the task that ends first, in the eventlog of the job's
//! execution (flux-core, `src/shell/doom.c`); the exit code of the job is the highest of all tasks.

use crate::flux::client::FluxClient;
use flux_contract::FailedTask;
use flux_protocol::client::job_info::{EVENTS, EXECUTION, events};
use flux_protocol::eventlog::{Event, fatal_exception};
use flux_protocol::job_id;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// Event of the first task of a job to end.
const TASK_EXIT: &str = "shell.task-exit";

/// The failed task of the job `id`; none if Flux does not answer.
pub(crate) async fn failed_task(client: &FluxClient, id: &str) -> Option<FailedTask> {
    let number = job_id::parse(id)?;
    let job = events(&client.broker, number, EVENTS).await?;
    let execution = events(&client.broker, number, EXECUTION).await?;
    let task = first_to_fail(&job, &execution)?;
    Some(FailedTask { host: host(client, id, task.rank).await, ..task })
}

/// The first task to end, if it failed by itself. If the job was canceled or lost a node, an exception precedes its end.
fn first_to_fail(events: &[Event], execution: &[Event]) -> Option<FailedTask> {
    let ended = execution.iter().find(|event| event.name == TASK_EXIT)?;
    let fatal = fatal_exception(events);
    let was_ended = fatal.is_some_and(|fatal| fatal.timestamp <= ended.timestamp);
    let status = ExitStatus::from_raw(ended.number("wait_status")?);
    if status.success() || was_ended {
        return None;
    }
    Some(FailedTask { rank: ended.number("rank")?, host: None, signal: status.signal() })
}

async fn host(client: &FluxClient, id: &str, rank: u32) -> Option<String> {
    let output = client.ask(&["job", "taskmap", &format!("--hostname={rank}"), id]).await.ok()?;
    let host = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(host.trim().to_owned()).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flux_protocol::eventlog::parse;

    /// As recorded from flux-core 0.88.
    const FAILED: &str = r#"{"timestamp":10.5,"name":"shell.task-exit","context":{"localid":0,"rank":2,"state":"Exited","pid":30241,"wait_status":768,"signaled":0,"exitcode":3}}"#;
    const KILLED: &str = r#"{"timestamp":10.5,"name":"shell.task-exit","context":{"localid":0,"rank":1,"state":"Exited","pid":30276,"wait_status":9,"signaled":9,"exitcode":137}}"#;
    const WELL: &str = r#"{"timestamp":10.5,"name":"shell.task-exit","context":{"localid":0,"rank":0,"state":"Exited","pid":8888,"wait_status":0,"signaled":0,"exitcode":0}}"#;
    const READY: &str = r#"{"timestamp":10.1,"name":"shell.init","context":{"service":"0-shell-fZD1Q5V","leader-rank":0,"size":4}}"#;

    fn exception(timestamp: f64) -> String {
        let context = serde_json::json!({ "type": "cancel", "severity": 0, "note": "" });
        let event =
            serde_json::json!({ "timestamp": timestamp, "name": "exception", "context": context });
        event.to_string()
    }

    #[test]
    fn the_first_task_to_fail_by_itself_is_found() {
        let (before, after) = (exception(10.4), exception(40.5));
        for (events, execution, expected) in [
            (&[][..], &[READY, FAILED][..], Some((2, None))),
            (&[], &[READY, KILLED], Some((1, Some(9)))),
            (&[], &[READY, WELL], None),
            (&[], &[READY], None),
            // The cancellation of the job ended the task.
            (&[before.as_str()], &[READY, KILLED], None),
            // The other tasks were ended because this one had failed.
            (&[after.as_str()], &[READY, FAILED], Some((2, None))),
        ] {
            let [events, parsed] = [events, execution].map(|log| parse(&log.join("\n")).unwrap());
            let found = first_to_fail(&events, &parsed);
            assert_eq!(found.map(|task| (task.rank, task.signal)), expected, "{execution:?}");
        }
    }
}
