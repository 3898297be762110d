//! The command line.

use crate::accounts::become_user::{self, Target};
use crate::commands::arguments::{Awaited, OutputArgument, PodArguments};
use crate::commands::error::{CommandError, report};
use crate::commands::{client, doctor, fluxion, inspect, install, keygen, probe, wait};
use crate::flux::resources::memory_limit;
use crate::pid1::run;
use crate::program::{batch, diagnose};
use crate::system::output;
use crate::system::root::Root;
use crate::system::subcommand;
use crate::view::InstallRequest;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};
use flux_contract::{Exit, INSTALL_MOUNT, Layout};
use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// First process of every pod of a MiniCluster, and tools for people who enter one.
#[derive(Debug, Parser)]
#[command(name = "flux-agent", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copy this program into a directory (what the agent image's init container does)
    Install {
        /// The directory; made if it is not there
        directory: PathBuf,
    },
    /// Handle the Flux installation of a view image
    View {
        #[command(subcommand)]
        command: ViewCommand,
    },
    /// Run a pod: prepare, start the broker, end with the code of the user's command
    Run {
        #[command(flatten)]
        pod: PodArguments,
        /// Run this sidecar of the configuration instead of the broker
        #[arg(long, value_name = "NAME")]
        container: Option<String>,
        /// Port at which the kubelet asks whether the pod is ready
        #[arg(long, hide = true, value_name = "PORT")]
        probe_port: Option<u16>,
    },
    /// Print what `run` would do in this pod, and change nothing
    Plan {
        #[command(flatten)]
        pod: PodArguments,
        #[command(flatten)]
        output: OutputArgument,
    },
    /// Make a CURVE certificate
    Keygen {
        /// Where to write it, mode 0600; standard output if not given
        path: Option<PathBuf>,
        /// Name in its metadata
        #[arg(long, default_value = "flux")]
        name: String,
        /// Replace an existing file
        #[arg(long)]
        force: bool,
    },
    /// Ask the running agent of this pod what it does
    Status {
        #[command(flatten)]
        pod: PodArguments,
        #[command(flatten)]
        output: OutputArgument,
    },
    /// End with 0 if this pod is ready, with 1 if not
    Ready {
        #[command(flatten)]
        pod: PodArguments,
        /// How long it may take to become ready, in seconds
        #[arg(long, default_value_t = 0, value_name = "SECONDS")]
        timeout: u64,
    },
    /// Wait for something and end with 0 when it is there
    Wait {
        /// What to wait for
        #[arg(value_enum)]
        what: Awaited,
        #[command(flatten)]
        pod: PodArguments,
        /// How long, in seconds
        #[arg(long, default_value_t = 600, value_name = "SECONDS")]
        timeout: u64,
    },
    /// Ask a broker's port whether it would let this pod in
    Probe {
        #[command(flatten)]
        pod: PodArguments,
        /// Host name or address and port; that of the lead if not given
        #[arg(value_name = "HOST:PORT")]
        target: Option<String>,
        /// The certificate; that of this pod if not given
        #[arg(long, value_name = "PATH")]
        certificate: Option<PathBuf>,
        /// How long, in seconds
        #[arg(long, default_value_t = 5, value_name = "SECONDS")]
        timeout: u64,
        #[command(flatten)]
        output: OutputArgument,
    },
    /// Become another program (used by `run` below `flux env`, which does not end as shells do)
    #[command(name = subcommand::START, hide = true)]
    Start {
        /// Program and arguments
        #[arg(last = true, required = true)]
        words: Vec<String>,
    },
    /// Become another user and then another program (used by `run`)
    #[command(name = subcommand::EXEC, hide = true)]
    Exec {
        #[command(flatten)]
        target: Target,
        /// Program and arguments
        #[arg(last = true, required = true)]
        words: Vec<String>,
    },
    /// Submit the batch script and wait for its end (used by `run` on the lead)
    #[command(name = subcommand::BATCH, hide = true)]
    Batch(batch::Batch),
    /// Check everything this pod needs, and say what to do about what is wrong
    Doctor {
        #[command(flatten)]
        pod: PodArguments,
        #[command(flatten)]
        output: OutputArgument,
    },
    /// Start a shell, or a command, that is connected to this pod's broker, as the broker's user
    #[command(name = subcommand::CONNECT)]
    Connect {
        #[command(flatten)]
        pod: PodArguments,
        /// Program and arguments; a shell if not given
        #[arg(last = true)]
        words: Vec<OsString>,
    },
    /// Make Fluxion the scheduler of the instance that `flux` talks to (what `load-fluxion.sh` does)
    #[command(name = subcommand::FLUXION, hide = true)]
    Fluxion,
    /// Print what Flux takes this pod to have, and what its limits let it use
    Resources {
        #[command(flatten)]
        pod: PodArguments,
        #[command(flatten)]
        output: OutputArgument,
    },
    /// Say how the instance stands, then keep it up (used by `run` where `diagnostics` is set)
    #[command(name = subcommand::DIAGNOSE, hide = true)]
    Diagnose {
        /// The `flux` program
        #[arg(long, default_value = "flux", value_name = "PATH")]
        flux: String,
    },
    /// Print the changes that put Flux into a shell's environment: `eval "$(flux-agent env)"`
    #[command(name = subcommand::ENV)]
    Env {
        #[command(flatten)]
        pod: PodArguments,
        #[command(flatten)]
        output: OutputArgument,
        /// Instead, leave this process' environment and working directory in a file (used by hooks)
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
enum ViewCommand {
    /// Copy Flux from this image to the shared volume (what the view's init container does)
    Install {
        /// Where the shared volume is mounted now
        #[arg(long, default_value = INSTALL_MOUNT, value_name = "PATH")]
        destination: PathBuf,
        /// Where it will be mounted in the pod's other containers
        #[arg(long, default_value = Layout::DEFAULT_MOUNT, value_name = "PATH")]
        mount_path: PathBuf,
        /// Prefix of the Flux installation, instead of looking for it
        #[arg(long, value_name = "PATH")]
        source: Option<PathBuf>,
        /// Copy this program as well: it is in the view image
        #[arg(long)]
        agent: bool,
        /// Root of the view image
        #[arg(long, default_value = "/", hide = true)]
        root: PathBuf,
    },
}

/// The command line as a value: what pages say to type is checked against it.
pub fn command_line() -> clap::Command {
    Cli::command()
}

/// Reads the command line, does what it says, and returns the code to end with.
pub fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    if Path::new(&name).file_name() == Some(Layout::CLIENT_NAME.as_ref()) {
        return ExitCode::from(report(Err(client::flux(&words.collect::<Vec<_>>()))));
    }
    match Cli::try_parse() {
        Ok(cli) => ExitCode::from(output::exit_code(dispatch(cli.command))),
        Err(error) => {
            // Nothing is to be done where even this cannot be printed.
            let _ = error.print();
            let asked = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion].contains(&error.kind());
            ExitCode::from(if asked { 0 } else { Exit::Usage.code() })
        }
    }
}

fn dispatch(command: Command) -> u8 {
    match command {
        Command::Install { directory } => report(install::agent(&directory)),
        Command::View {
            command: ViewCommand::Install { destination, mount_path, source, agent, root },
        } => {
            let memory_limit = memory_limit(&Root::new("/"));
            let request = InstallRequest { root, destination, mount_path, source, memory_limit };
            report(install::view(&request, agent))
        }
        Command::Run { pod, container, probe_port } => {
            let options = run::Options {
                config: pod.config,
                root: Root::new(pod.root),
                hostname: pod.hostname,
                container,
                probe_port,
            };
            block_on(run::run(options))
        }
        Command::Plan { pod, output } => report(inspect::plan(&pod, output)),
        Command::Keygen { path, name, force } => report(keygen::run(path.as_deref(), &name, force)),
        Command::Status { pod, output } => report_async(wait::status(&pod, output)),
        Command::Ready { pod, timeout } => report_async(wait::ready(&pod, timeout)),
        Command::Wait { what, pod, timeout } => report_async(wait::wait(what, &pod, timeout)),
        Command::Probe { pod, target, certificate, timeout, output } => {
            report_async(probe::run(&pod, target.as_deref(), certificate, timeout, output))
        }
        Command::Exec { target, words } => report(exec(Some(&target), &words)),
        Command::Start { words } => report(exec(None, &words)),
        Command::Batch(batch) => batch::run(&batch),
        Command::Doctor { pod, output } => report_async(doctor::run(&pod, output)),
        Command::Connect { pod, words } => report(client::connect(&pod, &words)),
        Command::Fluxion => report(fluxion::run()),
        Command::Resources { pod, output } => report(inspect::resources(&pod, output)),
        Command::Diagnose { flux } => block_on(diagnose::run(&flux)),
        Command::Env { to: Some(file), pod: _, output: _ } => {
            report(inspect::write_environment(&file))
        }
        Command::Env { to: None, pod, output } => report(inspect::environment(&pod, output)),
    }
}

/// Becomes `target`, if there is one, and then `words`; returns only when that failed.
fn exec(target: Option<&Target>, words: &[String]) -> Result<(), CommandError> {
    let error = become_user::exec(target, words);
    Err(CommandError::with_message(error.code(), error.text()))
}

fn report_async(work: impl Future<Output = Result<(), CommandError>>) -> u8 {
    block_on(async { report(work.await) })
}

/// Runs `work` on this thread alone, and gives the code to end with. Threads that still wait for a lock do not hold
/// up the end.
fn block_on(work: impl Future<Output = u8>) -> u8 {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            output::log_line(&format!("start the runtime: {error}"));
            Exit::Internal.code()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flux_contract::{Install, invocation};

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_the_operator_writes_into_containers_is_understood() {
        let layout = Layout::default();
        for words in [
            invocation::install(),
            invocation::install_view("/mnt/flux"),
            invocation::install_both("/mnt/flux"),
            invocation::run(&layout, Install::Copy),
            invocation::run_sidecar(&layout, Install::Image, "proxy"),
        ] {
            assert!(Cli::try_parse_from(&words).is_ok(), "{words:?}");
        }
    }

    #[test]
    fn becoming_another_user_is_understood() {
        for (groups, capabilities) in [(vec![], vec![]), (vec![1, 2], vec!["IPC_LOCK".to_owned()])]
        {
            let expected = Target { uid: 1, gid: 2, groups, capabilities };
            let words =
                expected.command(Path::new("/agent"), &["true".to_owned(), "-x".to_owned()]);
            let cli = Cli::try_parse_from(words).unwrap();
            let Command::Exec { target, words } = cli.command else { panic!("another command") };
            assert_eq!(target, expected);
            assert_eq!(words, ["true", "-x"]);
        }
    }

    #[test]
    fn the_words_of_a_program_are_left_alone() {
        let own = ["--", "a", "--uid", "-x"].map(str::to_owned);
        let words = [subcommand::call(Path::new("/agent"), subcommand::START), own.into()];
        let cli = Cli::try_parse_from(words.concat()).unwrap();
        let Command::Start { words } = cli.command else { panic!("another command") };
        assert_eq!(words, ["a", "--uid", "-x"]);
    }
}
