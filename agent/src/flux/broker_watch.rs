//! Watches the broker over its socket: its state, and whether it has lost its lead.

use crate::flux::job_numbers::{ANSWER_TIMEOUT, job_numbers};
use flux_contract::JobNumbers;
use flux_protocol::client::{BrokerAddress, LEAD, NODE_ANY, SocketError};
use nix::errno::Errno;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Pause between two requests to a broker that does not run yet.
const INTERVAL: Duration = Duration::from_millis(200);
/// The same until the first answer of a new broker.
const INTERVAL_STARTING: Duration = Duration::from_millis(20);
const STARTING: Duration = Duration::from_secs(5);
const INTERVAL_JOINING: Duration = Duration::from_millis(20);
/// How often the agent of a lead flushes the joins: for as long as the brokers of most instances take to join.
const FLUSHES_OF_LEAD: u32 = 500;
/// The same for a worker, whose only own join is that of its broker.
const FLUSHES_OF_WORKER: u32 = 5;
/// Hosts of the largest instance in which agents flush joins. In larger ones that costs more than Flux's own batches.
const MOST_HOSTS: usize = 64;
/// Pause between two requests to a running broker, whose end the monitor reports at once.
const INTERVAL_ONLINE: Duration = Duration::from_secs(10);
/// How long the answer of the lead may take, perhaps over several brokers.
const LEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// A change that a watch reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The broker reports another state.
    State(String),
    /// The broker, which has answered before, has closed its socket, so it ends.
    Closed,
    /// A worker's broker waits for the quorum and has no connection to the lead.
    LeadGone,
    /// A worker's broker ends. The value is whether the lead ends, too.
    LeadEnds(bool),
    /// The lead's broker ends, and has these jobs.
    Jobs(JobNumbers),
}

/// States of a broker that ends (flux-core, `statetab` of `src/broker/state_machine.c`).
const ENDING: [&str; 6] = ["cleanup", "shutdown", "finalize", "goodbye", "unload-builtins", "exit"];

/// A broker to watch.
#[derive(Debug)]
pub struct Watch {
    /// Its socket.
    pub broker: BrokerAddress,
    /// Whether it is a worker's.
    pub has_lead: bool,
    /// The number of hosts of its instance.
    pub hosts: usize,
}

impl Event {
    fn is_end(&self) -> bool {
        matches!(self, Self::State(state) if ENDING.contains(&state.as_str()))
    }
}

impl Watch {
    /// Reports every change to `events` until the receiver is dropped.
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
            // A monitor that ended is started again.
            while monitor.try_join_next().is_some() {}
            // An older Flux has no stream of changes; then only the requests of this loop notice them.
            if state.is_some() && monitor.is_empty() {
                monitor.spawn(notify_of_changes(self.broker.clone(), Arc::clone(&wake)));
            }
            let runs = state.as_deref() == Some("run");
            let closed = closed.then_some(Event::Closed);
            let now: Vec<Event> =
                state.map(Event::State).into_iter().chain(gone).chain(closed).collect();
            let ends = now.iter().any(Event::is_end);
            for event in now.iter().filter(|event| !seen.contains(event)) {
                // The loop ends when the receiver is dropped.
                let _ = events.send(event.clone());
            }
            seen = now;
            if ends && self.has_lead && !has_asked_lead {
                has_asked_lead = true;
                if let Some(ends) = self.lead_ends().await {
                    let _ = events.send(Event::LeadEnds(ends));
                }
            }
            // Flux cancels jobs while it ends, so the last answer counts.
            if ends
                && !self.has_lead
                && let Some(jobs) = job_numbers(&self.broker).await
            {
                let _ = events.send(Event::Jobs(jobs));
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

    /// Whether the lead ends, too. While a broker runs its rc3, its parent is in state `shutdown` with all its services
    /// (flux-core, `action_shutdown`), so the parent can answer during that time. If the lead is unreachable, a broker in
    /// between has ended.
    async fn lead_ends(&self) -> Option<bool> {
        match self.ask_lead_state().await? {
            Ok(state) => Some(ENDING.contains(&state.as_str())),
            Err(error) => error.is(Errno::EHOSTUNREACH).then_some(false),
        }
    }

    /// Whether the broker has no connection to the lead. A broker that a new lead rejects ends by itself, unless it waits
    /// for the quorum (Flux 0.88, `monitor_parent_continuation` of the broker's state machine). A missing answer does not
    /// mean that the lead is gone.
    async fn lead_is_gone(&self) -> bool {
        let answer = self.ask_lead_state().await;
        answer.is_some_and(|answer| answer.is_err_and(|error| error.is(Errno::EHOSTUNREACH)))
    }

    async fn ask_lead_state(&self) -> Option<Result<String, SocketError>> {
        let answer = async { self.broker.connect().await?.state(LEAD).await };
        timeout(LEAD_TIMEOUT, answer).await.ok()
    }
}

/// Makes the broker report at once which brokers have joined. By itself a broker collects joins for 0.1 s before it counts
/// them or reports them to its parent (Flux 0.88, `batch_timeout` in `modules/groups/groups.c`). When a client of that
/// service disconnects, the broker does both with what it has collected (`disconnect_cb`).
async fn flush_joins(broker: BrokerAddress, times: u32) {
    for _ in 0..times {
        let answer = async { broker.connect().await?.online(NODE_ANY).await };
        // Only the end of the connection matters, not the answer.
        let _ = timeout(ANSWER_TIMEOUT, answer).await;
        sleep(INTERVAL_JOINING).await;
    }
}

/// Notifies of every change of the broker's state, until the connection ends.
async fn notify_of_changes(broker: BrokerAddress, changed: Arc<Notify>) {
    // A worker's broker accepts this request only after it has joined its parent (flux-core, `allow_early_request` in
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
