//! `submit` and `attach`: submit a job to a running instance, and follow its output.

use super::suspend::resume_idle;
use crate::exec::{self, Streams};
use crate::exit::INTERRUPTED;
use crate::prelude::*;
use crate::rank_pod::RankPod;
use crate::retry::repeated;

#[derive(Debug, Args)]
pub(crate) struct Submit {
    #[command(flatten)]
    name: NameArgument,
    /// Follow the output of the job, and end with the job's exit code
    #[arg(long, short)]
    watch: bool,
    /// Options of `flux submit`, e.g. `-N2 --ntasks=4`, then `--`, program and arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "[FLUX OPTIONS] -- COMMAND"
    )]
    argv: Vec<String>,
}

/// The options of `flux submit`, and the command. Without options, clap has already removed the `--` between them.
fn parts(argv: &[String]) -> (&[String], &[String]) {
    if argv.first().is_some_and(|word| !word.starts_with('-')) {
        return (&[], argv);
    }
    match argv.iter().position(|word| word == "--") {
        Some(at) => (&argv[..at], &argv[at + 1..]),
        // Flux itself finds the end of its options.
        None => (argv, &[]),
    }
}

/// The arguments of `flux`. No `--` stands before the command: before flux-core 0.66 it would be the program
/// (`src/bindings/python/flux/cli/base.py`), and the first word that is no option begins the command in any release.
fn flux_argv(argv: &[String]) -> Vec<&str> {
    let (options, command) = parts(argv);
    let options = options.iter().map(String::as_str).filter(|option| *option != "--watch");
    std::iter::once("submit").chain(options).chain(command.iter().map(String::as_str)).collect()
}

impl Submit {
    /// Whether to follow the job. Our own `--watch` may stand among the options of Flux.
    pub(crate) fn watches(&self) -> bool {
        self.watch || parts(&self.argv).0.iter().any(|option| option == "--watch")
    }

    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let target = self.name.target(connection);
        let namespace = &target.connection.namespace;
        ensure!(
            namespace.parse::<u32>().is_err(),
            "`-n {namespace}` right after the name is the namespace: write the number of tasks as `-n{namespace}`"
        );
        resume_idle(&target).await?;
        let lead = RankPod::lead(target).await?;
        let submitted = lead.flux(&flux_argv(&self.argv)).await;
        let submitted = submitted.with_context(|| format!("submit a job to {}", self.name.name))?;
        if !self.watches() {
            print(&submitted);
            return Ok(ExitCode::SUCCESS);
        }
        // With `--cc` there are several jobs.
        let mut worst = 0;
        for id in submitted.split_whitespace() {
            print_stderr(&format!("{id} submitted"));
            worst = worst.max(follow(&lead, id).await?);
        }
        Ok(ExitCode::from(worst))
    }
}

#[derive(Debug, Args)]
pub(crate) struct Attach {
    #[command(flatten)]
    name: NameArgument,
    /// Id of the job, as `jobs` lists it
    job: String,
}

impl Attach {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let lead = self.name.lead(connection).await?;
        follow(&lead, &self.job).await.map(ExitCode::from)
    }
}

pub(crate) async fn follow(lead: &RankPod, job: &str) -> Result<u8> {
    tokio::select! {
        code = print_output(lead, job) => code,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("wait for an interrupt")?;
            let name = &lead.target.name;
            print_stderr(&format!(
                "job {job} is still running: `kubectl flux attach {name} {job}` follows it again, \
                 `kubectl flux cancel {name} {job}` cancels it"
            ));
            Ok(INTERRUPTED)
        }
    }
}

/// Prints the output of a job over as many connections as it takes: Flux sends the whole output to each of them.
async fn print_output(lead: &RankPod, job: &str) -> Result<u8> {
    // With --read-only Flux reads no input and passes no signals to the job.
    let argv = [lead.flux.as_str(), "job", "attach", "--read-only", job];
    let (streams, mut printed) = (Streams::default(), Default::default());
    let connect =
        async || exec::share(&lead.target, &lead.name, &argv, streams, &mut printed).await;
    repeated(u32::MAX, "connecting again", connect).await
}

#[cfg(test)]
mod tests {
    use super::{flux_argv, parts};
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    fn submit(argv: &str) -> super::Submit {
        let argv = format!("kubectl-flux submit {argv}");
        let cli = Cli::try_parse_from(argv.split_whitespace()).unwrap();
        let Command::Submit(submit) = cli.command else { panic!("another command") };
        submit
    }

    #[test]
    fn flux_options_and_command_follow_the_name() {
        let given = submit("hello -N2 --ntasks 4 -n4 --watch -- sh -c true --watch");
        let (options, command) = parts(&given.argv);
        assert_eq!(options.join(" "), "-N2 --ntasks 4 -n4 --watch");
        assert_eq!((command.join(" ").as_str(), given.watches()), ("sh -c true --watch", true));
        let submitted = "submit -N2 --ntasks 4 -n4 sh -c true --watch";
        assert_eq!(flux_argv(&given.argv).join(" "), submitted);
        let given = submit("--watch hello -- sh -n -- x");
        assert_eq!(parts(&given.argv).1.join(" "), "sh -n -- x");
        assert!(given.watches());
        let given = submit("hello -n lab -- sh --watch");
        assert_eq!(
            (parts(&given.argv).1.join(" ").as_str(), given.watches()),
            ("sh --watch", false)
        );
        let given = submit("hello -N2 hostname");
        assert_eq!(parts(&given.argv), (&["-N2".to_owned(), "hostname".to_owned()][..], &[][..]));
        assert!(Cli::try_parse_from(["kubectl-flux", "submit", "hello"]).is_err());
    }
}
