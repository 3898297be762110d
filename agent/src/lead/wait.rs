//! Waiting until the lead broker answers, with reports of what keeps it from that.

use crate::failure::{Failure, Result};
use crate::lead::probe::{Outcome, probe};
use crate::lead::resolver::lookup;
use crate::plan::step::AwaitLead;
use flux_contract::Exit;
use flux_contract::obstacle::{Obstacle, ObstacleCause};
use flux_protocol::CurveCertificate;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

/// How long the lead is probed often: it usually comes up in this time.
const EAGER: Duration = Duration::from_secs(2);
/// The first pause after a failure, and the same for each worker of a large instance: together they try at most 2,000
/// times a second on each route.
const FIRST_PAUSE: Duration = Duration::from_millis(30);
const FIRST_PAUSE_OF_WORKER: Duration = Duration::from_micros(500);
/// Once the lead is late, each pause is half as long again, up to this: a worker loses at most twice that when the lead
/// comes up in between ([`spread`]). In a large instance it is longer, and all pauses are: all workers together try some 70
/// times a second on each route.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE_OF_WORKER: Duration = Duration::from_millis(14);
const LONGEST_PAUSE_OF_ALL: Duration = Duration::from_secs(15);
/// From more hosts than this on, an instance is large: each worker has one connection at a time.
const MOST_HOSTS: u32 = 64;
/// How long a connection may take at first: twice as long after each that took all of its time, up to the second value, for
/// a lead that is far away; in a large instance, one and four first pauses. Until kube-proxy knows a new Service, and for a
/// moment while it writes its rules, packets to that are dropped, and the kernel repeats a SYN only after a second.
const EAGER_CONNECTION: (Duration, Duration) =
    (Duration::from_millis(50), Duration::from_millis(200));
/// How long one probe may take: the kernel repeats a lost SYN after a second, and a lead of many workers has many handshakes
/// to do. In a large instance it may take the longest pause, because the lead has worked in vain for one that is cut short.
/// The deadline does not cut it short: the last finding would be that cut, and not the real obstacle.
const PROBE: Duration = Duration::from_secs(2);
/// When a worker of a large instance first looks up the name of a lead that has an address as well.
const FIRST_LOOKUP_OF_LARGE: Duration = Duration::from_millis(400);
/// Time between two look-ups, in which the found addresses are tried; at first, and then. A kubelet reports the address of
/// the lead's pod before it starts the containers there, so most leads have a name as soon as their workers run.
const LOOKUP_INTERVAL: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));
/// How long look-ups are frequent.
const FREQUENT_LOOKUPS: Duration = Duration::from_millis(500);
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Gets a line for the log, and the obstacle that it is about.
type Report<'report> = dyn FnMut(&str, Obstacle) + 'report;

/// A lead broker that lets this pod in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeadFound {
    /// Where it answered.
    pub address: SocketAddr,
    /// How many times it was tried, this one included.
    pub attempts: u32,
    /// How long the wait was.
    pub elapsed: Duration,
}

/// Probes the lead at `target` until it lets this pod in or `deadline` has passed. There is at least one attempt, and one
/// that has begun is finished. `report` gets the findings. A certificate that does not fit is reported as a warning but
/// tried again: the pod of a cluster that is being replaced may answer for a moment.
pub async fn wait_for_lead(
    target: &AwaitLead,
    certificate: &CurveCertificate,
    deadline: Duration,
    report: &mut Report<'_>,
) -> Result<LeadFound> {
    let whole = Pauses::of(target.hosts).probe;
    let probe = async |address, connection| probe(address, certificate, connection, whole).await;
    let resolve = async |name: &str| lookup(name).await.map_err(|error| format!("{error:#}"));
    Box::pin(wait(target, deadline, report, probe, resolve, spread)).await
}

/// Pauses of a worker of an instance with this number of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pauses {
    first: Duration,
    /// The same as soon as the lead is late.
    late: Duration,
    longest: Duration,
    /// How long one probe may take.
    probe: Duration,
}

impl Pauses {
    fn of(hosts: u32) -> Self {
        let first = FIRST_PAUSE.max(FIRST_PAUSE_OF_WORKER * hosts);
        let longest = LONGEST_PAUSE.max(LONGEST_PAUSE_OF_WORKER * hosts).min(LONGEST_PAUSE_OF_ALL);
        let first = first.min(longest);
        let late = if hosts > MOST_HOSTS { longest } else { first };
        Self { first, late, longest, probe: PROBE.max(longest) }
    }
}

/// A time between zero and twice `mean`: workers that began together would otherwise ask together every time.
pub(crate) fn spread(mean: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    mean.mul_f64(f64::from(random) / f64::from(u32::MAX) * 2.0)
}

/// Tries address and name side by side: neither waits for the packets or DNS answers that the other one lacks. In a large
/// instance a probe waits for the end of the other one.
async fn wait(
    target: &AwaitLead,
    deadline: Duration,
    report: &mut Report<'_>,
    probe: impl AsyncFn(SocketAddr, Duration) -> Outcome,
    resolve: impl AsyncFn(&str) -> Result<Vec<IpAddr>, String>,
    spread: impl Fn(Duration) -> Duration,
) -> Result<LeadFound> {
    let (search, pauses) =
        (RefCell::new(LeadSearch::new(deadline, report)), Pauses::of(target.hosts));
    let places = Semaphore::new(if target.hosts > MOST_HOSTS { 1 } else { 2 });
    let probe = async |address, patience| {
        let address = SocketAddr::new(address, target.port);
        let _place = places.acquire().await;
        (address, probe(address, patience).await)
    };
    let by_address = async {
        let own = Ok(vec![target.address?]);
        let look = async |patience| attempt(&own, async |it| probe(it, patience).await).await;
        repeat(&search, Route::Address, pauses, &spread, look).await
    };
    let by_name = async {
        if target.address.is_some() && target.hosts > MOST_HOSTS {
            sleep(FIRST_LOOKUP_OF_LARGE.min(deadline)).await;
        }
        let (mut named, mut looked_up) = (Ok(Vec::new()), None);
        let began = Instant::now();
        let look = async |patience| {
            let is_frequent = target.hosts <= MOST_HOSTS && began.elapsed() < FREQUENT_LOOKUPS;
            let interval = if is_frequent { LOOKUP_INTERVAL.0 } else { LOOKUP_INTERVAL.1 };
            if looked_up.is_none_or(|when: Instant| when.elapsed() >= interval) {
                looked_up = Some(Instant::now());
                named = resolve(&target.name).await;
                // The address itself is tried already.
                let _ = named.as_mut().map(|all| all.retain(|it| target.address != Some(*it)));
            }
            attempt(&named, async |it| probe(it, patience).await).await
        };
        repeat(&search, Route::Name, pauses, &spread, look).await
    };
    let found = tokio::select! {
        biased;
        Some(address) = by_address => Ok(address),
        Some(address) = by_name => Ok(address),
        else => Err(()),
    };
    let search = search.into_inner();
    found.map(|address| search.found(address)).map_err(|()| search.failed(target))
}

/// Looks until the lead lets this pod in, or the deadline has passed; the pauses grow once it is late.
async fn repeat(
    search: &RefCell<LeadSearch<'_>>,
    route: Route,
    pauses: Pauses,
    spread: impl Fn(Duration) -> Duration,
    mut look: impl AsyncFnMut(Duration) -> Result<SocketAddr, Obstacle>,
) -> Option<SocketAddr> {
    let (started, deadline) = (search.borrow().started, search.borrow().deadline);
    let shortest = EAGER_CONNECTION.0.max(pauses.first);
    let longest = EAGER_CONNECTION.1.max(pauses.first * 4);
    let (mut pause, mut connection) = (pauses.first, shortest);
    loop {
        search.borrow_mut().attempts += 1;
        let (eager, began) = (started.elapsed() < EAGER, Instant::now());
        match look(if eager { connection } else { pauses.probe }).await {
            Ok(address) => return Some(address),
            Err(findings) => search.borrow_mut().note(route, findings),
        }
        connection =
            if began.elapsed() < connection { shortest } else { (connection * 2).min(longest) };
        let left = deadline.saturating_sub(started.elapsed());
        if left.is_zero() {
            return None;
        }
        if !eager {
            pause = pause.mul_f64(1.5).max(pauses.late).min(pauses.longest);
        }
        sleep(spread(pause).min(left)).await;
    }
}

/// The first of `addresses` that lets this pod in, or the findings at all of them.
async fn attempt(
    addresses: &Result<Vec<IpAddr>, String>,
    probe: impl AsyncFn(IpAddr) -> (SocketAddr, Outcome),
) -> Result<SocketAddr, Obstacle> {
    let mut findings = Obstacle::default();
    let addresses = addresses
        .as_ref()
        .map_err(|error| Obstacle { message: error.clone(), cause: ObstacleCause::Address })?;
    for address in addresses {
        let (address, outcome) = probe(*address).await;
        if outcome == Outcome::Accepted {
            return Ok(address);
        }
        let message = format!("{address}: {outcome}");
        findings.add(&Obstacle { message, cause: outcome.cause() });
    }
    Err(findings)
}

#[derive(Clone, Copy)]
enum Route {
    Address,
    Name,
}

/// The state of all routes to the lead.
struct LeadSearch<'report> {
    started: Instant,
    deadline: Duration,
    attempts: u32,
    /// The last findings on each [`Route`].
    last: [Obstacle; 2],
    /// The last report, and its time.
    reported: Option<(Obstacle, Duration)>,
    report: &'report mut Report<'report>,
}

impl<'report> LeadSearch<'report> {
    fn new(deadline: Duration, report: &'report mut Report<'report>) -> Self {
        let (started, last) = (Instant::now(), Default::default());
        Self { started, deadline, attempts: 0, last, reported: None, report }
    }

    fn findings(&self) -> Obstacle {
        let mut all = Obstacle::default();
        self.last.iter().for_each(|it| all.add(it));
        all
    }

    /// Reports a change at once, and findings that stay the same every ten seconds.
    fn note(&mut self, route: Route, findings: Obstacle) {
        self.last[route as usize] = findings;
        let (now, elapsed) = (self.findings(), self.started.elapsed());
        let is_urgent = now.cause == ObstacleCause::Certificate;
        let urgency = if is_urgent { "WARNING: " } else { "" };
        let since = match &self.reported {
            Some((last, when)) if *last == now => {
                if elapsed.saturating_sub(*when) < REPORT_INTERVAL {
                    return;
                }
                format!(" after {} s ({} attempts)", elapsed.as_secs(), self.attempts)
            }
            Some(_) | None => String::new(),
        };
        let still = if since.is_empty() { "" } else { "still " };
        let line = format!("{urgency}{still}waiting for the lead broker{since}: {}", now.message);
        (self.report)(&line, now.clone());
        self.reported = Some((now, elapsed));
    }

    fn found(&self, address: SocketAddr) -> LeadFound {
        LeadFound { address, attempts: self.attempts, elapsed: self.started.elapsed() }
    }

    fn failed(&self, target: &AwaitLead) -> Failure {
        let AwaitLead { name, port, .. } = target;
        let (seconds, attempts) = (self.started.elapsed().as_secs(), self.attempts);
        let seen = self.findings().message;
        let text = format!(
            "lead broker {name} port {port} did not let this pod in within {seconds} s ({attempts} attempts); last seen: {seen}"
        );
        Failure::new(Exit::LeadUnreachable, text)
    }
}

#[cfg(test)]
mod tests;
