//! The broker's state, its log, and the loop of states and events.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::mpsc::{Sender, UnboundedSender, channel, unbounded_channel};

use super::Receivers;
use super::attributes::Attributes;
use super::deadlines::Deadlines;
use super::directories::Directories;
use super::family::{Children, Parent};
use super::local::ClientNews;
use super::log::{Line, Logger, Severity};
use super::program::Program;
use super::startup::{Periods, Startup};
use super::state::State;
use crate::config::bootstrap::Bootstrap;
use crate::front::Environment;
use crate::jobs::job::ClientId;
use crate::jobs::manager::Manager;
use crate::jobs::task::Report;
use crate::overlay::link::LinkEvent;
use crate::overlay::listen::LinkNews;
use crate::overlay::wire::Upward;
use crate::protocol::Reply;

/// The sending ends of what happens around a broker; whoever holds `alive` still has something to
/// deliver when the broker ends.
pub(super) struct Channels {
    pub(super) parent: UnboundedSender<LinkEvent>,
    pub(super) children: UnboundedSender<(u64, LinkNews)>,
    pub(super) clients: UnboundedSender<ClientNews>,
    pub(super) reports: UnboundedSender<Report>,
    pub(super) program: UnboundedSender<ExitStatus>,
    pub(super) alive: Sender<()>,
}

impl Channels {
    pub(super) fn new() -> (Self, Receivers) {
        let (parent, from_parent) = unbounded_channel();
        let (children, from_children) = unbounded_channel();
        let (clients, from_clients) = unbounded_channel();
        let (reports, from_tasks) = unbounded_channel();
        let (program, from_program) = unbounded_channel();
        let (alive, alive_ends) = channel(1);
        let receivers = Receivers {
            parent: from_parent,
            children: from_children,
            clients: from_clients,
            reports: from_tasks,
            program: from_program,
            alive: alive_ends,
        };
        (Self { parent, children, clients, reports, program, alive }, receivers)
    }
}

/// The initial program while it runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) process: i32,
    pub(super) own_group: bool,
    pub(super) aborted: bool,
    pub(super) since: Instant,
}

/// A broker.
pub(super) struct Broker {
    pub(super) attributes: Attributes,
    pub(super) config: Value,
    pub(super) bootstrap: Option<Bootstrap>,
    pub(super) rank: u32,
    pub(super) hosts: Vec<String>,
    pub(super) hostname: String,
    pub(super) logger: Logger,
    pub(super) program: Option<Program>,
    pub(super) quorum: usize,
    pub(super) periods: Periods,
    pub(super) environment: Environment,
    pub(super) channels: Channels,
    pub(super) deadlines: Deadlines,
    pub(super) parent: Option<Parent>,
    pub(super) children: Children,
    pub(super) manager: Manager,
    pub(super) clients: HashMap<u64, UnboundedSender<Reply>>,
    pub(super) overlay_waiters: Vec<(ClientId, String)>,
    pub(super) shutdown_client: Option<(ClientId, u8)>,
    pub(super) processes: HashMap<(u64, u32), u32>,
    pub(super) discovered: BTreeMap<u32, Vec<u32>>,
    pub(super) running: Option<Running>,
    pub(super) cleaning: bool,
    pub(super) expedite: bool,
    pub(super) quorum_warned: bool,
    pub(super) online_logged: Option<Instant>,
    pub(super) exit_code: i32,
    pub(super) restored: Option<Value>,
    pub(super) torpid_min: Duration,
    state: State,
    since: Instant,
    events: VecDeque<&'static str>,
    directories: Directories,
}

impl Broker {
    pub(super) fn new(startup: Startup, channels: Channels) -> Self {
        let children = Children::new(startup.rank, startup.hosts.len());
        Self {
            attributes: startup.attributes,
            config: startup.config,
            bootstrap: startup.bootstrap,
            rank: startup.rank,
            hosts: startup.hosts,
            hostname: startup.hostname,
            logger: startup.logger,
            program: startup.program,
            quorum: startup.quorum,
            periods: startup.periods,
            environment: startup.environment,
            channels,
            deadlines: Deadlines::default(),
            parent: None,
            children,
            manager: Manager::default(),
            clients: HashMap::new(),
            overlay_waiters: Vec::new(),
            shutdown_client: None,
            processes: HashMap::new(),
            discovered: BTreeMap::new(),
            running: None,
            cleaning: false,
            expedite: false,
            quorum_warned: false,
            online_logged: None,
            exit_code: 0,
            restored: None,
            torpid_min: Duration::from_secs(5),
            state: State::LoadBuiltins,
            since: Instant::now(),
            events: VecDeque::new(),
            directories: startup.directories,
        }
    }

    pub(super) fn is_leader(&self) -> bool {
        self.rank == 0
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Time in the present state.
    pub(super) fn in_state(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }

    /// Logs as the broker itself.
    pub(super) fn log(&mut self, severity: Severity, text: &str) {
        self.log_as("broker", severity, text);
    }

    /// Logs as a module.
    pub(super) fn log_as(&mut self, source: &str, severity: Severity, text: &str) {
        let place = self.rank.to_string();
        let line = Line { severity, source: source.to_owned(), place, text: text.to_owned() };
        self.follow_log(&line);
        if let Some(line) = self.logger.log(source, severity, text) {
            self.send_up_if_joined(&Upward::Log(line));
        }
    }

    /// Shows a line to whoever follows a shutdown.
    pub(super) fn follow_log(&mut self, line: &Line) {
        if let Some((client, level)) = self.shutdown_client
            && line.severity as u8 <= level
        {
            self.tell(client, Reply::Log(line.clone()));
        }
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
            let Some(next) = self.state.after(event) else {
                let text = format!("{event}: ignored in {}", self.state.name());
                self.log(Severity::Debug, &text);
                continue;
            };
            let spent = crate::text::duration::format(self.in_state(), 6);
            let text = format!("{event}: {}->{} {spent}", self.state.name(), next.name());
            self.log(Severity::Info, &text);
            self.state = next;
            self.since = Instant::now();
            self.enter(next);
            self.tell_children_state();
            self.check_cleanup();
        }
    }

    /// Hands over the directories, to be removed last.
    pub(super) fn take_directories(&mut self) -> Directories {
        std::mem::take(&mut self.directories)
    }
}
