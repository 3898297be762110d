//! Command line options under the rules Flux's own tools share: they end at the first word that is
//! none, and long ones are not abbreviated.
//!
//! A command lists its options in one text: `n|ntasks=` is `-n` or `--ntasks` with a value. A `!` behind
//! all that marks what real Flux has and the stand-in does not simulate.

use crate::output::Failure;
use crate::release::{Feature, has};
use lexopt::Arg;

#[derive(Default)]
pub(crate) struct Parsed {
    given: Vec<(String, Option<String>)>,
    pub(crate) rest: Vec<String>,
}

impl Parsed {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| given == name)
    }

    pub(crate) fn values(&self, name: &str) -> impl DoubleEndedIterator<Item = &str> {
        let of_name = self.given.iter().filter(move |(given, _)| given == name);
        of_name.filter_map(|(_, value)| value.as_deref())
    }

    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values(name).next_back()
    }
}

/// Parses the words after the name of `command`, which has the options of `list`.
pub(crate) fn parse(command: &str, words: &[String], list: &str) -> Result<Parsed, Failure> {
    let fault = |error: lexopt::Error| refusal(command, &error.to_string());
    let mut parser = lexopt::Parser::from_args(words);
    let mut parsed = Parsed::default();
    while let Some(argument) = parser.next().map_err(fault)? {
        let given = match argument {
            Arg::Value(word) => {
                let rest = std::iter::once(word).chain(parser.raw_args().map_err(fault)?);
                parsed.rest = rest.map(|word| word.to_string_lossy().into_owned()).collect();
                let before = words.len() - parsed.rest.len();
                let is_marked = before > 0 && words[before - 1] == "--";
                if is_marked && is_submission(command) && !has(Feature::EndOfOptions) {
                    parsed.rest.insert(0, "--".to_owned());
                }
                break;
            }
            Arg::Short(key) => format!("-{key}"),
            Arg::Long(name) => format!("--{name}"),
        };
        let name_of = |option: &str| {
            let (short, long) = option.split_once('|').unwrap_or(("", option));
            let long = long.trim_end_matches(['=', '!']);
            let is_given = given == format!("-{short}") || given == format!("--{long}");
            is_given.then(|| long.to_owned())
        };
        let found = list.split_whitespace().find_map(|it| name_of(it).map(|name| (it, name)));
        let (option, name) = found.ok_or_else(|| unknown(command, &given))?;
        if option.ends_with('!') {
            return Err(Failure::not_simulated(&format!("{command} {given}")));
        }
        let value = option.ends_with('=').then(|| parser.value().map_err(fault)).transpose()?;
        parsed.given.push((name, value.map(|value| value.to_string_lossy().into_owned())));
    }
    Ok(parsed)
}

/// Of the commands that submit jobs, the options of real Flux are listed; of the others, what is used.
fn unknown(command: &str, given: &str) -> Failure {
    if is_submission(command) {
        return refusal(command, &format!("unrecognized arguments: {given}"));
    }
    Failure::not_simulated(&format!("{command} {given}"))
}

fn is_submission(command: &str) -> bool {
    ["submit", "run", "batch"].contains(&command)
}

/// How the Python programs among Flux's commands refuse a wrong command line.
pub(crate) fn refusal(command: &str, text: &str) -> Failure {
    let text = format!("usage: flux {command} [OPTIONS...]\nflux {command}: error: {text}");
    Failure::with_code(2, text)
}
