//! What is carried from step to step: what is known of this pod, the environment, and who the broker runs as.

use crate::accounts::become_user::Target;
use crate::failure::{Failure, failed};
use crate::plan::facts::Facts;
use crate::plan::grace_period::Budget;
use crate::plan::step::Owner;
use crate::process::children::Children;
use crate::process::signals::Signals;
use crate::status::progress::Progress;
use crate::system::environment::{Change, Environment, Report};
use crate::system::limits::Limits;
use crate::system::output::Log;
use crate::system::root::Root;
use crate::system::subcommand::{START, call, own_program};
use flux_contract::AgentConfig;
use flux_protocol::CurveCertificate;
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::{env, fs};
use tokio::process::Command;

pub(crate) struct Context {
    pub config: AgentConfig,
    /// Where the configuration was read, which may change while the run goes on.
    pub config_path: PathBuf,
    pub facts: Facts,
    pub root: Root,
    pub log: Log,
    pub report_file: PathBuf,
    pub signals: Signals,
    pub budget: Budget,
    pub children: Children,
    pub progress: Progress,
    pub session: Session,
    /// Code that the run ends with, set before its last steps are done.
    pub exit_code: i32,
    /// Ids of the jobs that ran on this rank when its broker had to be ended.
    pub unfinished_jobs: Vec<String>,
}

impl Context {
    /// Says what has failed, in the log and in the status, and goes on.
    pub(crate) fn failed(&self, text: &str) {
        self.log.error(text);
        self.progress.failed(text);
    }

    /// The same for what need not be an error.
    pub(crate) fn warned(&self, text: &str) {
        self.log.warn(text);
        self.progress.failed(text);
    }

    /// uid and gid that a file of `owner` is given; `None` when it is ours as it is.
    pub(crate) fn ids(&self, owner: Owner) -> Option<(u32, u32)> {
        let user = self.session.identity.as_ref()?.user.as_ref()?;
        (owner == Owner::Broker).then_some((user.uid, user.gid))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub name: String,
    pub home: PathBuf,
    /// Whom processes become; `None` when this is the agent's own user.
    pub user: Option<Target>,
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
    /// `HOME` as the container was started with.
    first_home: Option<OsString>,
    /// The limits of this process, and those that hooks have left.
    limits: [Limits; 2],
}

impl Session {
    pub(crate) fn new(start: Report) -> Self {
        Self {
            first_home: start.environment.get(OsStr::new("HOME")).cloned(),
            environment: start.environment,
            limits: [start.limits.clone(), start.limits],
            working_directory: start.working_directory,
            identity: None,
            certificate: None,
            lead: None,
        }
    }

    pub(crate) fn take(&mut self, report: Report) {
        self.environment = report.environment;
        self.working_directory = report.working_directory;
        self.limits[1] = report.limits;
    }

    pub(crate) fn change(&mut self, changes: &[Change]) {
        for change in changes {
            change.apply(&mut self.environment);
        }
    }

    /// Comes before a start: of a working directory that is missing the kernel says what it says of a missing program.
    pub(crate) fn check_working_directory(&self) -> Result<(), Failure> {
        let directory = &self.working_directory;
        let enter = || fs::metadata(directory.join(".")).map(drop);
        let entered = if self.is_own_directory() { Ok(()) } else { enter() };
        entered.map_err(failed("enter the working directory", directory))
    }

    /// Whether the working directory is that of this process. What it starts is there already, also where root may not
    /// enter: the container runtime has done so before it took root's capabilities.
    fn is_own_directory(&self) -> bool {
        env::current_dir().is_ok_and(|own| own == self.working_directory)
    }

    /// `words` as a command of the container's own user. The limits that a hook has changed are set by the agent, as what
    /// then becomes that command: they are not for PID 1.
    pub(crate) fn command(&self, words: &[String]) -> Command {
        let [of_agent, left] = &self.limits;
        let changed = left.other_than(of_agent);
        let mut words = words.to_vec();
        if !changed.is_empty() {
            // While a thread of PID 1 is another user, the kernel hides the agent's file from other processes; from a
            // process itself it never does.
            if let Some(agent) = words.first_mut().filter(|word| Path::new(word) == own_program()) {
                "/proc/self/exe".clone_into(agent);
            }
            let limits = [format!("--limits={changed}"), "--".to_owned()];
            words = [&call(&own_program(), START), &limits[..], &words].concat();
        }
        let mut command = Command::new(words.first().map_or("", String::as_str));
        command.args(words.iter().skip(1)).env_clear().envs(&self.environment);
        if !self.is_own_directory() {
            command.current_dir(&self.working_directory);
        }
        command
    }

    /// `words` as a command of the broker's user, with that user's `HOME`, `USER` and `LOGNAME`
    /// (a `HOME` that a hook chose stays).
    pub(crate) fn broker_command(&self, words: &[String]) -> Command {
        let Some(identity) = &self.identity else { return self.command(words) };
        let mut command = match &identity.user {
            Some(user) => self.command(&user.command(&own_program(), words)),
            None => self.command(words),
        };
        if self.environment.get(OsStr::new("HOME")) == self.first_home.as_ref() {
            command.env("HOME", &identity.home);
        }
        command.env("USER", &identity.name).env("LOGNAME", &identity.name);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn another_user_is_reached_through_the_agents_own_exec_with_the_home_that_a_hook_chose_or_its_own()
     {
        let environment = Environment::from([("HOME".into(), "/root".into())]);
        let start =
            Report { working_directory: "/".into(), limits: Limits::default(), environment };
        let mut session = Session::new(start);
        let user = Target { uid: 1000, gid: 1001, groups: vec![1001, 4], capabilities: vec![] };
        let (name, home) = ("flux".to_owned(), "/home/flux".into());
        session.identity = Some(Identity { name, home, user: Some(user) });
        let words = ["flux", "start"].map(str::to_owned);
        let home = |command: &Command| {
            let variables: BTreeMap<_, _> = command.as_std().get_envs().collect();
            variables[OsStr::new("HOME")].map(OsStr::to_owned)
        };
        let command = session.broker_command(&words);
        assert_eq!(command.as_std().get_program(), own_program());
        assert_eq!(
            command.as_std().get_args().collect::<Vec<_>>(),
            ["exec", "--uid=1000", "--gid=1001", "--groups=1001,4", "--", "flux", "start"]
        );
        assert_eq!(home(&command).unwrap(), "/home/flux");
        session.limits[1] = "nofile=2:2".parse().unwrap();
        let limited = session.broker_command(&words);
        let first: Vec<_> = limited.as_std().get_args().take(4).collect();
        assert_eq!(first[..3], ["start", "--limits=nofile=2:2", "--"]);
        assert_eq!(first[3], "/proc/self/exe");
        session.environment.insert("HOME".into(), "/scratch".into());
        assert_eq!(home(&session.broker_command(&words)).unwrap(), "/scratch");
    }
}
