//! What keeps a pod's broker from joining its lead: the operator's request to the agent, over HTTP at
//! [`READY_PORT`](crate::invocation::READY_PORT), and the answer. Without an obstacle the answer has no content.

use serde::{Deserialize, Serialize};

/// Path of the request.
pub const OBSTACLE_PATH: &str = "/obstacle";

/// What keeps a broker from joining its lead.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    /// Its kind, from which the remedy follows.
    pub cause: ObstacleCause,
    /// What was found where, without a remedy that depends on the specification.
    pub message: String,
}

impl Obstacle {
    /// Adds one that is found on another way to the lead.
    pub fn add(&mut self, more: &Self) {
        let separator = if self.message.is_empty() || more.message.is_empty() { "" } else { "; " };
        self.message += separator;
        self.message += &more.message;
        self.cause = self.cause.max(more.cause);
    }
}

/// The kinds of obstacles. Of several at once the greatest counts: it is the nearest to the lead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ObstacleCause {
    /// The address is unknown, or nothing answers there.
    Address = 1,
    /// No broker listens at the port.
    Port = 2,
    /// The lead has another certificate, or does not let this one in.
    Certificate = 3,
    /// The lead lets the certificate in, but its broker refuses this one.
    Broker = 4,
    /// Another one, or one that only a newer agent knows.
    #[default]
    #[serde(other)]
    Other = 0,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_of_newer_agents_can_be_read() {
        let read = |cause: &str| {
            let text = format!(r#"{{ "cause": "{cause}", "message": "m" }}"#);
            serde_json::from_str::<Obstacle>(&text).unwrap().cause
        };
        assert_eq!(read("certificate"), ObstacleCause::Certificate);
        assert_eq!(read("weather"), ObstacleCause::Other);
    }
}
