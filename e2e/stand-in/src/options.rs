//! Command line options: the rules Flux's own tools share. Options end at the first word that is
//! not one; long options are not abbreviated; a short option takes its value from the rest of the
//! word or from the next one.

/// What follows an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Argument {
    /// Nothing.
    None,
    /// A value, always.
    Required,
    /// A value only if attached (`--name=value`, `-nvalue`).
    Optional,
    /// A value that is split at commas.
    Split,
}

/// One option of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    /// Long name, without dashes.
    pub(crate) name: &'static str,
    /// Short name.
    pub(crate) short: Option<char>,
    /// What follows.
    pub(crate) argument: Argument,
}

/// An option with a short name.
pub(crate) const fn short(name: &'static str, key: char, argument: Argument) -> Choice {
    Choice { name, short: Some(key), argument }
}

/// An option that only has a long name.
pub(crate) const fn long(name: &'static str, argument: Argument) -> Choice {
    Choice { name, short: None, argument }
}

/// A parsed command line.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Parsed {
    given: Vec<(&'static str, Option<String>)>,
    /// The words after the options.
    pub(crate) rest: Vec<String>,
}

impl Parsed {
    /// Whether the option was given at all.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// How many times it was given.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.given.iter().filter(|(given, _)| *given == name).count()
    }

    /// The last value given.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.given
            .iter()
            .rev()
            .find(|(given, _)| *given == name)
            .and_then(|(_, value)| value.as_deref())
    }

    /// All values in the order given.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        self.given
            .iter()
            .filter(|(given, _)| *given == name)
            .filter_map(|(_, value)| value.as_deref())
            .collect()
    }

    /// The first option that was given among `names`.
    pub(crate) fn first_of(&self, names: &[&str]) -> Option<&'static str> {
        self.given.iter().map(|(name, _)| *name).find(|name| names.contains(name))
    }

    fn push(&mut self, choice: &Choice, value: Option<String>) {
        match (choice.argument, value) {
            (Argument::Split, Some(text)) => {
                for part in text.split(',').filter(|part| !part.is_empty()) {
                    self.given.push((choice.name, Some(part.to_owned())));
                }
            }
            (_, value) => self.given.push((choice.name, value)),
        }
    }
}

/// What is wrong with a command line. Displayed as Flux's C tools word it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OptionError {
    /// No such option.
    #[error("unrecognized option '{0}'")]
    Unknown(String),
    /// Its value is missing.
    #[error("option '{0}' requires an argument")]
    Missing(String),
    /// It takes no value.
    #[error("option '{0}' doesn't allow an argument")]
    Unexpected(String),
}

impl OptionError {
    /// As Flux's Python tools word it.
    pub(crate) fn python(&self) -> String {
        match self {
            Self::Unknown(option) => format!("unrecognized arguments: {option}"),
            Self::Missing(option) => format!("argument {option}: expected one argument"),
            Self::Unexpected(option) => format!("argument {option}: ignored explicit argument"),
        }
    }
}

/// Parses `words`, which do not include the command's name.
pub(crate) fn parse(words: &[String], choices: &[Choice]) -> Result<Parsed, OptionError> {
    let mut parsed = Parsed::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        } else if let Some(body) = word.strip_prefix("--") {
            let mut next = || words.next().cloned();
            parse_long(&mut parsed, body, choices, &mut next)?;
        } else if word.len() > 1 && word.starts_with('-') {
            let mut next = || words.next().cloned();
            parse_short(&mut parsed, &word[1..], choices, &mut next)?;
        } else {
            parsed.rest.push(word.clone());
            break;
        }
    }
    parsed.rest.extend(words.cloned());
    Ok(parsed)
}

fn parse_long(
    parsed: &mut Parsed,
    body: &str,
    choices: &[Choice],
    next: &mut dyn FnMut() -> Option<String>,
) -> Result<(), OptionError> {
    let (name, attached) = match body.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (body, None),
    };
    let choice = choices
        .iter()
        .find(|choice| choice.name == name)
        .ok_or_else(|| OptionError::Unknown(format!("--{name}")))?;
    let value = match choice.argument {
        Argument::None if attached.is_some() => {
            return Err(OptionError::Unexpected(format!("--{name}")));
        }
        Argument::None => None,
        Argument::Optional => attached,
        Argument::Required | Argument::Split => {
            Some(attached.or_else(next).ok_or_else(|| OptionError::Missing(format!("--{name}")))?)
        }
    };
    parsed.push(choice, value);
    Ok(())
}

fn parse_short(
    parsed: &mut Parsed,
    body: &str,
    choices: &[Choice],
    next: &mut dyn FnMut() -> Option<String>,
) -> Result<(), OptionError> {
    let mut rest = body;
    while let Some(key) = rest.chars().next() {
        rest = &rest[key.len_utf8()..];
        let choice = choices
            .iter()
            .find(|choice| choice.short == Some(key))
            .ok_or_else(|| OptionError::Unknown(format!("-{key}")))?;
        let value = match choice.argument {
            Argument::None => None,
            // A repeated letter (-vv) counts; anything else attached is the value.
            Argument::Optional if rest.is_empty() || rest.starts_with(key) => None,
            Argument::Optional => Some(std::mem::take(&mut rest).to_owned()),
            Argument::Required | Argument::Split => Some(if rest.is_empty() {
                next().ok_or_else(|| OptionError::Missing(format!("-{key}")))?
            } else {
                let attached = std::mem::take(&mut rest);
                attached.strip_prefix('=').unwrap_or(attached).to_owned()
            }),
        };
        parsed.push(choice, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHOICES: &[Choice] = &[
        short("setattr", 'S', Argument::Split),
        short("verbose", 'v', Argument::Optional),
        short("config-path", 'c', Argument::Required),
        long("noexec", Argument::None),
    ];

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn options_end_at_the_first_other_word() {
        let parsed = parse(&words("-c /x run --noexec"), CHOICES).expect("parses");
        assert_eq!(parsed.value("config-path"), Some("/x"));
        assert_eq!(parsed.rest, words("run --noexec"));
    }

    #[test]
    fn split_options_split_at_commas() {
        let parsed = parse(&words("-Sa=1,b --setattr=c=2"), CHOICES).expect("parses");
        assert_eq!(parsed.values("setattr"), ["a=1", "b", "c=2"]);
    }

    #[test]
    fn unknown_options_are_named() {
        let error = parse(&words("--x=1"), CHOICES).expect_err("refused");
        assert_eq!(error.to_string(), "unrecognized option '--x'");
        assert_eq!(error.python(), "unrecognized arguments: --x");
        let error = parse(&words("-q"), CHOICES).expect_err("refused");
        assert_eq!(error.to_string(), "unrecognized option '-q'");
    }

    #[test]
    fn repeated_letters_count() {
        assert_eq!(parse(&words("-vv"), CHOICES).expect("parses").count("verbose"), 2);
        let level = parse(&words("-v2"), CHOICES).expect("parses");
        assert_eq!(level.value("verbose"), Some("2"));
    }
}
