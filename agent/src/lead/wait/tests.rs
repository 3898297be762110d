//! Waiting for the lead with simulated probes, look-ups and time.

use super::*;
use crate::failure::Result;
use crate::lead::probe::Stage;

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
        hosts: 4,
    }
}

fn unknown() -> Result<Vec<IpAddr>, String> {
    Err("name hello-0.hello does not exist in DNS (yet)".to_owned())
}

struct Waited {
    result: Result<LeadFound>,
    reports: Vec<String>,
    causes: Vec<ObstacleCause>,
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
    let (mut reports, mut causes) = (Vec::new(), Vec::new());
    let (probed, began) = (RefCell::new(Vec::new()), Instant::now());
    let mut report = |text: &str, found: Obstacle| {
        reports.push(text.to_owned());
        causes.push(found.cause);
    };
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
    Waited { result, reports, causes, probed: probed.into_inner() }
}

#[test]
fn each_worker_of_a_large_instance_tries_less_often() {
    let of = |hosts| {
        let Pauses { first, late, longest, probe } = Pauses::of(hosts);
        [first, late, longest, probe].map(|it| it.as_millis())
    };
    assert_eq!(of(1), of(60));
    assert_eq!(of(60), [30, 30, 1_000, 2_000]);
    assert_eq!(of(1_000), [500, 14_000, 14_000, 14_000]);
    assert_eq!(of(100_000), [15_000, 15_000, 15_000, 15_000]);
    assert!((0..100).all(|_| spread(FIRST_PAUSE) <= FIRST_PAUSE * 2));
}

/// On both routes together, as soon as the eager time is over, and never at once.
#[tokio::test(start_paused = true)]
async fn a_thousand_workers_are_slow_with_a_late_lead() {
    let (began, attempts, open) = (Instant::now(), RefCell::new(0), RefCell::new(0));
    let target = AwaitLead { hosts: 1_000, ..target(Some(SERVICE)) };
    let probe = async |_: SocketAddr, connection: Duration| {
        *attempts.borrow_mut() += i32::from(began.elapsed() > EAGER);
        assert_eq!(open.replace(1), 0, "one connection at a time");
        sleep(connection.min(FIRST_PAUSE)).await;
        open.replace(0);
        REFUSED
    };
    let resolve = async |_: &str| Ok(vec![ip(POD)]);
    let deadline = Duration::from_mins(5);
    wait(&target, deadline, &mut |_, _| {}, probe, resolve, |it| it).await.unwrap_err();
    let seconds = deadline.saturating_sub(EAGER).as_secs_f64();
    assert!(f64::from(attempts.take()) * 1_000.0 / seconds < 200.0);
}

#[tokio::test(start_paused = true)]
async fn a_lead_that_answers_at_once_is_not_reported() {
    let waited = run(Some(SERVICE), 60, |_, _| Outcome::Accepted, |_| unknown()).await;
    let address = SocketAddr::new(ip(SERVICE), 8050);
    assert_eq!(waited.found(), LeadFound { address, attempts: 1, elapsed: Duration::ZERO });
    assert!(waited.reports.is_empty(), "{:?}", waited.reports);
}

#[tokio::test(start_paused = true)]
async fn pauses_after_a_refusal_grow_to_a_second() {
    let up = EAGER + Duration::from_secs(12);
    let outcome = |now, _| if now < up { REFUSED } else { Outcome::Accepted };
    let waited = run(Some(SERVICE), 60, outcome, |_| Ok(Vec::new())).await;
    assert!(waited.found().elapsed < up + LONGEST_PAUSE);
    let pauses = waited.probed.windows(2).map(|pair| pair[1].abs_diff(pair[0]).as_millis());
    let pauses: Vec<_> = pauses.collect();
    let eager = pauses.iter().take_while(|pause| **pause <= 32).count();
    assert!((60..=67).contains(&eager), "{pauses:?}");
    // The clock of the test counts whole milliseconds and rounds up.
    for (pause, expected) in
        pauses[eager..].iter().zip([45, 67, 101, 151, 227, 341, 512, 768, 1000, 1000])
    {
        assert!(pause.abs_diff(expected) <= 2, "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn packets_that_are_dropped_cost_a_moment() {
    let milliseconds = Duration::from_millis;
    for (refused, until, most) in [
        // From the first on, and for a moment.
        (Duration::ZERO, milliseconds(1_100), EAGER_CONNECTION.1),
        (milliseconds(290), milliseconds(310), EAGER_CONNECTION.0),
    ] {
        let outcome = |now, _| match now {
            now if now < refused => REFUSED,
            now if now < until => Outcome::TimedOut(Stage::Connect),
            _ => Outcome::Accepted,
        };
        let waited = run(Some(SERVICE), 60, outcome, |_| unknown()).await;
        assert!(waited.found().elapsed <= until + most + FIRST_PAUSE, "{until:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_distant_lead_gets_the_time_that_it_needs() {
    let way = Duration::from_millis(150);
    let probe = async |_, connection: Duration| {
        sleep(connection.min(way)).await;
        let lost = Outcome::TimedOut(Stage::Connect);
        if connection < way { lost } else { Outcome::Accepted }
    };
    let (target, deadline) = (target(Some(SERVICE)), Duration::from_mins(1));
    let resolve = async |_: &str| unknown();
    let found = wait(&target, deadline, &mut |_, _| {}, probe, resolve, |it| it).await.unwrap();
    assert!(found.elapsed < Duration::from_millis(450), "{:?}", found.elapsed);
}

#[tokio::test(start_paused = true)]
async fn name_and_address_do_not_wait_for_each_other() {
    let lost = Outcome::TimedOut(Stage::Connect);
    let by_name = |_, address| if address == ip(POD) { Outcome::Accepted } else { lost.clone() };
    let found = run(Some(SERVICE), 60, by_name, |_| Ok(vec![ip(POD)])).await.found();
    assert_eq!((found.address.ip(), found.elapsed), (ip(POD), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn dns_is_asked_three_times_at_first_and_then_once_a_second() {
    let asked = async |hosts| {
        let (asked, began) = (RefCell::new(Vec::new()), Instant::now());
        let target = AwaitLead { hosts, ..target(Some(SERVICE)) };
        let resolve = async |_: &str| {
            asked.borrow_mut().push(began.elapsed().as_millis() / 100);
            Ok(vec![ip(POD)])
        };
        let probe = async |_, _| REFUSED;
        let deadline = Duration::from_secs(2);
        wait(&target, deadline, &mut |_, _| {}, probe, resolve, |it| it).await.unwrap_err();
        asked.into_inner()
    };
    assert_eq!(asked(4).await, [0, 2, 4, 14]);
    assert_eq!(asked(MOST_HOSTS + 1).await, [4, 14]);
}

#[tokio::test(start_paused = true)]
async fn without_an_address_the_name_is_looked_up_each_time() {
    let resolved = |now| if now < Duration::from_secs(1) { unknown() } else { Ok(vec![ip(POD)]) };
    let waited = run(None, 60, |_, _| Outcome::Accepted, resolved).await;
    assert_eq!(waited.found().address.ip(), ip(POD));
    let report = "waiting for the lead broker: name hello-0.hello does not exist in DNS (yet)";
    assert_eq!(waited.reports, [report]);
}

#[tokio::test(start_paused = true)]
async fn reports_come_with_every_change_and_every_ten_seconds() {
    let changes = Duration::from_secs(25);
    let outcome = |now, _| if now < changes { REFUSED } else { Outcome::WrongKey };
    let began = Instant::now();
    let Waited { result, reports, causes, .. } =
        run(Some(SERVICE), 30, outcome, |_| Ok(Vec::new())).await;
    assert_eq!(began.elapsed(), Duration::from_secs(30), "the deadline is kept exactly");
    let error = result.unwrap_err().to_string();
    assert!(error.contains("; last seen: 10.96.0.5:8050: the server closed"), "{error}");
    assert!(error.contains("another CURVE certificate"), "{error}");
    assert_eq!(reports.len(), 4, "{reports:#?}");
    let [port, certificate] = [ObstacleCause::Port, ObstacleCause::Certificate];
    assert_eq!(causes, [port, port, port, certificate]);
    assert!(reports[0].starts_with("waiting for the lead broker: 10.96.0.5:8050: connection"));
    assert!(reports[1].starts_with("still waiting for the lead broker after 10 s"));
    let warning = "WARNING: waiting for the lead broker: 10.96.0.5:8050: the server closed";
    assert!(reports[3].starts_with(warning));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_zero_still_tries_each_route_once() {
    let waited = run(Some(SERVICE), 0, |_, _| REFUSED, |_| unknown()).await;
    assert_eq!(
        waited.result.unwrap_err().to_string(),
        "lead broker hello-0.hello port 8050 did not let this pod in within 0 s (2 attempts); last seen: 10.96.0.5:8050: connection refused: nothing listens there yet; name hello-0.hello does not exist in DNS (yet)"
    );
}
