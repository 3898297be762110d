//! A stand-in for Flux, for tests where real Flux cannot be had. It is no resource manager.
//!
//! Installed as `PREFIX/bin/flux` it refuses what Flux 0.88 refuses of what the operator and the agent
//! give it, forms its overlay over real connections with CURVE, and runs real programs. What it does
//! not simulate it refuses with exit code 64.

mod broker;
mod certificate;
mod client;
mod config;
mod failure;
mod front;
mod jobs;
mod options;
mod output;
mod overlay;
mod protocol;
mod resources;
mod text;

use std::process::ExitCode;

use client::Call;
use failure::Failure;

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
    let name = called_as.rsplit('/').next().unwrap_or_default();
    if name != "flux" && name != "flux-stand-in" {
        return Err(Failure::not_simulated(&format!("the program {name}")));
    }
    let Some((command, rest)) = words.split_first() else {
        return Err(Failure::new("Usage: flux [OPTIONS] COMMAND ARGS"));
    };
    let call = Call { words: rest.to_vec(), environment: front::environment(called_as) };
    match command.as_str() {
        "broker" => broker::run(&call.words, call.environment),
        "start" => client::start::run(&call),
        "env" => client::asking::env(&call),
        "getattr" => client::asking::attribute(&call),
        "uptime" => client::asking::uptime(&call),
        "version" => client::asking::version(&call),
        "shutdown" => client::asking::shutdown(&call),
        "submit" => client::submit::submit(&call),
        "run" => client::submit::run(&call),
        "batch" => client::batch::run(&call),
        "job" => client::job::run(&call),
        "jobs" => client::jobs::run(&call),
        "module" => client::asking::module(&call),
        "admin" => client::asking::admin(&call),
        "queue" => client::asking::queue(&call),
        "resource" => client::resource::resource(&call),
        "R" => client::resource::encode(&call),
        "proxy" => client::proxy::run(&call),
        other => Err(Failure::not_simulated(other)),
    }
}
