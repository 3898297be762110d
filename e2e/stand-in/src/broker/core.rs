//! The broker's state, its log, and the loop of states and events.

use super::state::State;
use crate::config::Config;
use crate::environment::Environment;
use crate::jobs::manager::Manager;
use crate::output;
use crate::protocol::Client;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::mpsc::{Sender, UnboundedSender, WeakSender};

/// An event around a broker: the function that handles it.
type BrokerEvent = Box<dyn FnOnce(&mut Broker) + Send>;

/// How news get to a broker.
#[derive(Clone)]
pub(crate) struct Mailbox {
    pub(super) news: UnboundedSender<BrokerEvent>,
    pub(super) alive: WeakSender<()>,
}

impl Mailbox {
    /// Reports news; the broker may be gone by then.
    pub(crate) fn report(&self, news: impl FnOnce(&mut Broker) + Send + 'static) {
        drop(self.news.send(Box::new(news)));
    }

    /// Tasks that hold this still have something to deliver when the broker ends.
    pub(crate) fn delivery(&self) -> Option<Sender<()>> {
        self.alive.upgrade()
    }
}

/// An attribute may exist without a value, which is then empty.
pub(super) type Attributes = BTreeMap<String, String>;

/// Severity of a line, RFC 5424.
#[derive(Clone, Copy)]
pub(super) enum Severity {
    Critical = 2,
    Error = 3,
    Info = 6,
}

/// Shows a line that matters enough, of a module in a `place`: a rank, or the host name before it has one.
pub(super) fn show(level: u8, place: &str, source: &str, severity: Severity, text: &str) {
    let number = severity as u8;
    let name = ["emerg", "alert", "crit", "err", "warning", "notice", "info"][usize::from(number)];
    if number <= level {
        output::error_line(&format!("<{number}>{source}.{name}[{place}]: {text}"));
    }
}

pub(crate) struct Broker {
    pub(super) attributes: Attributes,
    pub(super) config: Config,
    pub(super) rank: u32,
    pub(super) hosts: Vec<String>,
    pub(super) log_level: u8,
    pub(super) quorum: usize,
    /// For peers to leave.
    pub(super) shutdown_limit: Option<Duration>,
    /// For jobs to end.
    pub(super) cleanup_limit: Option<Duration>,
    /// For one connection attempt.
    pub(super) connect_limit: Duration,
    pub(super) socket: String,
    /// Directories that were made here, removed when the broker is gone.
    pub(super) directories: Vec<TempDir>,
    pub(super) environment: Environment,
    pub(super) mailbox: Mailbox,
    /// The link to the parent, on a worker.
    pub(super) uplink: Option<UnboundedSender<Bytes>>,
    /// None before it has accepted the hello.
    pub(super) parent_state: Option<State>,
    /// The parent refused the hello or has rejected this broker.
    pub(super) parent_failed: bool,
    /// The links of the lead by number.
    pub(super) links: HashMap<u64, UnboundedSender<Bytes>>,
    /// The link of each rank that is there.
    pub(super) children: BTreeMap<u32, u64>,
    pub(super) manager: Manager,
    /// Clients of a worker whose requests the lead has, by number.
    pub(super) clients: HashMap<u64, Client>,
    pub(super) last_client: u64,
    /// The processes of the tasks that run here, by job and task.
    pub(super) processes: HashMap<(u64, u32), u32>,
    pub(super) has_cleanup: bool,
    pub(super) exit_code: i32,
    pub(super) state: State,
    pub(super) since: Instant,
    pub(super) events: VecDeque<&'static str>,
}

impl Broker {
    pub(super) fn is_leader(&self) -> bool {
        self.rank == 0
    }

    pub(super) fn host(&self, rank: u32) -> String {
        self.hosts.get(rank as usize).cloned().unwrap_or_else(|| "(null)".to_owned())
    }

    pub(super) fn log(&self, severity: Severity, text: &str) {
        self.log_as("broker", severity, text);
    }

    pub(super) fn log_as(&self, source: &str, severity: Severity, text: &str) {
        show(self.log_level, &self.rank.to_string(), source, severity, text);
    }

    pub(super) fn later(&self, after: Duration, due: impl FnOnce(&mut Self) + Send + 'static) {
        let mailbox = self.mailbox.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            mailbox.report(due);
        });
    }

    pub(super) fn post(&mut self, event: &'static str) {
        self.events.push_back(event);
    }

    /// Sets the exit code unless an earlier failure has.
    pub(super) fn fail_with(&mut self, code: i32) {
        if self.exit_code == 0 {
            self.exit_code = code;
        }
    }

    /// Processes events until there are none.
    pub(super) fn settle(&mut self) {
        loop {
            self.manager.settle();
            self.check_cleanup();
            let Some(event) = self.events.pop_front() else { return };
            let Some(next) = self.state.after(event) else { continue };
            let (from, to, spent) =
                (self.state.name(), next.name(), self.since.elapsed().as_secs_f64());
            self.log(Severity::Info, &format!("{event}: {from}->{to} {spent:.3}s"));
            self.state = next;
            self.since = Instant::now();
            self.enter(next);
            self.send_state_to_children();
        }
    }
}
