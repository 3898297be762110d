//! Detects that the lead is gone for good. A broker that has lost its parent waits for it without a limit: where no other
//! lead takes the place of the old one, the worker would look healthy.

use crate::lead::resolver::lookup;
use crate::lead::wait::spread;
use crate::plan::step::AwaitLead;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// All workers together look at most 20 times a second.
const INTERVAL_OF_WORKER: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
pub(crate) struct LeadWatch {
    /// The mean time between two looks, each of which costs the lead a connection.
    pub interval: Duration,
    /// How long the port must have refused connections. A container that is started again in its pod is back long before.
    pub patience: Duration,
    /// Whether no answer counts as a refusal, and the lead's own address for all of them: a worker that waits for the next
    /// lead in vain loses less than one that has left the present one.
    pub silence_counts: bool,
}

impl Default for LeadWatch {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(15),
            patience: Duration::from_mins(1),
            silence_counts: false,
        }
    }
}

impl LeadWatch {
    /// For a lead that may be about to end. Until its Service knows that, packets go to the place of its pod, and get lost.
    pub(crate) const SHORT: Self = Self {
        interval: Duration::from_millis(500),
        patience: Duration::from_secs(1),
        silence_counts: true,
    };

    /// Returns when nothing has listened at `lead` for the time of `patience`. Unless silence counts, no answer of its own
    /// address, or of its name where it has none, proves nothing and starts the time anew.
    pub(crate) async fn lost(self, lead: &AwaitLead) {
        let mut refused_since: Option<Instant> = None;
        // Workers that began together look at different times, and those of a large instance less often each.
        let interval = self.interval.max(INTERVAL_OF_WORKER * lead.hosts);
        loop {
            sleep(if self.silence_counts { self.interval } else { spread(interval) }).await;
            if !self.is_away(lead).await {
                refused_since = None;
                continue;
            }
            let since = *refused_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= self.patience {
                return;
            }
        }
    }

    /// Whether nothing listens at any address of the lead: its own, and, when that refuses, its name's.
    async fn is_away(self, lead: &AwaitLead) -> bool {
        let answer = |address| answer(SocketAddr::new(address, lead.port), self.interval);
        let own = match lead.address {
            Some(address) => Some(answer(address).await),
            None => None,
        };
        match own {
            Some(Answer::Listens) => return false,
            Some(Answer::None) => return self.silence_counts,
            Some(Answer::Refused) if self.silence_counts => return true,
            Some(Answer::Refused | Answer::NoWay) | None => {}
        }
        let mut named = Vec::new();
        for address in lookup(&lead.name).await.unwrap_or_default() {
            named.push(answer(address).await);
        }
        if self.silence_counts {
            return !named.contains(&Answer::Listens);
        }
        none_listens(own, &named)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Refused,
    /// This pod has no addresses of that kind, so the address proves nothing.
    NoWay,
    /// Packets got lost.
    None,
    Listens,
}

/// The lead's own address is that of a Service, which refuses when it has no pod: then the addresses of the name, which DNS
/// may still have of a pod that is gone, count only where a broker listens. A name alone that gives no answer proves
/// nothing.
fn none_listens(own: Option<Answer>, named: &[Answer]) -> bool {
    if own == Some(Answer::Refused) {
        return !named.contains(&Answer::Listens);
    }
    named.contains(&Answer::Refused)
        && !named.iter().any(|answer| matches!(answer, Answer::Listens | Answer::None))
}

async fn answer(address: SocketAddr, patience: Duration) -> Answer {
    match timeout(patience, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Answer::Listens,
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => Answer::Refused,
        Ok(Err(error)) if error.kind() == ErrorKind::NetworkUnreachable => Answer::NoWay,
        Ok(Err(_)) | Err(_) => Answer::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::net::{TcpListener, TcpSocket};

    const QUICK: LeadWatch = LeadWatch {
        interval: Duration::from_millis(5),
        patience: Duration::from_millis(40),
        silence_counts: false,
    };

    fn lead(port: u16) -> AwaitLead {
        AwaitLead {
            address: Some(Ipv4Addr::LOCALHOST.into()),
            name: "localhost".to_owned(),
            port,
            deadline_seconds: 0,
            hosts: 2,
        }
    }

    async fn listening() -> (TcpListener, AwaitLead) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, lead(port))
    }

    /// `lead` with another address of its own; its name leads where it did.
    fn elsewhere(lead: &AwaitLead) -> AwaitLead {
        AwaitLead { address: Some(Ipv4Addr::new(127, 0, 0, 2).into()), ..lead.clone() }
    }

    async fn stays(watch: LeadWatch, lead: &AwaitLead) -> bool {
        timeout(QUICK.patience * 5, watch.lost(lead)).await.is_err()
    }

    async fn until_lost(watch: LeadWatch, lead: &AwaitLead) {
        timeout(Duration::from_secs(20), watch.lost(lead)).await.unwrap();
    }

    #[tokio::test]
    async fn a_port_that_refuses_all_along_is_a_lost_lead() {
        let (listener, lead) = listening().await;
        assert!(stays(QUICK, &lead).await, "it listens");
        drop(listener);
        until_lost(QUICK, &lead).await;
    }

    #[tokio::test]
    async fn silence_counts_for_a_lead_that_may_end() {
        let short = LeadWatch { silence_counts: true, ..QUICK };
        let (_listener, listens) = listening().await;
        assert!(stays(short, &listens).await, "it listens");
        until_lost(short, &elsewhere(&listens)).await;
        // A socket whose queue is full lets packets get lost.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let full = socket.listen(0).unwrap();
        let _queued = TcpStream::connect(full.local_addr().unwrap()).await.unwrap();
        let silent = lead(full.local_addr().unwrap().port());
        until_lost(short, &silent).await;
        assert!(stays(QUICK, &silent).await, "no answer proves nothing");
    }

    /// A broker that reached the lead by its name goes on while the lead's Service has no way there.
    #[tokio::test]
    async fn a_lead_that_its_name_reaches_is_not_lost() {
        let (_listener, lead) = listening().await;
        assert!(stays(QUICK, &elsewhere(&lead)).await, "its name leads to a listener");
    }

    #[test]
    fn a_silent_name_keeps_no_lead_that_its_service_lacks() {
        use Answer::{Listens, NoWay, None as Silent, Refused};
        for (service, name, is_lost) in [
            (Some(Refused), &[Silent][..], true),
            (Some(Refused), &[], true),
            (Some(Refused), &[Silent, Listens], false),
            (None, &[Refused, Silent], false),
            (None, &[Refused, Listens], false),
            (None, &[], false),
            // An address of a kind that this pod does not have proves nothing.
            (None, &[Refused, NoWay], true),
            (Some(NoWay), &[Refused], true),
            (Some(NoWay), &[], false),
            (None, &[NoWay], false),
        ] {
            assert_eq!(none_listens(service, name), is_lost, "{service:?} {name:?}");
        }
    }
}
