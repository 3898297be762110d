//! A quorum that becomes smaller while the lead waits for it.
//!
//! A broker reads `broker.quorum` once (flux-broker-attributes(7)). When the size of a MiniCluster is reduced
//! before its quorum is reached, the lead would wait for ever for brokers that nobody starts any more.

use crate::flux::broker_socket::BrokerAddress;
use crate::plan::config::read_config;
use crate::process::deadline::LOOK;
use std::path::Path;
use tokio::time::sleep;

/// Waits until the configuration at `config` asks for fewer brokers than `before`, for which `broker`, a lead's, was
/// started, and gives their number, if the broker waits for its quorum at that moment: what its watch has seen last may
/// be seconds old, and a command may have begun since. One that does not answer goes on.
pub(crate) async fn becomes_smaller(
    config: &Path,
    before: Option<u32>,
    broker: &BrokerAddress,
) -> u32 {
    loop {
        sleep(LOOK).await;
        // What cannot be read changes nothing.
        let asked = read_config(config).ok().and_then(|config| config.broker.quorum);
        if let Some(asked) = asked.filter(|asked| is_smaller(*asked, before))
            && broker.state().await.is_ok_and(|state| state == "quorum")
        {
            return asked;
        }
    }
}

/// A broker that was told nothing waits for all of its hosts, and what is asked for is never that many.
fn is_smaller(asked: u32, before: Option<u32>) -> bool {
    before.is_none_or(|before| asked < before)
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
