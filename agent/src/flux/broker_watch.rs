//! Watches the broker from outside: its state, and whether it has lost its lead.

use crate::flux::broker_socket::{BrokerAddress, LEAD, SocketError};
use nix::errno::Errno;
use std::iter;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Pause between two looks at a broker that does not run yet.
const INTERVAL: Duration = Duration::from_millis(200);
/// The same while its first answer is to be expected.
const INTERVAL_STARTING: Duration = Duration::from_millis(20);
const STARTING: Duration = Duration::from_secs(5);
/// Pause between two requests to pass on who has joined.
const INTERVAL_JOINING: Duration = Duration::from_millis(20);
/// How often a lead is asked to: for as long as the brokers of most instances take to join.
const JOINS_OF_LEAD: u32 = 500;
/// The same of a worker, which has to pass on itself.
const JOINS_OF_WORKER: u32 = 5;
/// Brokers between it and the lead that a worker asks, too.
const MOST_BETWEEN: usize = 16;
/// Pause between two looks at one that runs: only its end is still to come, and that is noticed at once.
const INTERVAL_ONLINE: Duration = Duration::from_secs(10);
/// How long the lead may take to answer, perhaps over several brokers.
const LEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// A change of what is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The broker reports another state.
    State(String),
    /// The broker, which has answered before, has closed its socket: it ends.
    Closed,
    /// A worker's broker waits for the quorum of a lead that does not know it.
    LeadGone,
}

/// What is watched.
#[derive(Debug)]
pub struct Watch {
    /// The broker.
    pub broker: BrokerAddress,
    /// It is a worker's.
    pub has_lead: bool,
    /// Ranks of the brokers between it and the lead, the nearest first.
    pub between: Vec<u32>,
}

/// The ranks between the lead and `rank` where `topology` is `kary:K` (flux-broker-attributes(7), `tbon.topo`), the nearest
/// first; none in other trees, and no more than are worth their questions.
pub fn between(topology: &str, rank: u32) -> Vec<u32> {
    let children: u32 = topology.strip_prefix("kary:").and_then(|it| it.parse().ok()).unwrap_or(0);
    let parent = |rank: &u32| rank.checked_sub(1)?.checked_div(children);
    let above = iter::successors(parent(&rank), parent);
    above.take_while(|rank| *rank > 0).take(MOST_BETWEEN).collect()
}

impl Watch {
    /// Reports every change to `events` until nobody listens any more.
    pub async fn run(self, events: mpsc::UnboundedSender<Event>) {
        let mut seen: Vec<Event> = Vec::new();
        let mut has_answered = false;
        let wake = Arc::new(Notify::new());
        let (mut monitor, mut joining) = (JoinSet::new(), JoinSet::new());
        let began = Instant::now();
        while !events.is_closed() {
            let state = self.broker.state().await;
            let closed = state.as_ref().is_err_and(SocketError::is_closed) && has_answered;
            has_answered |= state.is_ok();
            // A broker that does not answer has no state.
            let state = state.ok();
            let waits = state.as_deref() == Some("quorum");
            if !waits {
                joining.abort_all();
            } else if joining.is_empty() {
                let times = if self.has_lead { JOINS_OF_WORKER } else { JOINS_OF_LEAD };
                joining.spawn(pass_on_joins(self.broker.clone(), self.between.clone(), times));
            }
            let gone =
                (waits && self.has_lead && self.lead_is_gone().await).then_some(Event::LeadGone);
            // One that broke is opened again.
            while monitor.try_join_next().is_some() {}
            // An older Flux has no stream of changes, and is looked at from time to time.
            if state.is_some() && monitor.is_empty() {
                monitor.spawn(notify_of_changes(self.broker.clone(), Arc::clone(&wake)));
            }
            let runs = state.as_deref() == Some("run");
            let closed = closed.then_some(Event::Closed);
            let now: Vec<Event> =
                state.map(Event::State).into_iter().chain(gone).chain(closed).collect();
            for event in now.iter().filter(|event| !seen.contains(event)) {
                // Nobody listening is noticed above.
                let _ = events.send(event.clone());
            }
            seen = now;
            let interval = match (runs, has_answered || began.elapsed() > STARTING) {
                (true, _) => INTERVAL_ONLINE,
                (false, true) => INTERVAL,
                (false, false) => INTERVAL_STARTING,
            };
            tokio::select! {
                () = sleep(interval) => {}
                () = wake.notified() => {}
            }
        }
    }

    /// Whether the broker has nobody to pass a question for the lead on to. A broker that another lead sends away ends
    /// by itself, but for one that waits for the quorum (Flux 0.88, `monitor_parent_continuation` of the broker's state
    /// machine). Where no answer comes, that says nothing.
    async fn lead_is_gone(&self) -> bool {
        let asked = async { self.broker.connect().await?.state(LEAD).await };
        let answer = timeout(LEAD_TIMEOUT, asked).await;
        answer.is_ok_and(|answer| answer.is_err_and(|error| error.is(Errno::EHOSTUNREACH)))
    }
}

/// Lets the broker pass on at once which brokers have joined, and then each of those `between` it and the lead. By itself
/// a broker collects them for 0.1 s before it counts them or tells its parent (Flux 0.88, `batch_timeout` in
/// `modules/groups/groups.c`); when somebody disconnects who has asked that service something, it does both with what it
/// has (`disconnect_cb`).
async fn pass_on_joins(broker: BrokerAddress, between: Vec<u32>, times: u32) {
    for _ in 0..times {
        for node in iter::once(None).chain(between.iter().copied().map(Some)) {
            // Whatever is answered.
            let _ = broker.ask_of_groups(node).await;
        }
        sleep(INTERVAL_JOINING).await;
    }
}

/// Notifies of every change of the broker's state, until the connection ends.
async fn notify_of_changes(broker: BrokerAddress, changed: Arc<Notify>) {
    // A worker's broker takes this question only once it has joined its parent (flux-core, `allow_early_request` in
    // `broker/broker.c`).
    while follow_changes(&broker, &changed).await.is_err_and(|error| error.is(Errno::EAGAIN)) {
        sleep(INTERVAL_STARTING).await;
    }
}

async fn follow_changes(broker: &BrokerAddress, changed: &Notify) -> Result<(), SocketError> {
    let mut connection = broker.connect().await?;
    connection.monitor_state().await?;
    loop {
        connection.state_change().await?;
        changed.notify_one();
    }
}
