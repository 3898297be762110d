//! The broker's state, its log, and the loop of states and events.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedSender, WeakSender};

use super::log::Severity;
use super::startup::Startup;
use super::state::State;
use crate::jobs::manager::Manager;
use crate::jobs::task::{Happened, Order};
use crate::overlay::link::LinkEvent;
use crate::protocol::{Client, Request};

/// Something that falls due.
#[derive(Clone, Copy)]
pub(crate) enum Deadline {
    /// Give up on peers.
    Shutdown,
    /// Give up on jobs.
    Cleanup,
    /// A job's tasks ignored SIGTERM.
    JobKill(u64),
}

/// What happens around a broker.
pub(crate) enum News {
    /// On the link to the parent.
    Parent(LinkEvent),
    /// On a child's link.
    Child(u64, LinkEvent),
    /// A client of the local socket asks something.
    Asked(Request, Client),
    /// A user without a role was turned away from the local socket.
    Stranger(u32),
    /// The job manager of this broker wants something of it.
    Order(Order),
    /// To a task of a job.
    Task(u64, u32, Happened),
    Due(Deadline),
    Signal(i32),
}

/// How news get to a broker; whoever holds `alive` still has something to deliver when it ends.
#[derive(Clone)]
pub(crate) struct Channels {
    pub(crate) news: UnboundedSender<News>,
    pub(crate) alive: WeakSender<()>,
}

/// The parent, on a worker.
pub(super) struct Parent {
    pub(super) sender: UnboundedSender<Bytes>,
    /// The hello was answered.
    pub(super) responded: bool,
    /// The parent refused the hello or sent us away.
    pub(super) failed: bool,
    pub(super) state: Option<State>,
}

/// The children, on the lead: all links by number, and the link of each rank that is online.
#[derive(Default)]
pub(super) struct Children {
    pub(super) links: HashMap<u64, UnboundedSender<Bytes>>,
    pub(super) online: BTreeMap<u32, u64>,
    /// New ones are sent away.
    pub(super) spurn: bool,
}

pub(super) struct Broker {
    pub(super) setup: Startup,
    pub(super) channels: Channels,
    pub(super) parent: Option<Parent>,
    pub(super) children: Children,
    pub(super) manager: Manager,
    /// Clients of a worker whose requests the lead has, by number.
    pub(super) clients: HashMap<u64, Client>,
    pub(super) last_client: u64,
    /// The processes of the tasks that run here, by job and task.
    pub(super) processes: HashMap<(u64, u32), u32>,
    pub(super) has_cleanup: bool,
    pub(super) cleaning: bool,
    /// Whether a signal has come, after which jobs are not waited for without end.
    pub(super) expedite: bool,
    pub(super) exit_code: i32,
    pub(super) state: State,
    since: Instant,
    events: VecDeque<&'static str>,
}

impl Broker {
    pub(super) fn new(setup: Startup, channels: Channels) -> Self {
        Self {
            setup,
            channels,
            parent: None,
            children: Children::default(),
            manager: Manager::default(),
            clients: HashMap::new(),
            last_client: 0,
            processes: HashMap::new(),
            has_cleanup: false,
            cleaning: false,
            expedite: false,
            exit_code: 0,
            state: State::LoadBuiltins,
            since: Instant::now(),
            events: VecDeque::new(),
        }
    }

    pub(super) fn is_leader(&self) -> bool {
        self.setup.rank == 0
    }

    pub(super) fn seconds_in_state(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }

    /// Name of a rank.
    pub(super) fn host(&self, rank: u32) -> String {
        let index = usize::try_from(rank).unwrap_or(usize::MAX);
        self.setup.hosts.get(index).cloned().unwrap_or_else(|| "(null)".to_owned())
    }

    /// Logs as the broker itself.
    pub(super) fn log(&self, severity: Severity, text: &str) {
        self.log_as("broker", severity, text);
    }

    /// Logs as a module.
    pub(super) fn log_as(&self, source: &str, severity: Severity, text: &str) {
        self.setup.logger.log(source, severity, text);
    }

    /// Reports a deadline after some time.
    pub(super) fn later(&self, after: Duration, deadline: Deadline) {
        let sender = self.channels.news.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            // The broker may be gone by then.
            let _ = sender.send(News::Due(deadline));
        });
    }

    /// Queues an event for the state machine.
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
        self.check_cleanup();
        while let Some(event) = self.events.pop_front() {
            let Some(next) = self.state.after(event) else { continue };
            let (from, to, spent) = (self.state.name(), next.name(), self.seconds_in_state());
            self.log(Severity::Info, &format!("{event}: {from}->{to} {spent:.3}s"));
            self.state = next;
            self.since = Instant::now();
            self.enter(next);
            self.send_state_to_children();
            self.check_cleanup();
        }
    }
}
