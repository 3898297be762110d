//! What processes of a run inherit: environment, working directory, limits, and the user of the broker.

use crate::accounts::become_user::Target;
use crate::system::environment::{Change, Environment, Report};
use crate::system::limits::Limits;
use crate::system::subcommand::{START, call, own_program};
use flux_protocol::CurveCertificate;
use std::env;
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tokio::process::Command;

#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub name: String,
    pub home: PathBuf,
    /// The user that processes become; `None` when it is the agent's own.
    pub user: Option<Target>,
}

#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub environment: Environment,
    pub working_directory: PathBuf,
    /// The user of the broker; until that is decided, the agent's own.
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

    pub(crate) fn apply(&mut self, report: Report) {
        self.environment = report.environment;
        self.working_directory = report.working_directory;
        self.limits[1] = report.limits;
    }

    pub(crate) fn change(&mut self, changes: &[Change]) {
        for change in changes {
            change.apply(&mut self.environment);
        }
    }

    /// Whether the working directory is that of this process. A child is there already, also where root may not enter: the
    /// container runtime has entered before it took root's capabilities.
    pub(crate) fn is_own_directory(&self) -> bool {
        env::current_dir().is_ok_and(|own| own == self.working_directory)
    }

    /// `argv` as a command of the container's own user. The limits that a hook has changed are not for PID 1: another
    /// process of the agent sets them, and becomes the command.
    pub(crate) fn command(&self, argv: &[String]) -> Command {
        let [of_agent, of_hooks] = &self.limits;
        let changed = of_hooks.other_than(of_agent);
        let mut argv = argv.to_vec();
        if !changed.is_empty() {
            // While a thread of PID 1 is another user, the kernel hides the agent's file from other processes; from a
            // process itself it never does.
            if let Some(agent) = argv.first_mut().filter(|word| Path::new(word) == own_program()) {
                "/proc/self/exe".clone_into(agent);
            }
            let limits = [format!("--limits={changed}"), "--".to_owned()];
            argv = [&call(&own_program(), START), &limits[..], &argv].concat();
        }
        let mut command = Command::new(argv.first().map_or("", String::as_str));
        command.args(argv.iter().skip(1)).env_clear().envs(&self.environment);
        if !self.is_own_directory() {
            command.current_dir(&self.working_directory);
        }
        command
    }

    /// `argv` as a command of the broker's user, with that user's `HOME`, `USER` and `LOGNAME` (a `HOME` that a hook chose
    /// stays).
    pub(crate) fn broker_command(&self, argv: &[String]) -> Command {
        let Some(identity) = &self.identity else { return self.command(argv) };
        let mut command = match &identity.user {
            Some(user) => self.command(&user.command(&own_program(), argv)),
            None => self.command(argv),
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
    fn a_command_of_another_user_goes_through_exec() {
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
