//! The commands that talk to a broker.

pub(crate) mod asking;
pub(crate) mod batch;
pub(crate) mod connection;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod proxy;
pub(crate) mod resource;
pub(crate) mod start;
pub(crate) mod submit;
pub(crate) mod submit_options;

use crate::failure::Failure;
use crate::front::Environment;
use crate::jobs::spec::Scope;
use crate::options::{Parsed, parse};
use crate::text::jobid;

/// One call of a command.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The words after the command's name.
    pub(crate) words: Vec<String>,
    /// The environment after the front end's additions.
    pub(crate) environment: Environment,
}

impl Call {
    /// Parses the options of `command`, as [`parse`] describes them.
    pub(crate) fn options(&self, command: &str, list: &str) -> Result<Parsed, Failure> {
        parse(command, &self.words, list)
    }

    /// Parses the options of a sub-command, which the first word has to be.
    pub(crate) fn of_subcommand(
        &self,
        command: &str,
        known: &str,
        list: &str,
    ) -> Result<Parsed, Failure> {
        match self.words.split_first() {
            Some((first, rest)) if first == known => parse(command, rest, list),
            Some((first, _)) => Err(Failure::not_simulated(&format!("{command} {first}"))),
            None => Err(Failure::new(format!("flux-{command}: missing subcommand"))),
        }
    }

    /// The batch job this runs in: its script has an instance of its own.
    pub(crate) fn scope(&self) -> Scope {
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

/// A job id, or Flux's text about what is none.
pub(crate) fn job_id(text: &str) -> Result<u64, Failure> {
    jobid::decode(text)
        .ok_or_else(|| Failure::new(format!("flux-job: error parsing jobid: \"{text}\"")))
}

/// The name of a user id, or the id. The binary is static: the C library is not asked.
pub(crate) fn user_name(id: u64) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let id = id.to_string();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(&id)).then(|| name.to_owned())
    });
    name.unwrap_or(id)
}
