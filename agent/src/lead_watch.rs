//! Notices that the lead is gone for good while a worker's broker goes on.
//!
//! A broker that has lost its parent waits for it without a limit: when another lead takes the
//! place of the old one, it ends and is started again. Where none does, the worker would look as if
//! all were well.

use crate::resolver::Resolver;
use crate::step::AwaitLead;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// How often, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct LeadWatch {
    /// Between two looks. One costs the lead a connection that is closed at once.
    pub interval: Duration,
    /// How long the lead's port must have refused connections. A container that is started again
    /// in the same pod is back long before.
    pub patience: Duration,
}

impl Default for LeadWatch {
    fn default() -> Self {
        Self { interval: Duration::from_secs(15), patience: Duration::from_mins(1) }
    }
}

impl LeadWatch {
    /// Returns when nothing has listened at `lead` for as long as the patience. Packets that get
    /// lost, and names that are not found, prove nothing and begin the count anew.
    pub async fn lost(self, lead: &AwaitLead) {
        let mut refused_since: Option<Instant> = None;
        loop {
            sleep(self.interval).await;
            if !refuses(lead, self.interval).await {
                refused_since = None;
                continue;
            }
            let since = *refused_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= self.patience {
                return;
            }
        }
    }
}

/// Whether every address of the lead refuses a connection.
async fn refuses(lead: &AwaitLead, patience: Duration) -> bool {
    let addresses = match lead.address {
        Some(address) => vec![address],
        None => match Resolver::from_system() {
            Ok(resolver) => resolver.lookup(&lead.name).await.unwrap_or_default(),
            Err(_) => Vec::new(),
        },
    };
    let mut all = !addresses.is_empty();
    for address in addresses {
        let connecting = TcpStream::connect(SocketAddr::new(address, lead.port));
        let refused = matches!(
            timeout(patience, connecting).await,
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused
        );
        all &= refused;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::net::TcpListener;

    const QUICK: LeadWatch =
        LeadWatch { interval: Duration::from_millis(5), patience: Duration::from_millis(40) };

    fn lead(port: u16) -> AwaitLead {
        AwaitLead {
            address: Some(Ipv4Addr::LOCALHOST.into()),
            name: "unused".to_owned(),
            port,
            deadline_seconds: 0,
            by_name: None,
        }
    }

    #[tokio::test]
    async fn a_port_that_refuses_all_along_is_a_lost_lead_and_one_that_listens_is_not() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let watched = timeout(QUICK.patience * 5, QUICK.lost(&lead(port))).await;
        assert!(watched.is_err(), "it listens");
        drop(listener);
        timeout(Duration::from_secs(20), QUICK.lost(&lead(port))).await.unwrap();
    }
}
