//! The initial program while it runs.

use std::process::ExitStatus;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;

use super::core::{Broker, News, Running};
use super::log::Severity;
use super::program;
use crate::front;
use crate::jobs::task::exit_code;

impl Broker {
    /// Starts the initial program.
    pub(super) fn start_program(&mut self, words: &[String]) {
        let uri = self.setup.attributes.get("local-uri").unwrap_or_default();
        let environment = program::environment(&self.setup.environment, uri);
        let Some((name, arguments)) = words.split_first() else { return };
        let found = front::find_program(front::path(&environment), name);
        let mut command = Command::new(found.unwrap_or_else(|| "/nonexistent/program".to_owned()));
        command.args(arguments).env_clear().envs(&environment);
        // A broker that leads its process group shares it.
        let own_group = nix::unistd::getpgrp() != nix::unistd::getpid();
        if own_group {
            command.process_group(0);
        }
        match command.spawn() {
            Err(error) => {
                let code = if error.raw_os_error() == Some(nix::libc::ENOENT) { 127 } else { 126 };
                let (shown, reason) = (program::shown(words), crate::failure::strerror(&error));
                let text = format!("rc2.0: {shown} error launching process: {reason} (rc={code})");
                self.log(Severity::Error, &text);
                self.fail_with(code);
                self.post("rc2-fail");
            }
            Ok(mut child) => {
                let process = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
                let since = Instant::now();
                self.running = Some(Running { process, own_group, aborted: false, since });
                let sender = self.channels.news.clone();
                tokio::spawn(async move {
                    if let Ok(status) = child.wait().await {
                        let _ = sender.send(News::ProgramEnded(status));
                    }
                });
            }
        }
    }

    /// The initial program has ended.
    pub(super) fn program_ended(&mut self, status: ExitStatus) {
        let Some(running) = self.running.take() else { return };
        let mut code = exit_code(status);
        if running.aborted && code == 0 {
            self.log(Severity::Error, "rc2.0: aborted after exit with rc=0");
            code = 1;
        }
        let severity = if code == 0 { Severity::Info } else { Severity::Error };
        let shown = self.setup.program.as_deref().map(program::shown).unwrap_or_default();
        let seconds = running.since.elapsed().as_secs_f64();
        self.log(severity, &format!("rc2.0: {shown} Exited (rc={code}) {seconds:.1}s"));
        self.fail_with(code);
        self.post(if code == 0 { "rc2-success" } else { "rc2-fail" });
    }

    /// Ends the run: the program gets SIGHUP, or there is none.
    pub(super) fn abort_run(&mut self) {
        match &mut self.running {
            None if self.setup.program.is_none() => self.post("shutdown"),
            None => {}
            Some(running) => {
                running.aborted = true;
                let target = if running.own_group { -running.process } else { running.process };
                // A program that has just ended cannot be signalled.
                let _ = kill(Pid::from_raw(target), Signal::SIGHUP);
            }
        }
    }
}
