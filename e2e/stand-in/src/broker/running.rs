//! The initial program while it runs.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;

use super::core::{Broker, Running};
use super::log::Severity;
use super::program;
use crate::jobs::task::exit_code;

impl Broker {
    /// Starts the initial program.
    pub(super) fn start_program(&mut self, program: &program::Program) {
        let uri = self.attributes.get("local-uri").unwrap_or_default().to_owned();
        self.notify(&format!("Running {}", program.shown()));
        let shares = nix::unistd::getpgrp() == nix::unistd::getpid()
            && !self.attributes.exists("broker.rc2_pgrp");
        let own_group = !shares && !program.interactive;
        let environment = program::environment(&self.environment, &uri);
        let Some((name, arguments)) = program.words.split_first() else { return };
        let path = environment.get("PATH").map_or("/bin:/usr/bin", String::as_str);
        let found = if name.contains('/') {
            Some(name.clone())
        } else {
            crate::front::search_path(path, name)
        };
        let mut command = Command::new(found.unwrap_or_else(|| "/nonexistent/program".to_owned()));
        command.args(arguments).env_clear().envs(&environment);
        if own_group {
            command.process_group(0);
        }
        match command.spawn() {
            Err(error) => {
                let code = if error.raw_os_error() == Some(nix::libc::ENOENT) { 127 } else { 126 };
                let reason = crate::failure::strerror(&error);
                let text = format!(
                    "rc2.0: {} error launching process: {reason} (rc={code}) 0.0s",
                    program.shown()
                );
                self.log(Severity::Error, &text);
                self.fail_with(code);
                self.post("rc2-fail");
            }
            Ok(mut child) => {
                let process = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
                let since = Instant::now();
                self.running = Some(Running { process, own_group, aborted: false, since });
                let sender = self.channels.program.clone();
                tokio::spawn(async move {
                    if let Ok(status) = child.wait().await {
                        let _ = sender.send(status);
                    }
                });
            }
        }
    }

    /// The initial program has ended.
    pub(super) fn program_ended(&mut self, status: ExitStatus) {
        let Some(running) = self.running.take() else { return };
        let mut code = exit_code(status);
        let mut how =
            status.signal().map_or_else(|| "Exited".to_owned(), crate::text::signal::describe);
        if running.aborted && code == 0 {
            code = 1;
            "aborted after exit with rc=0".clone_into(&mut how);
        }
        let severity = if code == 0 { Severity::Info } else { Severity::Error };
        let shown = self.program.as_ref().map(program::Program::shown).unwrap_or_default();
        let seconds = running.since.elapsed().as_secs_f64();
        self.log(severity, &format!("rc2.0: {shown} {how} (rc={code}) {seconds:.1}s"));
        self.fail_with(code);
        self.post(if code == 0 { "rc2-success" } else { "rc2-fail" });
    }

    /// Ends the run: the program gets SIGHUP, or there is none.
    pub(super) fn abort_run(&mut self) {
        match &mut self.running {
            None if self.program.is_none() => self.post("shutdown"),
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
