//! `flux-agent submit`: submits a command as one job and becomes `flux job attach`, as `flux run` does, but without Python.
//! The front end `flux` starts it, so that it has the environment of `flux run`. If the job might differ from the one of
//! `flux run` in any byte, it becomes `flux run`.

use crate::accounts::become_user::become_command;
use crate::failure::{Failure, Result, ended_with};
use crate::plan::workload::NO_VALIDATOR;
use crate::process::exit_status::{exit_code, start_failure_code};
use crate::system::environment::find_program;
use crate::system::files::is_executable;
use crate::system::limits::soft;
use crate::system::output::log_line;
use clap::{Args, value_parser};
use flux_protocol::jobspec::{
    Counts, LIMITS, Slot, Variables, flux_run_environment, jobspec, obstacle,
};
use nix::unistd::execve;
use serde_json::Value;
use std::collections::BTreeMap;
use std::env;
use std::ffi::{CString, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FLUX_JOB: &str = "flux-job";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct Submit {
    /// The `flux` program
    #[arg(long, value_name = "PATH")]
    flux: PathBuf,
    /// Nodes; alone, whole nodes with a task each
    #[arg(short = 'N', value_name = "N", value_parser = value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Tasks
    #[arg(short = 'n', value_name = "N", value_parser = value_parser!(u32).range(1..))]
    tasks: Option<u32>,
    /// Program and arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// A job, and the program and environment that submit it.
struct Prepared {
    flux_job: PathBuf,
    environment: Variables,
    jobspec: Value,
}

/// Submits the job and becomes `flux job attach`. Returns only after a failure.
pub(crate) fn run(submit: &Submit) -> Result<()> {
    let Prepared { flux_job, environment, jobspec } = match prepare(submit) {
        Ok(prepared) => prepared,
        Err(why) => {
            log_line(&format!("the job is submitted by flux run: {why}"));
            return become_flux_run(submit);
        }
    };
    let failed = |error: io::Error| {
        let message = format!("run {} submit: {error}", flux_job.display());
        Failure::with_code(start_failure_code(&error), message)
    };
    let mut submitting = Command::new(&flux_job)
        .args(["submit", NO_VALIDATOR])
        .env_clear()
        .envs(&environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = submitting.stdin.take() {
        // If the program has ended before it read everything, it has printed the reason.
        let _ = input.write_all(jobspec.to_string().as_bytes());
    }
    let submitted = submitting.wait_with_output().map_err(failed)?;
    if !submitted.status.success() {
        return ended_with(u8::try_from(exit_code(submitted.status)).unwrap_or(u8::MAX));
    }
    let job = String::from_utf8_lossy(&submitted.stdout);
    let error = become_attach(&flux_job, job.trim(), &environment);
    let message = format!("start {} attach: {error}", flux_job.display());
    Err(Failure::with_code(start_failure_code(&error), message))
}

/// Prepares the job as `flux run` would. The error is why the job might differ.
fn prepare(submit: &Submit) -> Result<Prepared, String> {
    let text = |text: OsString| {
        text.into_string().map_err(|text| format!("{} is not UTF-8", text.to_string_lossy()))
    };
    let variables = env::vars_os().map(|(name, value)| Ok((text(name)?, text(value)?)));
    let environment: Variables = variables.collect::<Result<_, String>>()?;
    obstacle(&environment).map_or(Ok(()), Err)?;
    // `flux run` searches this path, too.
    let exec_path = environment.get("FLUX_EXEC_PATH").ok_or("FLUX_EXEC_PATH is not set")?;
    let search = [("PATH".into(), exec_path.into())].into();
    let flux_job = find_program(&search, FLUX_JOB, is_executable)
        .ok_or_else(|| format!("there is no {FLUX_JOB} in {exec_path}"))?;
    let directory = env::current_dir().map_err(|error| format!("the directory: {error}"))?;
    let directory = text(directory.into_os_string())?;
    let environment = flux_run_environment(environment);
    let counts = Counts { nodes: submit.nodes, tasks: submit.tasks };
    let jobspec =
        jobspec(counts, Slot::ONE_CORE, &submit.command, &directory, &environment, &limits());
    Ok(Prepared { flux_job, environment, jobspec })
}

/// The soft limits as Python writes them: -1 for no limit.
pub(crate) fn limits() -> BTreeMap<&'static str, i64> {
    LIMITS.into_iter().map(|name| (name, soft(name).map_or(-1, u64::cast_signed))).collect()
}

fn become_flux_run(submit: &Submit) -> Result<()> {
    let option = |name, count: Option<u32>| count.map(|count| format!("-{name}{count}"));
    let mut command = Command::new(&submit.flux);
    command.args(["run", NO_VALIDATOR]);
    command.args(option("N", submit.nodes)).args(option("n", submit.tasks));
    become_command(command.args(&submit.command))
}

/// Becomes `flux job attach`. Returns only after a failure. It uses execve(2) because the standard library would reset
/// SIGPIPE, which Python and this program ignore: a closed log must not end a job.
fn become_attach(flux_job: &Path, job: &str, environment: &Variables) -> io::Error {
    let text = |text: &[u8]| CString::new(text).map_err(io::Error::from);
    let exec = || {
        let argv = [FLUX_JOB, "attach", job].map(|argument| text(argument.as_bytes()));
        let argv = argv.into_iter().collect::<io::Result<Vec<_>>>()?;
        let variables = environment.iter().map(|(name, value)| format!("{name}={value}"));
        let variables =
            variables.map(|variable| text(variable.as_bytes())).collect::<io::Result<Vec<_>>>()?;
        let program = text(flux_job.as_os_str().as_bytes())?;
        execve(&program, &argv, &variables).map_err(io::Error::from)
    };
    match exec() {
        Ok(never) => match never {},
        Err(error) => error,
    }
}
