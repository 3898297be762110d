//! The termination message: the one JSON document an ended container leaves for the operator.

use serde::{Deserialize, Serialize};

/// What the agent writes to the container's termination message file
/// (`/dev/termination-log`, at most 4096 bytes by the kubelet's rule).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminationMessage {
    /// The code the container ends with.
    pub exit_code: i32,
    /// True when the user's command ran and the code is its own; false when the code is one of
    /// [`crate::Exit`].
    pub command_ran: bool,
    /// The signal that ended the command, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What went wrong last, for people: names what was being done, to what, and why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Where the time went, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
}

/// One phase of a run on the agent's monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Phase {
    /// What happened: `prepare`, `hooks`, `wait-for-lead`, `quorum`, `command`, `shutdown`, `post`.
    pub name: String,
    /// Milliseconds from the agent's start to the phase's beginning.
    pub start_milliseconds: u64,
    /// Milliseconds the phase took.
    pub duration_milliseconds: u64,
}

impl TerminationMessage {
    /// The kubelet keeps no more than this many bytes.
    pub const LIMIT: usize = 4096;

    /// The document as one line of JSON that fits [`Self::LIMIT`]; the error text is cut, at a
    /// character, when it is what makes it too long.
    pub fn to_json(&self) -> String {
        let mut message = self.clone();
        loop {
            let text = serde_json::to_string(&message).unwrap_or_default();
            let excess = text.len().saturating_sub(Self::LIMIT);
            match message.last_error.as_mut() {
                Some(error) if excess > 0 && !error.is_empty() => {
                    let mut keep = error.len().saturating_sub(excess.max(1));
                    while !error.is_char_boundary(keep) {
                        keep -= 1;
                    }
                    error.truncate(keep);
                }
                Some(_) | None => return text,
            }
        }
    }

    /// Reads a message that an agent wrote; anything else (a user's own message) is `None`.
    pub fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(last_error: &str) -> TerminationMessage {
        TerminationMessage {
            exit_code: 7,
            command_ran: true,
            signal: None,
            last_error: Some(last_error.to_owned()),
            phases: vec![Phase {
                name: "command".to_owned(),
                start_milliseconds: 1200,
                duration_milliseconds: 34,
            }],
        }
    }

    #[test]
    fn a_message_survives_the_round_trip() {
        let written = message("the command failed");
        assert_eq!(TerminationMessage::from_json(&written.to_json()), Some(written));
    }

    #[test]
    fn a_long_error_is_cut_so_that_the_kubelet_keeps_the_whole_document() {
        let text = message(&"é\"".repeat(5000)).to_json();
        assert!(text.len() <= TerminationMessage::LIMIT, "{} bytes", text.len());
        assert_eq!(TerminationMessage::from_json(&text).map(|m| m.exit_code), Some(7));
    }

    #[test]
    fn another_programs_message_is_not_taken_for_ours() {
        assert_eq!(TerminationMessage::from_json("out of memory"), None);
    }
}
