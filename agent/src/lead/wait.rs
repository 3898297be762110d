//! Waiting until the lead broker answers, and saying all along what is in the way.

use crate::lead::probe::{Outcome, Patience, probe};
use crate::lead::resolver::lookup;
use crate::plan::step::AwaitLead;
use crate::system::output::chain;
use flux_contract::CurveCertificate;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the lead is tried often: in this time it usually comes up.
const EAGER: Duration = Duration::from_secs(3);
/// How long a connection may take at first. Until kube-proxy knows a Service that was made a moment ago,
/// what is sent to it is dropped, and the kernel sends a SYN again only after a second.
const EAGER_CONNECTION: Duration = Duration::from_millis(200);
/// Pause after a failure at first; afterwards each is half as long again, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause: what a worker loses at most when the lead comes up in between.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long one probe may take. Within a cluster a handshake takes milliseconds; a lost SYN
/// is sent again after a second. The deadline does not cut it short: what was seen last would be
/// that cut, and not what is in the way.
const PROBE: Duration = Duration::from_secs(2);
/// How long only the address is tried, when there is one, before the name is tried as well.
const ADDRESS_ALONE: Duration = Duration::from_secs(5);
/// How often an unchanged state is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A lead broker that let us in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeadFound {
    /// Where it answered.
    pub address: SocketAddr,
    /// How many times it was tried, this one included.
    pub attempts: u32,
    /// How long the wait was.
    pub elapsed: Duration,
}

/// The deadline passed before the lead broker let us in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "lead broker {name} port {port} did not let this pod in within {} s ({attempts} attempts); last seen: {last_seen}",
    elapsed.as_secs()
)]
pub struct LeadError {
    /// Host name of the lead.
    pub name: String,
    /// Port of the overlay network.
    pub port: u16,
    /// How many times it was tried.
    pub attempts: u32,
    /// How long the wait was.
    pub elapsed: Duration,
    /// What the last attempt found, for each address that was tried.
    pub last_seen: String,
}

/// Probes the lead at `target` with `certificate` until it lets us in or `deadline` has passed
/// (it is tried at least once, and an attempt that has begun is brought to its end).
///
/// For the first three seconds it is tried often. The address is tried first, without any name service;
/// when it has kept failing for five seconds the name is tried as well. `report` is called when what was
/// seen changes and every ten seconds. A certificate that
/// does not fit is reported with a warning at once but tried again: the pod of a cluster that is
/// being replaced may answer for a moment.
pub async fn wait_for_lead(
    target: &AwaitLead,
    certificate: &CurveCertificate,
    deadline: Duration,
    report: &mut dyn FnMut(&str),
) -> Result<LeadFound, LeadError> {
    wait(target, &Network { certificate }, deadline, report).await
}

/// What an attempt needs of the outside world.
trait World {
    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, String>;
    async fn probe(&self, address: SocketAddr, patience: Patience) -> Outcome;
    /// `pause`, or less of it.
    fn spread(&self, pause: Duration) -> Duration;
}

struct Network<'run> {
    certificate: &'run CurveCertificate,
}

impl World for Network<'_> {
    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        lookup(name).await.map_err(|error| chain(&error))
    }

    async fn probe(&self, address: SocketAddr, patience: Patience) -> Outcome {
        probe(address, self.certificate, patience).await
    }

    fn spread(&self, pause: Duration) -> Duration {
        spread(pause, getrandom::u32().unwrap_or(u32::MAX))
    }
}

/// A pause between half of `pause` and all of it: the workers of a large cluster start together, and
/// would ask together every time.
fn spread(pause: Duration, random: u32) -> Duration {
    pause.mul_f64(f64::from(random) / f64::from(u32::MAX) / 2.0 + 0.5)
}

async fn wait(
    target: &AwaitLead,
    world: &impl World,
    deadline: Duration,
    report: &mut dyn FnMut(&str),
) -> Result<LeadFound, LeadError> {
    let started = Instant::now();
    let mut log = Log { started, last: None };
    let mut pause = FIRST_PAUSE;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let with_name = target.address.is_none() || started.elapsed() >= ADDRESS_ALONE;
        let eager = started.elapsed() < EAGER;
        let connection = if eager { EAGER_CONNECTION } else { PROBE };
        let patience = Patience { connection, whole: PROBE };
        let attempt = Attempt { target, with_name, patience };
        let seen = match attempt.run(world).await {
            Ok(address) => {
                return Ok(LeadFound { address, attempts, elapsed: started.elapsed() });
            }
            Err(seen) => seen,
        };
        log.note(&seen, attempts, report);
        let elapsed = started.elapsed();
        if elapsed >= deadline {
            let (name, port) = (target.name.clone(), target.port);
            return Err(LeadError { name, port, attempts, elapsed, last_seen: seen.text });
        }
        sleep(world.spread(pause).min(deadline.saturating_sub(elapsed))).await;
        if !eager {
            pause = pause.mul_f64(1.5).min(LONGEST_PAUSE);
        }
    }
}

/// What a failed attempt found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    text: String,
    certificate_problem: bool,
}

/// One round over every way to the lead.
struct Attempt<'run> {
    target: &'run AwaitLead,
    with_name: bool,
    patience: Patience,
}

impl Attempt<'_> {
    /// The first address that lets us in, or what was seen at all of them.
    async fn run(&self, world: &impl World) -> Result<SocketAddr, Seen> {
        let mut seen = Vec::new();
        let mut certificate_problem = false;
        let mut addresses: Vec<IpAddr> = self.target.address.into_iter().collect();
        let mut at = 0;
        let mut resolved = false;
        loop {
            while let Some(address) = addresses.get(at) {
                let address = SocketAddr::new(*address, self.target.port);
                let outcome = world.probe(address, self.patience).await;
                if outcome.is_accepted() {
                    return Ok(address);
                }
                certificate_problem |= outcome.is_certificate_problem();
                seen.push(format!("{address}: {outcome}"));
                at += 1;
            }
            if resolved || !self.with_name {
                return Err(Seen { text: seen.join("; "), certificate_problem });
            }
            resolved = true;
            match world.resolve(&self.target.name).await {
                Ok(found) => {
                    let new: Vec<_> =
                        found.into_iter().filter(|address| !addresses.contains(address)).collect();
                    addresses.extend(new);
                }
                Err(error) => seen.push(error),
            }
        }
    }
}

/// What was reported last, and when.
struct Log {
    started: Instant,
    last: Option<(Seen, Instant)>,
}

impl Log {
    fn note(&mut self, seen: &Seen, attempts: u32, report: &mut dyn FnMut(&str)) {
        let now = Instant::now();
        let changed = match &self.last {
            Some((last, when)) if last == seen => {
                if now.duration_since(*when) < REPORT_INTERVAL {
                    return;
                }
                false
            }
            Some(_) | None => true,
        };
        let urgency = if seen.certificate_problem { "WARNING: " } else { "" };
        let seconds = self.started.elapsed().as_secs();
        if changed {
            report(&format!("{urgency}waiting for the lead broker: {}", seen.text));
        } else {
            report(&format!(
                "{urgency}still waiting for the lead broker after {seconds} s ({attempts} attempts): {}",
                seen.text
            ));
        }
        self.last = Some((seen.clone(), now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lead::probe::Stage;
    use std::cell::RefCell;

    /// A world whose answers depend on the time since it began.
    struct Script<F, G> {
        began: Instant,
        probe: F,
        resolve: G,
        probed: RefCell<Vec<(Duration, SocketAddr)>>,
    }

    /// A world in which a connection is lost for ever that is begun too early.
    struct Dropping {
        began: Instant,
        until: Duration,
    }

    impl World for Dropping {
        async fn resolve(&self, _name: &str) -> Result<Vec<IpAddr>, String> {
            unknown()
        }

        async fn probe(&self, _address: SocketAddr, patience: Patience) -> Outcome {
            if self.began.elapsed() >= self.until {
                return Outcome::Accepted;
            }
            sleep(patience.connection.min(patience.whole)).await;
            Outcome::TimedOut { stage: Stage::Connect }
        }

        fn spread(&self, pause: Duration) -> Duration {
            pause
        }
    }

    impl<F, G> Script<F, G>
    where
        F: Fn(Duration, IpAddr) -> Outcome,
        G: Fn(Duration) -> Result<Vec<IpAddr>, String>,
    {
        fn new(probe: F, resolve: G) -> Self {
            Self { began: Instant::now(), probe, resolve, probed: RefCell::default() }
        }

        /// The time from each probe of `address` to the next.
        fn pauses(&self) -> Vec<Duration> {
            let probed = self.probed.borrow();
            probed.windows(2).map(|pair| pair[1].0.checked_sub(pair[0].0).unwrap()).collect()
        }
    }

    impl<F, G> World for Script<F, G>
    where
        F: Fn(Duration, IpAddr) -> Outcome,
        G: Fn(Duration) -> Result<Vec<IpAddr>, String>,
    {
        async fn resolve(&self, _name: &str) -> Result<Vec<IpAddr>, String> {
            (self.resolve)(self.began.elapsed())
        }

        async fn probe(&self, address: SocketAddr, _patience: Patience) -> Outcome {
            self.probed.borrow_mut().push((self.began.elapsed(), address));
            (self.probe)(self.began.elapsed(), address.ip())
        }

        fn spread(&self, pause: Duration) -> Duration {
            pause
        }
    }

    const SERVICE: &str = "10.96.0.5";
    const POD: &str = "10.244.1.7";

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn target(address: Option<&str>) -> AwaitLead {
        AwaitLead {
            address: address.map(ip),
            name: "hello-0.hello".to_owned(),
            port: 8050,
            deadline_seconds: 0,
        }
    }

    fn unknown() -> Result<Vec<IpAddr>, String> {
        Err("name hello-0.hello does not exist in DNS (yet)".to_owned())
    }

    async fn run(
        target: &AwaitLead,
        world: &impl World,
        seconds: u64,
    ) -> (Result<LeadFound, LeadError>, Vec<String>) {
        let mut reports = Vec::new();
        let mut report = |text: &str| reports.push(text.to_owned());
        let result = wait(target, world, Duration::from_secs(seconds), &mut report).await;
        (result, reports)
    }

    #[test]
    fn a_pause_is_spread_over_its_second_half() {
        let pause = Duration::from_millis(100);
        assert_eq!(spread(pause, 0), Duration::from_millis(50));
        assert_eq!(spread(pause, u32::MAX), pause);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lead_that_answers_at_once_costs_no_pause_and_no_report() {
        let world = Script::new(|_, _| Outcome::Accepted, |_| unknown());
        let (found, reports) = run(&target(Some(SERVICE)), &world, 60).await;
        let address = SocketAddr::new(ip(SERVICE), 8050);
        assert_eq!(found, Ok(LeadFound { address, attempts: 1, elapsed: Duration::ZERO }));
        assert!(reports.is_empty(), "{reports:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_costs_50_milliseconds_for_3_seconds_and_then_pauses_grow_to_500() {
        let up = EAGER + Duration::from_secs(3);
        let world = Script::new(
            |now, _| if now < up { Outcome::ConnectionRefused } else { Outcome::Accepted },
            |_| Ok(Vec::new()),
        );
        let (found, _) = run(&target(Some(SERVICE)), &world, 60).await;
        assert!(found.unwrap().elapsed < up + LONGEST_PAUSE);
        let mut pauses = world.pauses();
        let eager = pauses.iter().take_while(|pause| pause.as_millis() <= 52).count();
        assert!((55..=61).contains(&eager), "{pauses:?}");
        let grown: Vec<_> = pauses.drain(eager..).map(|pause| pause.as_millis()).collect();
        // The clock of the test counts whole milliseconds and rounds up.
        for (pause, expected) in grown.iter().zip([75, 112, 168, 253, 379, 500, 500]) {
            assert!(pause.abs_diff(expected) <= 2, "{grown:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn packets_that_are_dropped_at_first_cost_a_quarter_of_a_second_at_most() {
        let world = Dropping { began: Instant::now(), until: Duration::from_millis(1_100) };
        let (found, _) = run(&target(Some(SERVICE)), &world, 60).await;
        assert!(found.unwrap().elapsed < world.until + EAGER_CONNECTION + FIRST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn the_name_is_tried_when_the_address_keeps_failing_for_five_seconds() {
        let world = Script::new(
            |_, address| {
                if address == ip(POD) { Outcome::Accepted } else { Outcome::ConnectionRefused }
            },
            |_| Ok(vec![ip(POD)]),
        );
        let (found, _) = run(&target(Some(SERVICE)), &world, 60).await;
        let found = found.unwrap();
        assert_eq!(found.address.ip(), ip(POD));
        assert!(found.elapsed >= ADDRESS_ALONE && found.elapsed < ADDRESS_ALONE + LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_address_the_name_is_looked_up_each_time() {
        let world = Script::new(
            |_, _| Outcome::Accepted,
            |now| if now < Duration::from_secs(1) { unknown() } else { Ok(vec![ip(POD)]) },
        );
        let (found, reports) = run(&target(None), &world, 60).await;
        assert_eq!(found.unwrap().address.ip(), ip(POD));
        assert_eq!(
            reports,
            ["waiting for the lead broker: name hello-0.hello does not exist in DNS (yet)"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn reports_come_with_every_change_and_every_ten_seconds() {
        let changes = Duration::from_secs(25);
        let world = Script::new(
            |now, _| if now < changes { Outcome::ConnectionRefused } else { Outcome::WrongKey },
            |_| Ok(Vec::new()),
        );
        let (result, reports) = run(&target(Some(SERVICE)), &world, 30).await;
        let error = result.unwrap_err();
        assert_eq!(error.elapsed, Duration::from_secs(30), "the deadline is kept exactly");
        assert!(error.last_seen.contains("another CURVE certificate"), "{error}");
        assert_eq!(reports.len(), 4, "{reports:#?}");
        assert!(reports[0].starts_with("waiting for the lead broker: 10.96.0.5:8050: connection"));
        assert!(reports[1].starts_with("still waiting for the lead broker after 10 s"));
        assert!(reports[3].starts_with(
            "WARNING: waiting for the lead broker: 10.96.0.5:8050: the server closed"
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_key_that_goes_away_is_waited_out() {
        let replaced = Duration::from_secs(2);
        let world = Script::new(
            |now, _| if now < replaced { Outcome::WrongKey } else { Outcome::Accepted },
            |_| unknown(),
        );
        let (found, reports) = run(&target(Some(SERVICE)), &world, 60).await;
        assert!(found.is_ok());
        assert!(reports[0].starts_with("WARNING: "), "{reports:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_of_nothing_still_tries_once() {
        let world = Script::new(|_, _| Outcome::ConnectionRefused, |_| unknown());
        let (result, _) = run(&target(Some(SERVICE)), &world, 0).await;
        assert_eq!(
            result.unwrap_err().to_string(),
            "lead broker hello-0.hello port 8050 did not let this pod in within 0 s (1 attempts); last seen: 10.96.0.5:8050: connection refused: nothing listens there yet"
        );
    }
}
