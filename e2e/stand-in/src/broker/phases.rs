//! Actions on entry to each state, and on signals and deadlines. rc1 and rc3 have no scripts: they are the checks that the
//! scripts would make, and the errors of the modules that they load.

use super::core::{Broker, Severity};
use super::local;
use super::state::State;
use crate::environment::rc1_fault;
use crate::jobs::task::Order;
use crate::output::{Failure, strerror};
use crate::overlay::wire::Upward;
use crate::overlay::{accept, bind, keep_connected, load_certificate};
use crate::release::{Feature, has, release};
use std::path::Path;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;

impl Broker {
    /// Starts the parts, and with them the state machine.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        self.log(Severity::Info, "this is the flux stand-in, not real Flux");
        self.choose_topology()?;
        match self.start_parts() {
            Ok(()) => self.post("builtins-success"),
            Err((module, text)) => {
                self.log_as(module, Severity::Error, &text);
                let text = format!("error loading builtins: {module} is unexpectedly finalizing");
                self.log(Severity::Error, &text);
                self.exit_code = 1;
                self.post("builtins-fail");
            }
        }
        self.settle();
        // The socket's and the overlay's tasks start before the first event is waited for.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Accepts the schemes that put every rank directly under rank 0.
    fn choose_topology(&mut self) -> Result<(), Failure> {
        let size = self.hosts.len();
        let scheme = self.attributes.entry("tbon.topo".to_owned());
        let scheme = scheme.or_insert_with(|| "custom".to_owned());
        let width = scheme.strip_prefix("kary:").and_then(|width| width.parse().ok());
        if scheme == "custom" || width.is_some_and(|width: usize| width >= size - 1) {
            return Ok(());
        }
        if scheme.starts_with("mincrit") && !has(Feature::Mincrit) {
            return Err(Failure::new("unknown topology scheme 'mincrit'"));
        }
        Err(Failure::not_simulated(&format!("tbon.topo={scheme} of {size} brokers")))
    }

    /// The error is the module that does not start, and its words.
    fn start_parts(&mut self) -> Result<(), (&'static str, String)> {
        let listener = local::bind(&self.socket).map_err(|error| {
            ("connector-local", format!("bind {}: {}", self.socket, strerror(&error)))
        })?;
        let allow_root_owner = self.config.access.allow_root_owner;
        let door = local::Door { allow_root_owner, rank: self.rank, mailbox: self.mailbox.clone() };
        tokio::spawn(local::accept(listener, door));
        if self.hosts.len() == 1 {
            return Ok(());
        }
        self.join_overlay().map_err(|text| ("overlay", text))
    }

    fn join_overlay(&mut self) -> Result<(), String> {
        let bootstrap = &self.config.bootstrap;
        let path = bootstrap.curve_cert.as_deref().unwrap_or_default();
        let keys = load_certificate(path)
            .map_err(|error| format!("Error loading certificate: {error}"))?;
        let lead = bootstrap.hosts.first().ok_or("no hosts")?;
        let (key, uri) =
            if self.is_leader() { ("bind", &lead.bind) } else { ("connect", &lead.connect) };
        let uri = uri.clone().ok_or_else(|| format!("{key} URI is undefined for rank 0"))?;
        if self.is_leader() {
            let listener = bind(&uri, bootstrap.enable_ipv6).and_then(|listener| {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)
            });
            let listener = listener
                .map_err(|error| format!("error binding to {uri}: {}", strerror(&error)))?;
            tokio::spawn(accept(listener, keys, self.mailbox.clone()));
            return Ok(());
        }
        let (sender, outgoing) = unbounded_channel();
        let how = (keys, bootstrap.enable_ipv6, self.connect_limit);
        tokio::spawn(keep_connected(uri, how, outgoing, self.mailbox.clone()));
        self.uplink = Some(sender);
        let release = release().to_owned();
        self.send_up(&Upward::Hello(self.rank, self.host(self.rank), release));
        Ok(())
    }

    pub(super) fn enter(&mut self, state: State) {
        match state {
            State::LoadBuiltins | State::Exit => {}
            State::Join if self.is_leader() => self.post("parent-none"),
            State::Join | State::Run => self.look_at_parent(),
            State::ConfigSync if self.is_leader() => self.post("sync-none"),
            State::ConfigSync => self.post("sync-success"),
            State::Init => self.enter_init(),
            State::Quorum => self.enter_quorum(),
            State::Cleanup => self.enter_cleanup(),
            State::Shutdown => self.enter_shutdown(),
            State::Finalize => self.enter_finalize(),
            State::Goodbye if self.is_joined() => self.send_up(&Upward::Goodbye),
            State::Goodbye => self.post("goodbye"),
            State::UnloadBuiltins => self.post("builtins-done"),
        }
    }

    fn enter_init(&mut self) {
        let code = self.run_rc1().err().unwrap_or(0);
        let severity = if code == 0 { Severity::Info } else { Severity::Error };
        self.log(severity, &format!("rc1.0: flux modprobe rc1 Exited (rc={code})"));
        self.fail_with(code);
        self.post(if code == 0 { "rc1-success" } else { "rc1-fail" });
    }

    fn run_rc1(&mut self) -> Result<(), i32> {
        if let Some((code, text)) = rc1_fault(&self.environment, self.is_leader()) {
            self.log(Severity::Error, text);
            return Err(code);
        }
        let disabled = self.environment.contains_key("FLUX_DISABLE_JOB_CLEANUP");
        self.has_cleanup = self.is_leader() && !disabled;
        let resources = self.config.resource.read(&self.hosts).map_err(|text| {
            self.log_as("resource", Severity::Error, &text);
            self.log_as("resource", Severity::Critical, "module exiting abnormally");
            1
        })?;
        (self.manager.cores, self.manager.excluded) = resources;
        let path = self.attributes.get("content.restore");
        if let Some(path) = path.filter(|path| self.is_leader() && Path::new(path).exists()) {
            self.log(Severity::Info, &format!("rc1.0: restoring content from {path}"));
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let dump = serde_json::from_str(&text).map_err(|error| {
                let text = format!("rc1.0: {path}: not a dump of the stand-in: {error}");
                self.log(Severity::Error, &text);
                1
            })?;
            self.manager.restore(dump);
        }
        Ok(())
    }

    fn enter_quorum(&mut self) {
        if self.is_leader() {
            let mailbox = self.mailbox.clone();
            let orders = move |order| mailbox.report(|broker| broker.obey(order));
            self.came_online(0, Box::new(orders));
        } else {
            self.send_up(&Upward::Online);
            self.look_at_parent();
        }
    }

    /// A broker has finished rc1, and gets its `orders` so.
    pub(super) fn came_online(&mut self, rank: u32, orders: Box<dyn Fn(Order)>) {
        self.manager.online.insert(rank, orders);
        if self.state == State::Quorum && self.manager.online.len() >= self.quorum {
            self.post("quorum-full");
        }
    }

    pub(super) fn went_offline(&mut self, rank: u32) {
        if self.manager.online.remove(&rank).is_none() {
            return;
        }
        if matches!(self.state, State::Run | State::Cleanup) {
            let text = format!("dead to Flux: {} (rank {rank})", self.host(rank));
            self.log(Severity::Error, &text);
        }
        self.manager.lost(rank);
    }

    pub(super) fn signalled(&mut self, number: i32) {
        self.log(Severity::Info, &format!("signal {number}"));
        // rc1 and rc3 take no time here, and the other states have nothing to abort.
        let aborted = [
            (State::Join, "parent-fail"),
            (State::Quorum, "quorum-fail"),
            (State::Run, "shutdown"),
        ];
        if let Some((_, event)) = aborted.iter().find(|(state, _)| *state == self.state) {
            self.post(event);
        }
        self.abort_cleanup();
    }

    fn enter_cleanup(&mut self) {
        if !self.has_cleanup {
            self.post("cleanup-none");
            return;
        }
        self.manager.stopped = true;
        if let Some(limit) = self.cleanup_limit {
            self.later(limit, Self::abort_cleanup);
        }
        for id in self.manager.running() {
            self.manager.raise(id, "cancel", "instance is shutting down");
        }
    }

    fn is_cleaning(&self) -> bool {
        self.state == State::Cleanup && self.has_cleanup
    }

    /// Cleanup is over when no job runs any more.
    pub(super) fn check_cleanup(&mut self) {
        if self.is_cleaning() && self.manager.running().is_empty() {
            self.post("cleanup-success");
        }
    }

    fn abort_cleanup(&mut self) {
        if self.is_cleaning() {
            self.log(Severity::Error, "cleanup.3: flux queue idle --quiet Hangup (rc=129)");
            self.fail_with(129);
            self.post("cleanup-fail");
        }
    }

    fn enter_shutdown(&mut self) {
        if let Some(limit) = self.shutdown_limit.filter(|_| self.is_leader()) {
            self.later(limit, Self::shutdown_timeout);
        }
        if self.children.is_empty() {
            self.post("children-none");
        }
    }

    fn shutdown_timeout(&mut self) {
        if self.state == State::Shutdown {
            self.log(Severity::Error, "shutdown timeout");
            self.post("children-complete");
        }
    }

    fn enter_finalize(&mut self) {
        let result = self.run_rc3();
        if let Err(error) = &result {
            self.log(Severity::Error, &format!("rc3.0: {error}"));
            self.fail_with(1);
        }
        self.post(if result.is_ok() { "rc3-success" } else { "rc3-fail" });
    }

    fn run_rc3(&self) -> Result<(), String> {
        if !self.is_leader() && !self.is_joined() {
            return Err("Upstream Flux broker is offline. Try again later.".to_owned());
        }
        let path = self.attributes.get("content.dump").filter(|_| self.is_leader());
        let Some(path) = path else { return Ok(()) };
        // A batch job's own instance keeps nothing.
        let jobs: Vec<_> = self.manager.of(None).collect();
        let text = serde_json::to_string(&jobs).map_err(|error| error.to_string())?;
        std::fs::write(path, text).map_err(|error| format!("{path}: {}", strerror(&error)))?;
        self.log(Severity::Info, &format!("rc3.0: dumping content to {path}"));
        Ok(())
    }

    /// Closes everything; returns the exit code and the directories to be removed last.
    pub(super) fn end(self) -> (u8, Vec<TempDir>) {
        // Others may have removed it already.
        drop(std::fs::remove_file(&self.socket));
        (u8::try_from(self.exit_code).unwrap_or(1), self.directories)
    }
}
