//! What is carried from step to step: environment, working directory, and who the broker runs as.

use crate::accounts::become_user::Target;
use crate::execute::error::{StepError, failed};
use crate::system::environment::{Change, Environment, Report};
use flux_contract::CurveCertificate;
use nix::unistd::{AccessFlags, access};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tokio::process::Command;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// For setgroups(2): the primary group and the supplementary ones.
    pub groups: Vec<u32>,
    pub capabilities: Vec<String>,
    pub home: PathBuf,
    /// True when this is another user than the agent's own: processes go through `exec`.
    pub switch: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub environment: Environment,
    pub working_directory: PathBuf,
    /// Who the broker runs as; until that is decided, nobody else than the agent.
    pub identity: Option<Identity>,
    pub certificate: Option<CurveCertificate>,
    /// Where the lead was found for which the broker is configured.
    pub lead: Option<IpAddr>,
    /// This program. The container's own user runs it, so it must not be what jobs can replace.
    agent: PathBuf,
    /// `HOME` as the container was started with.
    first_home: Option<OsString>,
}

impl Session {
    pub(crate) fn new(agent: PathBuf, start: Report) -> Self {
        Self {
            first_home: start.environment.get(&OsString::from("HOME")).cloned(),
            environment: start.environment,
            working_directory: start.working_directory,
            identity: None,
            certificate: None,
            lead: None,
            agent,
        }
    }

    pub(crate) fn agent(&self) -> &Path {
        &self.agent
    }

    pub(crate) fn take(&mut self, report: Report) {
        self.environment = report.environment;
        self.working_directory = report.working_directory;
    }

    pub(crate) fn change(&mut self, changes: &[Change]) {
        for change in changes {
            change.apply(&mut self.environment);
        }
    }

    /// Why nothing can be started, if that is so: of a working directory that is missing the kernel says
    /// what it says of a missing program.
    pub(crate) fn check_working_directory(&self) -> Result<(), StepError> {
        let entered = access(&self.working_directory, AccessFlags::X_OK);
        let failed = failed("enter the working directory", &self.working_directory);
        entered.map_err(|errno| failed(errno.into()))
    }

    /// `words` as a command of the container's own user.
    pub(crate) fn command(&self, words: &[String]) -> Command {
        let (program, arguments) =
            words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(&self.environment)
            .current_dir(&self.working_directory);
        command
    }

    /// `words` as a command of the broker's user, with that user's `HOME`, `USER` and `LOGNAME`
    /// (a `HOME` that a hook chose stays).
    pub(crate) fn broker_command(&self, words: &[String]) -> Command {
        let Some(identity) = &self.identity else { return self.command(words) };
        let words = if identity.switch { self.switching(identity, words) } else { words.to_vec() };
        let mut command = self.command(&words);
        if self.environment.get(&OsString::from("HOME")) == self.first_home.as_ref() {
            command.env("HOME", &identity.home);
        }
        command.env("USER", &identity.name).env("LOGNAME", &identity.name);
        command
    }

    /// The re-execution of this program that changes the user and becomes `words`.
    fn switching(&self, identity: &Identity, words: &[String]) -> Vec<String> {
        let Identity { uid, gid, groups, capabilities, .. } = identity.clone();
        Target { uid, gid, groups, capabilities }.command(&self.agent, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_user_is_reached_through_the_agents_own_exec_with_the_home_that_a_hook_chose_or_its_own()
     {
        let environment = Environment::from([("HOME".into(), "/root".into())]);
        let start = Report { working_directory: "/".into(), environment };
        let mut session = Session::new("/agent".into(), start);
        session.identity = Some(Identity {
            name: "flux".to_owned(),
            uid: 1000,
            gid: 1001,
            groups: vec![1001, 4],
            capabilities: vec![],
            home: "/home/flux".into(),
            switch: true,
        });
        let words = ["flux", "start"].map(str::to_owned);
        let home = |command: &Command| {
            let mut variables = command.as_std().get_envs();
            variables
                .find(|(name, _)| *name == "HOME")
                .and_then(|(_, value)| value.map(OsString::from))
        };
        let command = session.broker_command(&words);
        assert_eq!(command.as_std().get_program(), "/agent");
        assert_eq!(
            command.as_std().get_args().collect::<Vec<_>>(),
            ["exec", "--uid=1000", "--gid=1001", "--groups=1001,4", "--", "flux", "start"]
        );
        assert_eq!(home(&command).unwrap(), "/home/flux");
        session.environment.insert("HOME".into(), "/scratch".into());
        assert_eq!(home(&session.broker_command(&words)).unwrap(), "/scratch");
    }
}
