//! Watches the broker from outside: its state, and whether it has lost its lead.

use flux_protocol::client::{BrokerAddress, LEAD, NODE_ANY, SocketError};
use nix::errno::Errno;
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
/// Pause between two flushes of the joins.
const INTERVAL_JOINING: Duration = Duration::from_millis(20);
/// How often the agent of a lead flushes the joins: for as long as the brokers of most instances take to join.
const FLUSHES_OF_LEAD: u32 = 500;
/// The same for a worker, whose only own join is that of its broker.
const FLUSHES_OF_WORKER: u32 = 5;
/// Hosts of the largest instance in which agents flush joins. In larger ones that costs more than Flux's own batches.
const MOST_HOSTS: usize = 64;
/// Pause between two looks at a broker that runs. The agent sees its end at once, by the monitor.
const INTERVAL_ONLINE: Duration = Duration::from_secs(10);
/// How long the broker may take to answer from memory.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
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
    /// A worker's broker ends, and the lead ends the instance, or does not.
    LeadEnds(bool),
}

/// States of a broker that ends (flux-core, `statetab` of `src/broker/state_machine.c`).
const ENDING: [&str; 6] = ["cleanup", "shutdown", "finalize", "goodbye", "unload-builtins", "exit"];

/// What is watched.
#[derive(Debug)]
pub struct Watch {
    /// The broker.
    pub broker: BrokerAddress,
    /// It is a worker's.
    pub has_lead: bool,
    /// Hosts of its instance.
    pub hosts: usize,
}

impl Event {
    fn is_end(&self) -> bool {
        matches!(self, Self::State(state) if ENDING.contains(&state.as_str()))
    }
}

impl Watch {
    /// Reports every change to `events` until nobody listens any more.
    pub async fn run(self, events: mpsc::UnboundedSender<Event>) {
        let mut seen: Vec<Event> = Vec::new();
        let (mut has_answered, mut has_asked_lead) = (false, false);
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
            } else if self.hosts <= MOST_HOSTS && joining.is_empty() {
                let times = if self.has_lead { FLUSHES_OF_WORKER } else { FLUSHES_OF_LEAD };
                joining.spawn(flush_joins(self.broker.clone(), times));
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
            let ends = now.iter().any(Event::is_end);
            for event in now.iter().filter(|event| !seen.contains(event)) {
                // Nobody listening is noticed above.
                let _ = events.send(event.clone());
            }
            seen = now;
            if ends && self.has_lead && !has_asked_lead {
                has_asked_lead = true;
                if let Some(ends) = self.lead_ends().await {
                    let _ = events.send(Event::LeadEnds(ends));
                }
            }
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

    /// Whether the lead ends, too. A broker runs its rc3 with its parent in state `shutdown` and all services of that
    /// parent alive (flux-core, `action_shutdown`), so the question has the time of rc3. Without a way to the lead, a
    /// broker in between has gone.
    async fn lead_ends(&self) -> Option<bool> {
        match self.ask_lead_state().await? {
            Ok(state) => Some(ENDING.contains(&state.as_str())),
            Err(error) => error.is(Errno::EHOSTUNREACH).then_some(false),
        }
    }

    /// Whether the broker has nobody to pass a question for the lead on to. A broker that another lead sends away ends
    /// by itself, but for one that waits for the quorum (Flux 0.88, `monitor_parent_continuation` of the broker's state
    /// machine). Where no answer comes, that says nothing.
    async fn lead_is_gone(&self) -> bool {
        let answer = self.ask_lead_state().await;
        answer.is_some_and(|answer| answer.is_err_and(|error| error.is(Errno::EHOSTUNREACH)))
    }

    async fn ask_lead_state(&self) -> Option<Result<String, SocketError>> {
        let asked = async { self.broker.connect().await?.state(LEAD).await };
        timeout(LEAD_TIMEOUT, asked).await.ok()
    }
}

/// Makes the broker report at once which brokers have joined. By itself a broker collects joins for 0.1 s before it counts
/// them or reports them to its parent (Flux 0.88, `batch_timeout` in `modules/groups/groups.c`). When a client of that
/// service disconnects, the broker does both with what it has collected (`disconnect_cb`).
async fn flush_joins(broker: BrokerAddress, times: u32) {
    for _ in 0..times {
        let asked = async { broker.connect().await?.online(NODE_ANY).await };
        // The answer does not matter, only that the connection ends.
        let _ = timeout(ANSWER_TIMEOUT, asked).await;
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
