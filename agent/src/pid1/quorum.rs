//! A quorum that becomes smaller while the lead waits for it.
//!
//! A broker reads `broker.quorum` once (flux-broker-attributes(7)). When the size of a MiniCluster is reduced
//! before its quorum is reached, the lead would wait for ever for brokers that nobody starts any more.

use crate::flux::broker_socket::{BrokerSocket, SocketError};
use crate::plan::config::read_config;
use crate::plan::step::BrokerRun;
use crate::process::deadline::LOOK;
use std::path::Path;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long the broker may take to answer on its socket, which it does from memory.
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits until the configuration at `config` asks for fewer brokers than `broker`, a lead's, was started for,
/// and gives their number, if the broker waits for its quorum at that moment. One that runs, or does not let
/// this process ask, goes on.
pub(crate) async fn becomes_smaller(config: &Path, broker: &BrokerRun) -> u32 {
    loop {
        sleep(LOOK).await;
        // What cannot be read changes nothing.
        let asked = read_config(config).ok().and_then(|config| config.broker.quorum);
        if let Some(asked) = asked.filter(|asked| is_smaller(*asked, broker.quorum))
            && waits(&broker.socket).await
        {
            return asked;
        }
    }
}

/// A broker that was told nothing waits for all of its hosts, and what is asked for is never that many.
fn is_smaller(asked: u32, before: Option<u32>) -> bool {
    before.is_none_or(|before| asked < before)
}

/// Whether the broker waits for its quorum now: what its watch has seen last may be seconds old, and a command
/// may have begun since.
async fn waits(socket: &Path) -> bool {
    let state = async { BrokerSocket::connect(socket).await?.state().await };
    let state: Result<Result<String, SocketError>, _> = timeout(PATIENCE, state).await;
    matches!(state, Ok(Ok(state)) if state == "quorum")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_smaller_than_another_and_than_all_hosts() {
        assert!(is_smaller(2, Some(3)) && is_smaller(2, None));
        assert!(!is_smaller(3, Some(3)) && !is_smaller(4, Some(3)));
    }
}
