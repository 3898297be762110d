//! How many pods the queue of an instance needs: the operator's request to the lead's agent, over HTTP at
//! [`READY_PORT`](crate::invocation::READY_PORT), and the answer.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::fmt;

/// How many pods the jobs of an instance need.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Demand {
    /// The number of pods that running and waiting jobs need: 1 more than the highest index of such a pod.
    pub wanted: u32,
    /// The highest number that they needed in the last `idleSeconds`, if the agent has counted for so long.
    pub kept: Option<u32>,
}

/// The request, as path and query. The agent answers when the demand differs from the last answer, or when the time is
/// over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// How long the agent waits for a change, in seconds.
    pub wait_seconds: u64,
    /// The last answer.
    pub seen: Option<Demand>,
}

impl Question {
    /// Path of the request.
    pub const PATH: &str = "/demand";

    /// Reads the query.
    pub fn of_query(query: &str) -> Option<Self> {
        let (mut wait_seconds, mut wanted, mut kept) = (0, None, None);
        for part in query.split('&') {
            let (key, value) = part.split_once('=')?;
            match key {
                "wait" => wait_seconds = value.parse().ok()?,
                "wanted" => wanted = Some(value.parse().ok()?),
                "kept" => kept = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        Some(Self { wait_seconds, seen: wanted.map(|wanted| Demand { wanted, kept }) })
    }
}

/// The path with the query.
impl fmt::Display for Question {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}?wait={}", Self::PATH, self.wait_seconds)?;
        let Some(Demand { wanted, kept }) = self.seen else { return Ok(()) };
        write!(formatter, "&wanted={wanted}")?;
        kept.map_or(Ok(()), |kept| write!(formatter, "&kept={kept}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_as_it_is_written() {
        for (seen, text) in [
            (None, "/demand?wait=60"),
            (Some(Demand { wanted: 3, kept: None }), "/demand?wait=60&wanted=3"),
            (Some(Demand { wanted: 3, kept: Some(4) }), "/demand?wait=60&wanted=3&kept=4"),
        ] {
            let question = Question { wait_seconds: 60, seen };
            assert_eq!(question.to_string(), text);
            let query = text.split_once('?').unwrap().1;
            assert_eq!(Question::of_query(query), Some(question));
        }
        for wrong in ["", "wait", "wait=-1", "wait=1&other=2", "wait=1&kept=x"] {
            assert_eq!(Question::of_query(wrong), None, "{wrong}");
        }
    }
}
