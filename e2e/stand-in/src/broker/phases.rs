//! What is done on entry to each state, and what signals and the program's end lead to.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::core::{Broker, Deadline};
use super::directories::Directories;
use super::log::Severity;
use super::state::State;
use crate::jobs::job::{Exception, JobState};
use crate::overlay::wire::Upward;
use crate::text::idset;

impl Broker {
    /// Starts what belongs to a state.
    pub(super) fn enter(&mut self, state: State) {
        match state {
            State::LoadBuiltins | State::Exit => {}
            State::Join if self.is_leader() => self.post("parent-none"),
            State::Join => self.look_at_parent(),
            State::ConfigSync if self.is_leader() => self.post("sync-none"),
            State::ConfigSync => self.send_up(&Upward::ConfigWanted),
            State::Init => self.enter_init(),
            State::Quorum => self.enter_quorum(),
            State::Run => self.enter_run(),
            State::Cleanup => self.enter_cleanup(),
            State::Shutdown => self.enter_shutdown(),
            State::Finalize => self.enter_finalize(),
            State::Goodbye if self.is_leader() => self.post("goodbye"),
            State::Goodbye => self.take_leave(),
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

    fn enter_quorum(&mut self) {
        let drained = self.drains_itself();
        if self.is_leader() {
            self.came_online(0, drained);
        } else {
            self.send_up(&Upward::Online { drained });
            self.look_at_parent();
        }
    }

    /// Whether enough brokers are online.
    pub(super) fn check_quorum(&mut self) {
        let online: Vec<u32> = self.manager.online.iter().copied().collect();
        if self.state() != State::Quorum || online.len() < self.setup.quorum {
            return;
        }
        let hosts: Vec<String> = online.iter().map(|rank| self.host(*rank)).collect();
        let hosts = crate::resources::compress(&hosts);
        self.log(Severity::Info, &format!("online: {hosts} (ranks {})", idset::encode(online)));
        self.post("quorum-full");
    }

    fn enter_run(&mut self) {
        if !self.is_leader() {
            self.look_at_parent();
        } else if let Some(program) = self.setup.program.clone() {
            self.start_program(&program);
        }
    }

    /// A signal to the broker.
    pub(super) fn signalled(&mut self, number: i32) {
        self.log(Severity::Info, &format!("signal {number}"));
        self.expedite = true;
        // rc1 and rc3 take no time here, and the other states have nothing to abort.
        let events = [
            (State::Join, "parent-fail"),
            (State::ConfigSync, "sync-fail"),
            (State::Quorum, "quorum-fail"),
        ];
        if let Some((_, event)) = events.iter().find(|(state, _)| *state == self.state()) {
            self.post(event);
        }
        if self.state() == State::Run {
            self.abort_run();
        }
        self.abort_cleanup();
    }

    fn enter_cleanup(&mut self) {
        self.children.spurn = true;
        if !self.has_cleanup {
            self.post("cleanup-none");
            return;
        }
        self.cleaning = true;
        self.manager.stopped = true;
        if let Some(limit) = self.setup.limits.cleanup.filter(|_| self.expedite) {
            self.later(limit, Deadline::Cleanup);
        }
        for id in self.manager.running() {
            let note = "instance is shutting down".to_owned();
            let effects = self.manager.raise(id, Exception { kind: "cancel", note });
            self.carry_out(effects);
        }
    }

    /// Cleanup is over when no job runs any more.
    pub(super) fn check_cleanup(&mut self) {
        let running = self.manager.jobs.values().any(|job| job.state == JobState::Running);
        if self.state() == State::Cleanup && self.cleaning && !running {
            self.cleaning = false;
            self.post("cleanup-success");
        }
    }

    fn abort_cleanup(&mut self) {
        if std::mem::take(&mut self.cleaning) {
            let text = "cleanup.3: flux queue idle --quiet Hangup (rc=129)";
            self.log(Severity::Error, text);
            self.fail_with(129);
            self.post("cleanup-fail");
        }
    }

    fn enter_shutdown(&mut self) {
        self.children.spurn = true;
        if let Some(limit) = self.setup.limits.shutdown.filter(|_| self.is_leader()) {
            self.later(limit, Deadline::Shutdown);
        }
        if self.children.online.is_empty() {
            self.post("children-none");
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

    /// Does what is due.
    pub(super) fn deadline(&mut self, deadline: Deadline) {
        match (deadline, self.state()) {
            (Deadline::Shutdown, State::Shutdown) => {
                self.log(Severity::Error, "shutdown timeout");
                self.post("children-complete");
            }
            (Deadline::Cleanup, State::Cleanup) => self.abort_cleanup(),
            (Deadline::Goodbye, State::Goodbye) => {
                self.log(Severity::Error, "goodbye timeout");
                self.post("goodbye");
            }
            (Deadline::JobKill(id), _) => {
                let effects = self.manager.kill(id, Signal::SIGKILL as i32);
                self.carry_out(effects);
            }
            (Deadline::Shutdown | Deadline::Cleanup | Deadline::Goodbye, _) => {}
        }
    }

    /// Lets go of everything; returns the exit code and the directories to be removed last.
    pub(super) fn end(self) -> (u8, Directories) {
        // A broker that leads its process group takes the group with it.
        if nix::unistd::getpgrp() == nix::unistd::getpid() {
            let _ = kill(Pid::from_raw(0), Signal::SIGHUP);
        }
        // Others may have removed it already.
        drop(std::fs::remove_file(&self.setup.socket));
        (u8::try_from(self.exit_code).unwrap_or(1), self.setup.directories)
    }
}
