//! Command line options under the rules Flux's own tools share: they end at the first word that is
//! none, and long ones are not abbreviated.
//!
//! A command lists its options in one text: `n|ntasks=` is `-n` or `--ntasks` with a value; `?` in
//! place of `=` takes one only if it is attached. A `!` behind all
//! that marks what real Flux has and the stand-in does not simulate.

use lexopt::Arg;

use crate::failure::Failure;

/// Commands that are Python scripts in real Flux, which refuse in their own way.
const SCRIPTS: [&str; 6] = ["batch", "jobs", "queue", "resource", "run", "submit"];

/// A parsed command line.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Parsed {
    given: Vec<(String, Option<String>)>,
    /// The words after the options.
    pub(crate) rest: Vec<String>,
}

impl Parsed {
    /// Whether the option was given at all.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| given == name)
    }

    /// All values in the order given.
    pub(crate) fn values(&self, name: &str) -> impl DoubleEndedIterator<Item = &str> {
        let of_name = self.given.iter().filter(move |(given, _)| given == name);
        of_name.filter_map(|(_, value)| value.as_deref())
    }

    /// The last value given.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values(name).next_back()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Argument {
    None,
    Required,
    Optional,
}

struct Choice<'list> {
    short: Option<char>,
    name: &'list str,
    argument: Argument,
    simulated: bool,
}

impl<'list> Choice<'list> {
    fn read(word: &'list str) -> Self {
        let known = word.strip_suffix('!');
        let word = known.unwrap_or(word);
        let required = word.strip_suffix('=').map(|word| (word, Argument::Required));
        let optional = word.strip_suffix('?').map(|word| (word, Argument::Optional));
        let (word, argument) = required.or(optional).unwrap_or((word, Argument::None));
        let (short, name) = word.split_once('|').unwrap_or(("", word));
        Self { short: short.chars().next(), name, argument, simulated: known.is_none() }
    }
}

/// Parses the words after the name of `command`, whose options `list` tells.
///
/// # Errors
/// As the command refuses them: options nobody knows, values that are missing or too many; and with
/// [`crate::failure::NOT_SIMULATED`] those that only real Flux has.
pub(crate) fn parse(command: &str, words: &[String], list: &str) -> Result<Parsed, Failure> {
    let choices: Vec<Choice<'_>> = list.split_whitespace().map(Choice::read).collect();
    let fault = |error: lexopt::Error| refusal(command, &error.to_string());
    let mut parser = lexopt::Parser::from_args(words);
    let mut parsed = Parsed::default();
    while let Some(argument) = parser.next().map_err(fault)? {
        let (shown, choice) = match argument {
            Arg::Value(word) => {
                let rest = std::iter::once(word).chain(parser.raw_args().map_err(fault)?);
                parsed.rest = rest.map(|word| word.to_string_lossy().into_owned()).collect();
                break;
            }
            Arg::Short(key) => {
                (format!("-{key}"), choices.iter().find(|choice| choice.short == Some(key)))
            }
            Arg::Long(name) => {
                (format!("--{name}"), choices.iter().find(|choice| choice.name == name))
            }
        };
        let choice = choice.ok_or_else(|| unknown(command, &shown))?;
        if !choice.simulated {
            return Err(Failure::not_simulated(&format!("{command} {shown}")));
        }
        let value = match choice.argument {
            Argument::None => None,
            Argument::Optional => parser.optional_value(),
            Argument::Required => Some(parser.value().map_err(fault)?),
        };
        let value = value.map(|value| value.to_string_lossy().into_owned());
        parsed.given.push((choice.name.to_owned(), value));
    }
    Ok(parsed)
}

fn unknown(command: &str, shown: &str) -> Failure {
    if SCRIPTS.contains(&command) {
        return refusal(command, &format!("unrecognized arguments: {shown}"));
    }
    refusal(command, &format!("unrecognized option '{shown}'"))
}

/// What a command says, and its exit code, when its command line makes no sense.
fn refusal(command: &str, text: &str) -> Failure {
    if SCRIPTS.contains(&command) {
        let text = format!("usage: flux {command} [OPTIONS...]\nflux {command}: error: {text}");
        return Failure::with_code(2, text);
    }
    Failure::new(format!("flux-{command}: {text}"))
}
