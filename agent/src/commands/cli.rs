//! The command line.

use super::{
    client, doctor, fluxion, inspect, install, instance, keygen, probe, ps, resolve, serve,
    transfer, wait,
};
use crate::accounts::become_user::{self, Target};
use crate::commands::arguments::{Awaited, PodArguments, PodQuestion};
use crate::failure::{Failure, Result, ended_with};
use crate::pid1::run::{self, RunRequest};
use crate::process::panic_hook;
use crate::program::{batch, diagnose, mpi, submit};
use crate::rc;
use crate::system::limits::Limits;
use crate::system::{output, subcommand};
use crate::view::InstallRequest;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};
use flux_contract::{Exit, Layout};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

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
    #[command(hide = true)]
    Install {
        /// The directory; made if it is not there
        directory: PathBuf,
    },
    /// Handle the Flux installation of a view image
    #[command(subcommand)]
    View(ViewCommand),
    /// Run a pod: prepare, start the broker, end with the code of the user's command
    #[command(hide = true)]
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
    Plan(PodQuestion),
    /// Make a CURVE certificate
    Keygen(keygen::Keygen),
    /// Ask the running agent of this pod what it does
    Status(PodQuestion),
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
    Probe(probe::Probe),
    /// Show the processes of this container, and where they come from
    Ps(PodQuestion),
    /// Ask every name server of this pod for a name
    Resolve(resolve::Resolve),
    /// Become another program (used by `run` below `flux env`, which does not end as shells do, and where a hook has
    /// changed limits)
    #[command(name = subcommand::START, hide = true)]
    Start {
        /// Resource limits and mask to have, as `nofile=1024:4096,umask=0022`
        #[arg(long, default_value = "")]
        limits: Limits,
        /// Program and arguments
        #[arg(last = true, required = true)]
        argv: Vec<String>,
    },
    /// Become another user and then another program (used by `run`)
    #[command(name = subcommand::EXEC, hide = true)]
    Exec {
        #[command(flatten)]
        target: Target,
        /// Program and arguments
        #[arg(last = true, required = true)]
        argv: Vec<String>,
    },
    /// Submit the batch script and wait for its end (used by `run` on the lead)
    #[command(name = subcommand::BATCH, hide = true)]
    Batch(batch::Batch),
    /// Submit a command as one job, without Python, and become what follows it to its end (used by `run` on the lead)
    #[command(name = subcommand::SUBMIT, hide = true)]
    Submit(submit::Submit),
    /// Say what a job of several tasks needs because of its MPI (used by Flux's shell)
    #[command(name = subcommand::MPI, hide = true)]
    Mpi(mpi::MpiArguments),
    /// Load the broker's modules, or remove them (used by the broker as its rc1 and rc3)
    #[command(name = subcommand::RC, hide = true)]
    Rc(rc::Rc),
    /// Check everything this pod needs, and say what to do about what is wrong
    Doctor(PodQuestion),
    /// Start a shell, or a command, that is connected to this pod's broker, as the broker's user
    #[command(name = subcommand::CONNECT)]
    Connect {
        #[command(flatten)]
        pod: PodArguments,
        /// Program and arguments; a shell if not given
        #[arg(last = true, value_name = "WORDS")]
        argv: Vec<OsString>,
    },
    /// Make Fluxion the scheduler of the instance that `flux` talks to (what `load-fluxion.sh` does)
    #[command(name = subcommand::FLUXION, hide = true)]
    Fluxion,
    /// Print what Flux takes this pod to have, and what its limits let it use
    Resources(PodQuestion),
    /// Print what the instance has and does, as JSON (what `kubectl flux` shows)
    #[command(name = subcommand::INSTANCE, hide = true)]
    Instance(instance::InstanceArguments),
    /// Serve the HTTP API of this pod's instance, and its page
    #[command(name = subcommand::SERVE)]
    Serve(serve::Serve),
    /// Write a file, or a directory with all below it, to standard output as a tar stream (used by `kubectl flux cp`)
    #[command(name = subcommand::PACK, hide = true)]
    Pack {
        /// What to write
        path: PathBuf,
    },
    /// Read what `pack` writes from standard input, and write it to a path (used by `kubectl flux cp`)
    #[command(name = subcommand::UNPACK, hide = true)]
    Unpack {
        /// The new file or directory, or a directory that is there
        path: PathBuf,
        /// What it is called in a directory that is there
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
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
        question: PodQuestion,
        /// Instead, leave this process' environment and working directory in a file (used by hooks)
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
enum ViewCommand {
    /// Copy Flux from this image to the shared volume (what the view's init container does)
    Install {
        #[command(flatten)]
        request: InstallRequest,
        /// Copy this program as well: it is in the view image
        #[arg(long)]
        agent: bool,
    },
}

/// The command line as a value. A test compares the commands on the pages with it.
pub fn command_line() -> clap::Command {
    Cli::command()
}

/// Runs the command line, and returns the exit code.
pub fn main() -> ExitCode {
    panic_hook::end_at_panic(None);
    let mut argv = std::env::args_os();
    let name = argv.next().unwrap_or_default();
    let done = if Path::new(&name).file_name() == Some(Layout::CLIENT_NAME.as_ref()) {
        client::flux(&argv.collect::<Vec<_>>())
    } else {
        Cli::try_parse().map_err(|error| explain(&error)).and_then(|cli| dispatch(cli.command))
    };
    let code = done.err().map_or(0, |failure| {
        let text = failure.to_string();
        if !text.is_empty() {
            output::log_line(&text);
        }
        failure.code
    });
    ExitCode::from(output::exit_code(code))
}

/// Prints the error of the command line, or the help.
fn explain(error: &clap::Error) -> Failure {
    // There is no way to report that printing failed.
    let _ = error.print();
    let is_help = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion].contains(&error.kind());
    Failure::with_code(if is_help { 0 } else { Exit::Usage.code() }, "")
}

fn dispatch(command: Command) -> Result<()> {
    match command {
        Command::Install { directory } => install::agent(&directory),
        Command::View(ViewCommand::Install { request, agent }) => install::view(request, agent),
        Command::Run { pod, container, probe_port } => {
            let PodArguments { config, root, hostname } = pod;
            let request = RunRequest { config, root, hostname, container, probe_port };
            block_on(async { ended_with(run::run(request).await) })
        }
        Command::Plan(question) => inspect::plan(&question),
        Command::Keygen(keygen) => keygen::run(&keygen),
        Command::Status(question) => wait::status(&question),
        Command::Ready { pod, timeout } => block_on(wait::ready(&pod, timeout)),
        Command::Wait { what, pod, timeout } => block_on(wait::wait(what, &pod, timeout)),
        Command::Probe(probe) => block_on(probe::run(&probe)),
        Command::Ps(question) => ps::run(&question),
        Command::Resolve(resolve) => block_on(resolve::run(&resolve)),
        Command::Exec { target, argv } => become_user::exec(Some(&target), &argv),
        Command::Start { limits, argv } => {
            limits.set().map_err(|why| Failure::new(Exit::Prepare, why))?;
            become_user::exec(None, &argv)
        }
        Command::Batch(batch) => ended_with(batch::run(&batch)),
        Command::Submit(submit) => submit::run(&submit),
        Command::Mpi(arguments) => {
            mpi::run(&arguments);
            Ok(())
        }
        Command::Rc(rc) => block_on(rc::run(&rc)),
        Command::Doctor(question) => block_on(doctor::run(&question)),
        Command::Connect { pod, argv } => client::connect(&pod, &argv),
        Command::Fluxion => fluxion::run(),
        Command::Resources(question) => inspect::resources(&question),
        Command::Instance(arguments) => block_on(instance::run(&arguments)),
        Command::Serve(serve) => serve::run(&serve),
        Command::Pack { path } => transfer::pack(&path),
        Command::Unpack { path, name } => transfer::unpack(path, name),
        Command::Diagnose { flux } => block_on(async { ended_with(diagnose::run(&flux).await) }),
        Command::Env { to: Some(file), .. } => inspect::write_environment(&file),
        Command::Env { to: None, question } => inspect::environment(&question),
    }
}

/// Threads for blocking system calls are kept for ever: in a pod at its limit of processes no other thread can be started,
/// and tokio panics without one.
const THREAD_KEEP_ALIVE: Duration = Duration::from_hours(24 * 365);

/// Runs `work` on this thread. Does not wait for threads that are blocked at the end.
fn block_on(work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .build();
    let failed = |error| Failure::because(Exit::Internal, "start the runtime", &error);
    let runtime = runtime.map_err(failed)?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
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
    fn command_lines_of_the_operator_are_valid() {
        let layout = Layout::default();
        for argv in [
            invocation::install(),
            invocation::install_view("/mnt/flux"),
            invocation::install_both("/mnt/flux"),
            invocation::run(&layout, Install::Copy),
            invocation::run_sidecar(&layout, Install::Image, "proxy"),
        ] {
            assert!(Cli::try_parse_from(&argv).is_ok(), "{argv:?}");
        }
    }

    #[test]
    fn the_command_line_of_a_target_is_valid() {
        for (groups, capabilities) in [(vec![], vec![]), (vec![1, 2], vec!["IPC_LOCK".to_owned()])]
        {
            let expected = Target { uid: 1, gid: 2, groups, capabilities };
            let own = ["true".to_owned(), "-x".to_owned()];
            let cli = Cli::try_parse_from(expected.command(Path::new("/agent"), &own)).unwrap();
            let Command::Exec { target, argv } = cli.command else { panic!("another command") };
            assert_eq!((target, argv.as_slice()), (expected, own.as_slice()));
        }
    }

    #[test]
    fn arguments_of_a_program_are_passed_on() {
        let argv = ["/agent", subcommand::START, "--", "a", "--uid", "-x"];
        let cli = Cli::try_parse_from(argv).unwrap();
        let Command::Start { argv, .. } = cli.command else { panic!("another command") };
        assert_eq!(argv, ["a", "--uid", "-x"]);
    }
}
