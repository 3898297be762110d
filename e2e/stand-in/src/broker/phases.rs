//! What is done on entry to each state, and what signals and the program's end lead to.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::core::Broker;
use super::deadlines::Deadline;
use super::directories::Directories;
use super::log::Severity;
use super::notify;
use super::state::State;
use crate::jobs::job::Exception;
use crate::overlay::wire::Upward;
use crate::text::idset;

/// What Flux 0.88 runs in cleanup, as its log shows it.
const CLEANUP: [&str; 4] = [
    "flux queue stop --quiet --all --nocheckpoint",
    "flux resource acquire-mute",
    "flux cancel --user=all --quiet --states RUN",
    "flux queue idle --quiet",
];
/// How often the log of a broker that waits for its quorum says who is there.
const ONLINE_PERIOD: Duration = Duration::from_secs(5);

impl Broker {
    /// Starts what belongs to a state.
    pub(super) fn enter(&mut self, state: State) {
        match state {
            State::LoadBuiltins => {}
            State::Join => self.enter_join(),
            State::ConfigSync => {
                self.notify("Fetching configuration update from parent");
                if self.is_leader() {
                    self.post("sync-none");
                } else {
                    self.send_up(&Upward::ConfigWanted);
                }
            }
            State::Init => self.enter_init(),
            State::Quorum => self.enter_quorum(),
            State::Run => self.enter_run(),
            State::Cleanup => self.enter_cleanup(),
            State::Shutdown => self.enter_shutdown(),
            State::Finalize => self.enter_finalize(),
            State::Goodbye => {
                if self.is_leader() {
                    self.finish_shutdown_client();
                    self.post("goodbye");
                } else {
                    self.take_leave();
                }
            }
            State::UnloadBuiltins => self.post("builtins-done"),
            State::Exit => self.notify("Exiting"),
        }
    }

    /// Reports to the service manager, if `broker.sd-notify` asks for it.
    pub(super) fn notify(&self, status: &str) {
        self.notify_raw(&format!("STATUS={status}"));
    }

    fn notify_raw(&self, text: &str) {
        let wanted = self.attributes.get("broker.sd-notify").is_some_and(|value| value != "0");
        if let Some(socket) = self.environment.get("NOTIFY_SOCKET").filter(|_| wanted) {
            notify::send(socket, text);
        }
    }

    fn enter_join(&mut self) {
        if self.is_leader() {
            self.post("parent-none");
        } else {
            let uri = self.attributes.get("tbon.parent-endpoint").unwrap_or("?");
            self.notify(&format!("Joining Flux instance via {uri}"));
            self.look_at_parent();
        }
        self.notify_raw("READY=1");
        self.deadlines.set(super::family::HEARTBEAT, Deadline::Heartbeat);
    }

    /// The leader's configuration has come.
    pub(super) fn configured(&mut self, config: serde_json::Value) {
        if self.state() == State::ConfigSync {
            self.config = config;
            self.post("sync-success");
        }
    }

    fn enter_init(&mut self) {
        let started = Instant::now();
        let result = self.run_rc1();
        let seconds = started.elapsed().as_secs_f64();
        let code = result.err().unwrap_or(0);
        let severity = if code == 0 { Severity::Info } else { Severity::Error };
        let text = format!("rc1.0: flux modprobe rc1 Exited (rc={code}) {seconds:.1}s");
        self.log(severity, &text);
        if code == 0 {
            self.post("rc1-success");
        } else {
            self.exit_code = self.norestart_or(code);
            self.post("rc1-fail");
        }
    }

    /// The exit code that `broker.exit-norestart` puts in place of another one.
    pub(super) fn norestart_or(&self, code: i32) -> i32 {
        let given = self.attributes.get("broker.exit-norestart");
        given.and_then(|text| text.parse().ok()).filter(|code| *code >= 1).unwrap_or(code)
    }

    fn enter_quorum(&mut self) {
        self.notify("Waiting for instance quorum");
        let (cores, drain) = self.own_hardware();
        if !self.is_leader() {
            self.send_up(&Upward::Online { cores, drain });
            self.look_at_parent();
            return;
        }
        if let Some(period) = self.periods.quorum_warn {
            self.deadlines.set(period, Deadline::QuorumWarning);
        }
        self.came_online(0, cores, drain);
    }

    /// Whether enough brokers are online.
    pub(super) fn check_quorum(&mut self) {
        let online: Vec<u32> = self.manager.online.iter().copied().collect();
        let reached = online.len() >= self.quorum;
        let recently = self.online_logged.is_some_and(|at| at.elapsed() <= ONLINE_PERIOD);
        if self.state() != State::Quorum || (recently && !reached) {
            return;
        }
        self.online_logged = Some(Instant::now());
        let hosts: Vec<String> = online.iter().map(|rank| self.host(*rank)).collect();
        let hosts = crate::resources::compress(&hosts);
        let text = format!("online: {hosts} (ranks {})", idset::encode(online));
        self.log(Severity::Info, &text);
        if !reached {
            return;
        }
        self.post("quorum-full");
        if std::mem::take(&mut self.quorum_warned) {
            self.log(Severity::Error, "quorum reached");
        }
    }

    fn warn_of_quorum(&mut self) {
        if self.state() != State::Quorum {
            return;
        }
        let absent: Vec<u32> = (0..)
            .take(self.hosts.len())
            .filter(|rank| !self.manager.online.contains(rank))
            .collect();
        let hosts: Vec<String> = absent.iter().map(|rank| self.host(*rank)).collect();
        let hosts = crate::resources::compress(&hosts);
        let ranks = idset::encode(absent);
        let text = format!("quorum delayed: waiting for {hosts} (rank {ranks})");
        self.log(Severity::Error, &text);
        self.quorum_warned = true;
        if let Some(period) = self.periods.quorum_warn {
            self.deadlines.set(period, Deadline::QuorumWarning);
        }
    }

    fn enter_run(&mut self) {
        let role = if self.is_leader() { "leader" } else { "member" };
        self.notify(&format!("Running as {role} of {} node Flux instance", self.hosts.len()));
        if !self.is_leader() {
            self.look_at_parent();
        } else if let Some(program) = self.program.clone() {
            self.start_program(&program);
        }
    }

    /// A signal to the broker.
    pub(super) fn signalled(&mut self, number: i32) {
        self.log(Severity::Info, &format!("signal {number}"));
        let for_jobs = number == nix::libc::SIGUSR1 || number == nix::libc::SIGUSR2;
        if for_jobs && self.is_leader() {
            let effects = self.manager.signal_all(number);
            self.carry_out(effects);
            return;
        }
        self.expedite = true;
        match self.state() {
            State::Join => self.post("parent-fail"),
            State::ConfigSync => self.post("sync-fail"),
            State::Quorum => self.post("quorum-fail"),
            State::Run => self.abort_run(),
            State::Cleanup => self.abort_cleanup(),
            // rc1 and rc3 take no time here.
            State::Init | State::Finalize => {}
            state @ (State::LoadBuiltins
            | State::Shutdown
            | State::Goodbye
            | State::UnloadBuiltins
            | State::Exit) => {
                let text = format!("ignored signal {number} in {}", state.name());
                self.log(Severity::Info, &text);
            }
        }
    }

    fn enter_cleanup(&mut self) {
        self.children.spurn = true;
        if !self.is_leader() || self.environment.contains_key("FLUX_DISABLE_JOB_CLEANUP") {
            self.post("cleanup-none");
            return;
        }
        self.cleaning = true;
        self.manager.stopped = true;
        if let Some(limit) = self.periods.cleanup_timeout.filter(|_| self.expedite) {
            self.deadlines.set(limit, Deadline::CleanupTimeout);
        }
        for id in self.manager.active(None) {
            if self.manager.jobs.get(&id).is_some_and(|job| job.started.is_some()) {
                let note = "instance is shutting down".to_owned();
                let effects = self.manager.raise(id, Exception { kind: "cancel", note });
                self.carry_out(effects);
            }
        }
    }

    /// Cleanup is over when no job runs any more.
    pub(super) fn check_cleanup(&mut self) {
        let running = || {
            let started =
                |job: &&crate::jobs::job::Job| job.state == crate::jobs::job::JobState::Running;
            self.manager.jobs.values().any(|job| started(&job))
        };
        if self.state() == State::Cleanup && self.cleaning && !running() {
            self.cleaning = false;
            for (index, command) in (0..).zip(CLEANUP) {
                self.log(Severity::Info, &format!("cleanup.{index}: {command} Exited (rc=0) 0.0s"));
            }
            self.post("cleanup-success");
        }
    }

    fn abort_cleanup(&mut self) {
        if std::mem::take(&mut self.cleaning) {
            let text = "cleanup.3: flux queue idle --quiet Hangup (rc=129) 0.0s";
            self.log(Severity::Error, text);
            self.fail_with(129);
            self.post("cleanup-fail");
        }
    }

    fn enter_shutdown(&mut self) {
        self.notify("Waiting for overlay peers to shutdown");
        self.children.spurn = true;
        if let Some(period) = self.periods.shutdown_warn {
            self.deadlines.set(period, Deadline::ShutdownWarning);
        }
        if let Some(limit) = self.periods.shutdown_timeout.filter(|_| self.is_leader()) {
            self.deadlines.set(limit, Deadline::ShutdownTimeout);
        }
        if self.children.online() == 0 {
            self.post("children-none");
        }
    }

    fn warn_of_shutdown(&mut self) {
        if self.state() != State::Shutdown {
            return;
        }
        let online: Vec<u32> = self
            .children
            .known
            .iter()
            .filter(|(_, child)| child.is_online())
            .map(|(rank, _)| *rank)
            .collect();
        let hosts: Vec<String> = online.iter().map(|rank| self.host(*rank)).collect();
        let hosts = crate::resources::compress(&hosts);
        let count = online.len();
        let ranks = idset::encode(online);
        let text = format!("shutdown delayed: waiting for {count} peers: {hosts} (rank {ranks})");
        self.log(Severity::Error, &text);
        if let Some(period) = self.periods.shutdown_warn {
            self.deadlines.set(period, Deadline::ShutdownWarning);
        }
    }

    fn enter_finalize(&mut self) {
        let mut code = 0;
        if let Err(error) = self.run_rc3() {
            self.log(Severity::Error, &format!("rc3.0: {error}"));
            code = 1;
        }
        self.log(Severity::Info, &format!("rc3.0: flux modprobe rc3 Exited (rc={code}) 0.0s"));
        self.fail_with(code);
        self.post(if code == 0 { "rc3-success" } else { "rc3-fail" });
    }

    /// When something falls due next.
    pub(super) fn next_deadline(&self) -> tokio::time::Instant {
        self.deadlines.next()
    }

    /// Does what is due.
    pub(super) fn deadline(&mut self) {
        for deadline in self.deadlines.due() {
            match deadline {
                Deadline::Heartbeat => self.heartbeat(),
                Deadline::QuorumWarning => self.warn_of_quorum(),
                Deadline::ShutdownWarning => self.warn_of_shutdown(),
                Deadline::ShutdownTimeout if self.state() == State::Shutdown => {
                    self.log(Severity::Error, "shutdown timeout");
                    self.post("children-complete");
                }
                Deadline::CleanupTimeout if self.state() == State::Cleanup => self.abort_cleanup(),
                Deadline::GoodbyeTimeout if self.state() == State::Goodbye => {
                    self.log(Severity::Error, "goodbye timeout after 60.0s");
                    self.post("goodbye");
                }
                Deadline::ShutdownTimeout | Deadline::CleanupTimeout | Deadline::GoodbyeTimeout => {
                }
                Deadline::JobLimit(id) => {
                    let note = "resource allocation expired".to_owned();
                    let effects = self.manager.raise(id, Exception { kind: "timeout", note });
                    self.carry_out(effects);
                }
                Deadline::JobKill(id) => {
                    let effects = self.manager.kill(id);
                    self.carry_out(effects);
                }
            }
        }
    }

    /// Lets go of everything; returns the exit code and the directories to be removed last.
    pub(super) fn end(mut self) -> (u8, Directories) {
        // A broker that leads its process group takes the group with it.
        if nix::unistd::getpgrp() == nix::unistd::getpid() {
            let _ = kill(Pid::from_raw(0), Signal::SIGHUP);
        }
        let uri = self.attributes.get("local-uri").unwrap_or_default();
        if let Some(path) = uri.strip_prefix("local://") {
            // Others may have removed it already.
            drop(std::fs::remove_file(path));
        }
        (u8::try_from(self.exit_code).unwrap_or(1), self.take_directories())
    }
}
