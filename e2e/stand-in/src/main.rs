//! A stand-in for Flux, for tests where real Flux cannot be had. It is no resource manager.
//!
//! Installed as `PREFIX/bin/flux` it refuses the same arguments and files of operator and agent as Flux 0.88, or an older release, forms its
//! overlay over real connections with CURVE, and runs real programs. It ends with 64 for everything that it does not
//! simulate.

mod broker;
mod client;
mod config;
mod environment;
mod jobs;
mod options;
mod output;
mod overlay;
mod protocol;
mod release;
mod resources;
mod text;

use client::{Call, jobs as listing, simple, submit};
use output::Failure;
use release::Feature;
use std::process::ExitCode;

/// A command, whether it is simulated in the script of a batch job as well, and what it does.
type Command = (&'static str, bool, fn(&Call) -> Result<u8, Failure>);

const COMMANDS: [Command; 18] = [
    ("batch", false, submit::batch),
    ("broker", false, broker::run),
    ("env", true, simple::env),
    ("getattr", false, simple::attribute),
    ("job attach", true, submit::attach),
    ("job status", true, listing::status),
    ("job submit", true, submit::submit_jobspec),
    ("job taskmap", false, listing::taskmap),
    ("job wait", true, listing::wait),
    ("jobs", true, listing::jobs),
    ("proxy", true, simple::proxy),
    ("queue idle", true, simple::idle),
    ("resource list", false, simple::list),
    ("run", true, submit::run),
    ("shutdown", false, simple::shutdown),
    ("start", false, simple::start),
    ("submit", true, submit::submit),
    ("version", true, simple::version),
];

fn main() -> ExitCode {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let called_as = words.next().unwrap_or_else(|| "flux".to_owned());
    match dispatch(&called_as, &words.collect::<Vec<_>>()) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if !failure.message.is_empty() {
                output::error_line(&failure.message);
            }
            ExitCode::from(failure.code)
        }
    }
}

fn dispatch(called_as: &str, words: &[String]) -> Result<u8, Failure> {
    let program = called_as.rsplit('/').next().unwrap_or_default();
    if program == "flux-job" && words.first().is_none_or(|word| word != "job") {
        return dispatch(called_as, &[&["job".to_owned()], words].concat());
    }
    if !["flux", "flux-job", "flux-stand-in"].contains(&program) {
        return Err(Failure::not_simulated(&format!("the program {program}")));
    }
    let Some(first) = words.first() else {
        return Err(Failure::new("Usage: flux [OPTIONS] COMMAND ARGS"));
    };
    if program == "flux-stand-in" && first == "--release" {
        return release::copy(words);
    }
    let is_older = !release::has(Feature::Submissions);
    if is_older && ["batch", "run", "submit"].contains(&first.as_str()) {
        let text = format!("flux: `{first}' is not a flux command.  See 'flux --help'");
        return Err(Failure::new(text));
    }
    let words = if is_older && first == "mini" { &words[1..] } else { words };
    if first.contains('/') {
        return Err(simple::program(&environment::of_this_process(called_as), words));
    }
    let begins = |name: &str| {
        name.split(' ').enumerate().all(|(at, it)| words.get(at).is_some_and(|word| word == it))
    };
    let command = COMMANDS.iter().find(|(name, _, _)| begins(name));
    let (name, in_batch, run) = command.ok_or_else(|| Failure::not_simulated(first))?;
    let call = Call {
        name,
        words: words[name.split(' ').count()..].to_vec(),
        environment: environment::of_this_process(called_as),
    };
    if !in_batch && call.scope().is_some() {
        return Err(Failure::not_simulated(&format!("{name} inside a batch job")));
    }
    run(&call)
}
