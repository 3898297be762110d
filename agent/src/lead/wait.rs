//! Waiting until the lead broker answers, and saying all along what is in the way.

use crate::failure::Failure;
use crate::lead::probe::{Outcome, probe};
use crate::lead::resolver::lookup;
use crate::plan::step::AwaitLead;
use flux_contract::{CurveCertificate, Exit};
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
/// How long one probe may take: a lost SYN is sent again after a second. The deadline does not cut it short: what was
/// seen last would be that cut, and not what is in the way.
const PROBE: Duration = Duration::from_secs(2);
/// How long only the address is tried, when there is one, before the name is tried as well.
const ADDRESS_ALONE: Duration = Duration::from_secs(5);
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

/// Probes the lead at `target` until it lets us in or `deadline` has passed (it is tried at least once, and an attempt
/// that has begun is brought to its end). `report` takes what was seen. A certificate that does not fit is reported as
/// a warning but tried again: the pod of a cluster that is being replaced may answer for a moment.
pub async fn wait_for_lead(
    target: &AwaitLead,
    certificate: &CurveCertificate,
    deadline: Duration,
    report: &mut dyn FnMut(&str),
) -> Result<LeadFound, Failure> {
    let probe = async |address, connection| probe(address, certificate, connection, PROBE).await;
    let resolve = async |name: &str| lookup(name).await.map_err(|error| format!("{error:#}"));
    let spread = |pause| spread(pause, getrandom::u32().unwrap_or(u32::MAX));
    wait(target, deadline, report, probe, resolve, spread).await
}

/// A pause between half of `pause` and all of it: the workers of a large cluster would ask together every time.
fn spread(pause: Duration, random: u32) -> Duration {
    pause.mul_f64(f64::from(random) / f64::from(u32::MAX) / 2.0 + 0.5)
}

async fn wait(
    target: &AwaitLead,
    deadline: Duration,
    report: &mut dyn FnMut(&str),
    probe: impl AsyncFn(SocketAddr, Duration) -> Outcome,
    resolve: impl AsyncFn(&str) -> Result<Vec<IpAddr>, String>,
    spread: impl Fn(Duration) -> Duration,
) -> Result<LeadFound, Failure> {
    let started = Instant::now();
    let mut reported = None;
    let mut pause = FIRST_PAUSE;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let eager = started.elapsed() < EAGER;
        let connection = if eager { EAGER_CONNECTION } else { PROBE };
        let probe = |address| probe(address, connection);
        let with_name = target.address.is_none() || started.elapsed() >= ADDRESS_ALONE;
        let seen = match attempt(target, with_name, probe, &resolve).await {
            Ok(address) => {
                return Ok(LeadFound { address, attempts, elapsed: started.elapsed() });
            }
            Err(seen) => seen,
        };
        let elapsed = started.elapsed();
        if let Some(line) = seen.line(&mut reported, elapsed, attempts) {
            report(&line);
        }
        if elapsed >= deadline {
            let AwaitLead { name, port, .. } = target;
            let (seconds, seen) = (elapsed.as_secs(), seen.text);
            return Err(Failure::new(
                Exit::LeadUnreachable,
                format!(
                    "lead broker {name} port {port} did not let this pod in within {seconds} s ({attempts} attempts); last seen: {seen}"
                ),
            ));
        }
        sleep(spread(pause).min(deadline.saturating_sub(elapsed))).await;
        if !eager {
            pause = pause.mul_f64(1.5).min(LONGEST_PAUSE);
        }
    }
}

/// One round over every way to the lead: the first address that lets us in, or what was seen at all of them.
async fn attempt(
    target: &AwaitLead,
    with_name: bool,
    probe: impl AsyncFn(SocketAddr) -> Outcome,
    resolve: &impl AsyncFn(&str) -> Result<Vec<IpAddr>, String>,
) -> Result<SocketAddr, Seen> {
    let mut seen = Vec::new();
    let mut certificate_problem = false;
    for by_name in [false, true].into_iter().take(if with_name { 2 } else { 1 }) {
        let addresses = if by_name {
            resolve(&target.name).await
        } else {
            Ok(target.address.into_iter().collect())
        };
        let addresses = addresses.unwrap_or_else(|error| {
            seen.push(error);
            Vec::new()
        });
        // What the address itself has shown need not be asked again by its name.
        let new = addresses.into_iter().filter(|it| !(by_name && target.address == Some(*it)));
        for address in new {
            let address = SocketAddr::new(address, target.port);
            let outcome = probe(address).await;
            if outcome == Outcome::Accepted {
                return Ok(address);
            }
            certificate_problem |= outcome.is_certificate_problem();
            seen.push(format!("{address}: {outcome}"));
        }
    }
    Err(Seen { text: seen.join("; "), certificate_problem })
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    text: String,
    certificate_problem: bool,
}

impl Seen {
    /// What is to be reported of it, `elapsed` after the start: a change at once, and what stays as it was every
    /// ten seconds. `reported` is what was reported last, and when.
    fn line(
        &self,
        reported: &mut Option<(Self, Duration)>,
        elapsed: Duration,
        attempts: u32,
    ) -> Option<String> {
        let urgency = if self.certificate_problem { "WARNING: " } else { "" };
        let (text, seconds) = (&self.text, elapsed.as_secs());
        let line = match reported {
            Some((last, when)) if last == self => {
                if elapsed.saturating_sub(*when) < REPORT_INTERVAL {
                    return None;
                }
                format!(
                    "{urgency}still waiting for the lead broker after {seconds} s ({attempts} attempts): {text}"
                )
            }
            Some(_) | None => format!("{urgency}waiting for the lead broker: {text}"),
        };
        *reported = Some((self.clone(), elapsed));
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use crate::lead::probe::Stage;
    use std::cell::RefCell;

    const SERVICE: &str = "10.96.0.5";
    const POD: &str = "10.244.1.7";
    const REFUSED: Outcome = Outcome::ConnectionRefused;

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

    struct Waited {
        result: Result<LeadFound, Failure>,
        reports: Vec<String>,
        probed: Vec<Duration>,
    }

    impl Waited {
        fn found(&self) -> LeadFound {
            *self.result.as_ref().unwrap()
        }
    }

    /// Waits for `seconds` where probes and the name service answer by the time since the start.
    async fn run(
        address: Option<&str>,
        seconds: u64,
        outcome: impl Fn(Duration, IpAddr) -> Outcome,
        resolved: impl Fn(Duration) -> Result<Vec<IpAddr>, String>,
    ) -> Waited {
        let (mut reports, probed, began) = (Vec::new(), RefCell::new(Vec::new()), Instant::now());
        let mut report = |text: &str| reports.push(text.to_owned());
        let probe = async |address: SocketAddr, connection: Duration| {
            probed.borrow_mut().push(began.elapsed());
            let outcome = outcome(began.elapsed(), address.ip());
            if outcome == Outcome::TimedOut(Stage::Connect) {
                sleep(connection).await;
            }
            outcome
        };
        let resolve = async |_: &str| resolved(began.elapsed());
        let deadline = Duration::from_secs(seconds);
        let result = wait(&target(address), deadline, &mut report, probe, resolve, |it| it).await;
        Waited { result, reports, probed: probed.into_inner() }
    }

    #[test]
    fn a_pause_is_spread_over_its_second_half() {
        let pause = Duration::from_millis(100);
        assert_eq!(spread(pause, 0), Duration::from_millis(50));
        assert_eq!(spread(pause, u32::MAX), pause);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lead_that_answers_at_once_costs_no_pause_and_no_report() {
        let waited = run(Some(SERVICE), 60, |_, _| Outcome::Accepted, |_| unknown()).await;
        let address = SocketAddr::new(ip(SERVICE), 8050);
        assert_eq!(waited.found(), LeadFound { address, attempts: 1, elapsed: Duration::ZERO });
        assert!(waited.reports.is_empty(), "{:?}", waited.reports);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_costs_50_milliseconds_for_3_seconds_and_then_pauses_grow_to_500() {
        let up = EAGER + Duration::from_secs(3);
        let outcome = |now, _| if now < up { REFUSED } else { Outcome::Accepted };
        let waited = run(Some(SERVICE), 60, outcome, |_| Ok(Vec::new())).await;
        assert!(waited.found().elapsed < up + LONGEST_PAUSE);
        let pauses = waited.probed.windows(2).map(|pair| pair[1].abs_diff(pair[0]).as_millis());
        let pauses: Vec<_> = pauses.collect();
        let eager = pauses.iter().take_while(|pause| **pause <= 52).count();
        assert!((55..=61).contains(&eager), "{pauses:?}");
        // The clock of the test counts whole milliseconds and rounds up.
        for (pause, expected) in pauses[eager..].iter().zip([75, 112, 168, 253, 379, 500, 500]) {
            assert!(pause.abs_diff(expected) <= 2, "{pauses:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn packets_that_are_dropped_at_first_cost_a_quarter_of_a_second_at_most() {
        let until = Duration::from_millis(1_100);
        let lost = Outcome::TimedOut(Stage::Connect);
        let outcome = |now, _| if now < until { lost.clone() } else { Outcome::Accepted };
        let waited = run(Some(SERVICE), 60, outcome, |_| unknown()).await;
        assert!(waited.found().elapsed < until + EAGER_CONNECTION + FIRST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn the_name_is_tried_when_the_address_keeps_failing_for_five_seconds() {
        let outcome = |_, address| if address == ip(POD) { Outcome::Accepted } else { REFUSED };
        let found = run(Some(SERVICE), 60, outcome, |_| Ok(vec![ip(POD)])).await.found();
        assert_eq!(found.address.ip(), ip(POD));
        assert!(found.elapsed >= ADDRESS_ALONE && found.elapsed < ADDRESS_ALONE + LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_address_the_name_is_looked_up_each_time() {
        let resolved =
            |now| if now < Duration::from_secs(1) { unknown() } else { Ok(vec![ip(POD)]) };
        let waited = run(None, 60, |_, _| Outcome::Accepted, resolved).await;
        assert_eq!(waited.found().address.ip(), ip(POD));
        assert_eq!(
            waited.reports,
            ["waiting for the lead broker: name hello-0.hello does not exist in DNS (yet)"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn reports_come_with_every_change_and_every_ten_seconds() {
        let changes = Duration::from_secs(25);
        let outcome = |now, _| if now < changes { REFUSED } else { Outcome::WrongKey };
        let began = Instant::now();
        let Waited { result, reports, .. } =
            run(Some(SERVICE), 30, outcome, |_| Ok(Vec::new())).await;
        assert_eq!(began.elapsed(), Duration::from_secs(30), "the deadline is kept exactly");
        let error = result.unwrap_err().to_string();
        assert!(error.contains("; last seen: 10.96.0.5:8050: the server closed"), "{error}");
        assert!(error.contains("another CURVE certificate"), "{error}");
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
        let outcome = |now, _| if now < replaced { Outcome::WrongKey } else { Outcome::Accepted };
        let waited = run(Some(SERVICE), 60, outcome, |_| unknown()).await;
        waited.found();
        assert!(waited.reports[0].starts_with("WARNING: "), "{:?}", waited.reports);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_of_nothing_still_tries_once() {
        let waited = run(Some(SERVICE), 0, |_, _| REFUSED, |_| unknown()).await;
        assert_eq!(
            waited.result.unwrap_err().to_string(),
            "lead broker hello-0.hello port 8050 did not let this pod in within 0 s (1 attempts); last seen: 10.96.0.5:8050: connection refused: nothing listens there yet"
        );
    }
}
