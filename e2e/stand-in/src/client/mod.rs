//! The commands that talk to a broker.

pub(crate) mod archive;
pub(crate) mod attributes;
pub(crate) mod batch;
pub(crate) mod connection;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod keygen;
pub(crate) mod overlay;
pub(crate) mod proxy;
pub(crate) mod queue;
pub(crate) mod resource;
pub(crate) mod resource_set;
pub(crate) mod shutdown;
pub(crate) mod start;
pub(crate) mod submit;
pub(crate) mod submit_options;
pub(crate) mod uptime;
pub(crate) mod version;

use crate::failure::Failure;
use crate::front::Environment;
use crate::options::{Choice, Parsed, parse};
use crate::text::jobid;

/// One call of a command.
#[derive(Debug)]
pub(crate) struct Call {
    /// The words after the command's name.
    pub(crate) words: Vec<String>,
    /// The environment after the front end's additions.
    pub(crate) environment: Environment,
}

impl Call {
    /// Parses the options; a fault is reported as `flux-NAME: TEXT`.
    pub(crate) fn options(&self, name: &str, choices: &[Choice]) -> Result<Parsed, Failure> {
        parse(&self.words, choices).map_err(|error| {
            Failure::new(format!(
                "flux-{name}: {error}\nTry `flux-{name} --help' for more information."
            ))
        })
    }

    /// Parses the options of a command that is a Python script in real Flux.
    pub(crate) fn python_options(&self, name: &str, choices: &[Choice]) -> Result<Parsed, Failure> {
        parse(&self.words, choices).map_err(|error| usage(name, &error.python()))
    }

    /// The batch job this runs in: its script has an instance of its own.
    pub(crate) fn scope(&self) -> Option<u64> {
        self.environment.get("FLUX_ENCLOSING_ID").and_then(|text| jobid::decode(text))
    }

    /// Refuses what would have to be asked of a batch job's own instance.
    pub(crate) fn refuse_in_batch(&self, what: &str) -> Result<(), Failure> {
        match self.scope() {
            Some(_) => Err(Failure::not_simulated(&format!("{what} inside a batch job"))),
            None => Ok(()),
        }
    }
}

/// A usage error of a Python script: exit code 2. Those that submit are parts of one program.
pub(crate) fn usage(name: &str, text: &str) -> Failure {
    let joint = if ["submit", "run", "batch"].contains(&name) { ' ' } else { '-' };
    let text = format!("usage: flux {name} [OPTIONS...]\nflux{joint}{name}: error: {text}");
    Failure::with_code(2, text)
}

/// A job id, or Flux's text about what is none.
pub(crate) fn job_id(text: &str) -> Result<u64, Failure> {
    jobid::decode(text)
        .ok_or_else(|| Failure::new(format!("flux-job: error parsing jobid: \"{text}\"")))
}

/// The first sub-command of a command, and a call for the rest.
pub(crate) fn split<'a>(call: &'a Call, name: &str) -> Result<(&'a str, Call), Failure> {
    let (first, rest) = call
        .words
        .split_first()
        .ok_or_else(|| Failure::new(format!("flux-{name}: missing subcommand")))?;
    Ok((first, Call { words: rest.to_vec(), environment: call.environment.clone() }))
}
