//! The termination message: a JSON document that the agent leaves for the operator.

use crate::agent_config::is_default;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The contents of the container's termination message file (`/dev/termination-log`).
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminationMessage {
    /// The code the container ends with.
    pub exit_code: i32,
    /// True: the user's command ran, and the code is the code of the command. False: the code is one of [`crate::Exit`].
    pub command_ran: bool,
    /// The signal that ended the command, if one did.
    pub signal: Option<i32>,
    /// The number of restarts of the broker.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restarts: u32,
    /// The last error, for people: the operation, its object, and the cause.
    pub last_error: Option<String>,
    /// Ids of at most twenty jobs that still ran on a worker's rank when the time of its drain was over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfinished_jobs: Vec<String>,
    /// Flux's id of the command's job, if the command was submitted as one.
    pub jobid: Option<String>,
    /// The task that failed, if Flux has recorded it.
    pub failed_task: Option<FailedTask>,
    /// How many jobs the instance had, if the lead's broker has answered that at its end.
    pub jobs: Option<JobNumbers>,
    /// The last lines of the standard error of a command that failed, at most 1024 bytes.
    pub output: Option<String>,
    /// The phases in order: of several starts of the broker, those of the first and the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
}

/// A task of the command's job that failed before any other task of it had ended.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedTask {
    /// Its rank in the job.
    pub rank: u32,
    /// Host name of the pod that it ran in.
    pub host: Option<String>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
}

/// Numbers of the jobs of an instance by their ends. A number that is absent is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobNumbers {
    /// Jobs that have succeeded.
    #[serde(skip_serializing_if = "is_default")]
    pub successful: u64,
    /// Jobs that have failed.
    #[serde(skip_serializing_if = "is_default")]
    pub failed: u64,
    /// Jobs that were canceled, before or while they ran.
    #[serde(skip_serializing_if = "is_default")]
    pub canceled: u64,
    /// Jobs that have reached their time limits.
    #[serde(skip_serializing_if = "is_default")]
    pub timed_out: u64,
    /// Jobs that still ran when the instance ended.
    #[serde(skip_serializing_if = "is_default")]
    pub unfinished: u64,
    /// Jobs that still waited when the instance ended, and never ran.
    #[serde(skip_serializing_if = "is_default")]
    pub not_run: u64,
}

/// One phase of a run on the agent's monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Phase {
    /// The name, one of [`crate::phase`].
    pub name: String,
    /// Milliseconds from the agent's start to the phase's beginning.
    pub start_milliseconds: u64,
    /// Milliseconds the phase took.
    pub duration_milliseconds: u64,
}

/// The sign at the place where a text was cut.
const CUT: char = '…';

/// Longest `output` in bytes.
const OUTPUT_LIMIT: usize = 1024;
/// Bytes of `output` that are kept longer than the phases.
const OUTPUT_KEPT: usize = 512;

impl TerminationMessage {
    /// Whether the command was started, also if the agent ended it.
    pub fn command_began(&self) -> bool {
        self.command_ran || self.phases.iter().any(|phase| phase.name == crate::phase::COMMAND)
    }

    /// Longest document in bytes. The kubelet keeps 4096 bytes for each container, and 12 KiB for all containers of a pod
    /// together (`MaxContainerTerminationMessageLength`, `MaxPodTerminationMessageLogLength`). A document that was cut
    /// cannot be read, so this limit leaves room for six containers.
    pub const LIMIT: usize = 2048;

    /// The document as one line of JSON of at most [`Self::LIMIT`] bytes. If it is too long, it loses first the beginning
    /// of the output, down to half of its limit, then the oldest phases, then the rest of the output, and last the end of
    /// the error.
    pub fn to_json(&self) -> String {
        let mut message = self.clone();
        cut_front(&mut message.output, OUTPUT_LIMIT);
        if let Some(error) = message.last_error.as_mut() {
            // No text is shorter in JSON.
            cut(error, Self::LIMIT);
        }
        loop {
            let text = serde_json::to_string(&message).unwrap_or_default();
            let excess = text.len().saturating_sub(Self::LIMIT);
            if excess == 0 {
                return text;
            }
            let output = message.output.as_ref().map_or(0, String::len);
            let least = if message.phases.is_empty() { 0 } else { OUTPUT_KEPT };
            if output > least {
                let fits = output.saturating_sub(excess.div_ceil(6)).max(least);
                cut_front(&mut message.output, fits);
                continue;
            }
            if !message.phases.is_empty() {
                message.phases.remove(0);
                continue;
            }
            let Some(error) = message.last_error.as_mut() else { return text };
            // A byte of text has at most six in JSON, as in \u0007.
            cut(error, error.len().saturating_sub(excess.div_ceil(6) + CUT.len_utf8()));
        }
    }

    /// Reads a message of an agent; `None` for any other text, as a message of the user's program.
    pub fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Cuts `text` at a character to at most `length` bytes, and appends the sign.
fn cut(text: &mut String, length: usize) {
    if text.len() <= length {
        return;
    }
    text.truncate(text.floor_char_boundary(length));
    text.push(CUT);
}

/// Cuts `text` to its last `length` bytes, including the sign. Leaves nothing if only the sign would fit.
fn cut_front(text: &mut Option<String>, length: usize) {
    let Some(excess) = text.as_ref().and_then(|text| text.len().checked_sub(length)) else {
        return;
    };
    if length <= CUT.len_utf8() {
        *text = None;
    } else if let Some(text) = text.as_mut().filter(|_| excess > 0) {
        let end = text.ceil_char_boundary(excess + CUT.len_utf8());
        text.replace_range(..end, &CUT.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(last_error: &str) -> TerminationMessage {
        let name = "command".to_owned();
        let phase = Phase { name, start_milliseconds: 1200, duration_milliseconds: 34 };
        TerminationMessage {
            exit_code: 7,
            command_ran: true,
            last_error: Some(last_error.to_owned()),
            phases: vec![phase],
            ..TerminationMessage::default()
        }
    }

    #[test]
    fn a_long_error_is_cut_to_the_limit() {
        let text = message(&"é\"".repeat(5000)).to_json();
        assert!(text.len() <= TerminationMessage::LIMIT, "{} bytes", text.len());
        let read = TerminationMessage::from_json(&text).unwrap();
        let error = read.last_error.unwrap();
        assert!(error.len() > 1000 && error.ends_with("é…"), "{error}");
    }

    #[test]
    fn the_oldest_phases_make_room_for_the_error() {
        let mut long = message(&"x".repeat(1000));
        long.phases = vec![long.phases[0].clone(); 200];
        long.phases[199].duration_milliseconds = 1;
        let read = TerminationMessage::from_json(&long.to_json()).unwrap();
        assert_eq!(read.last_error, long.last_error);
        assert!(read.phases.len() > 5, "{}", read.phases.len());
        assert_eq!(read.phases.last(), long.phases.last());
    }

    #[test]
    fn half_of_the_output_is_kept_longer_than_the_phases() {
        let lines = (0..400).map(|line| format!("{line:03}\n")).collect::<Vec<_>>().concat();
        let mut long = message("it failed");
        long.output = Some(lines.clone());
        let read = TerminationMessage::from_json(&long.to_json()).unwrap();
        let output = read.output.unwrap();
        assert_eq!(output.len(), 1024);
        assert!(output.starts_with('…') && output.ends_with("399\n"), "{output}");
        assert_eq!(read.phases, long.phases);
        long.phases = vec![long.phases[0].clone(); 200];
        let read = TerminationMessage::from_json(&long.to_json()).unwrap();
        assert_eq!(read.output.unwrap().len(), OUTPUT_KEPT);
        assert!(read.phases.len() > 10, "{}", read.phases.len());
    }

    #[test]
    fn messages_of_older_agents_are_read() {
        let older = r#"{"exitCode":3,"commandRan":true}"#;
        let read = TerminationMessage::from_json(older).unwrap();
        assert_eq!((&read.jobid, &read.failed_task, &read.output), (&None, &None, &None));
        assert_eq!((read.jobs, read.to_json().as_str()), (None, older));
        let newer = r#"{"exitCode":0,"commandRan":true,"jobs":{"failed":2,"ofNewerAgents":1}}"#;
        let jobs = TerminationMessage::from_json(newer).unwrap().jobs;
        assert_eq!(jobs, Some(JobNumbers { failed: 2, ..JobNumbers::default() }));
        assert_eq!(TerminationMessage::from_json("out of memory"), None, "another program's");
    }

    proptest! {
        #[test]
        fn every_message_fits_and_can_be_read(
            exit_code: i32, signal: Option<i32>, restarts: u32, command_ran: bool,
            last_error in prop::option::of(prop::collection::vec(any::<char>(), 0..5000)),
            controls in 0..2000_usize, unfinished in 0..=20_usize,
            output in prop::option::of(prop::collection::vec(any::<char>(), 0..2000)),
            phases in prop::collection::vec((".{0,40}", any::<u64>(), any::<u64>()), 0..60),
        ) {
            let last_error = last_error.map(|characters| {
                characters.into_iter().chain(std::iter::repeat_n('\u{7}', controls)).collect()
            });
            let phases = phases.into_iter().map(|(name, start_milliseconds, duration_milliseconds)| {
                Phase { name, start_milliseconds, duration_milliseconds }
            });
            let phases = phases.collect();
            let output = output.map(|characters| characters.into_iter().collect::<String>());
            let jobid = Some("ƒ7YXcZgbu1xTP".to_owned());
            let failed_task = Some(FailedTask { rank: 7, host: Some("h".repeat(63)), signal });
            let jobs = Some(JobNumbers { failed: u64::MAX, not_run: 1, ..JobNumbers::default() });
            let unfinished_jobs = vec!["ƒ7YXcZgbu1xTP".to_owned(); unfinished];
            let written = TerminationMessage {
                exit_code, command_ran, signal, restarts, last_error, unfinished_jobs, jobid,
                failed_task, jobs, output, phases,
            };
            let text = written.to_json();
            prop_assert!(text.len() <= TerminationMessage::LIMIT, "{} bytes", text.len());
            let read = TerminationMessage::from_json(&text).unwrap();
            let summary = |message: &TerminationMessage| {
                (message.exit_code, message.command_ran, message.signal, message.restarts)
            };
            prop_assert_eq!(summary(&read), summary(&written));
            prop_assert_eq!(
                (read.unfinished_jobs, read.jobs),
                (written.unfinished_jobs, written.jobs)
            );
            prop_assert_eq!((read.jobid, read.failed_task), (written.jobid, written.failed_task));
            if let Some(output) = read.output {
                let whole = written.output.unwrap();
                let same = output == whole;
                prop_assert!(output.len() <= OUTPUT_LIMIT && (same || whole.ends_with(&output['…'.len_utf8()..])));
            }
            prop_assert!(written.phases.ends_with(&read.phases));
        }
    }
}
