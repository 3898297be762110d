//! What an example has to show, as its `expect.txt` says it: lines `key: value`, done and checked from top to
//! bottom.
//!
//! `examples/README.md` describes the keys for people; a test compares the two.

use std::str::FromStr;

/// What an example has to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expectation {
    /// `flux: real`, `flux: fluxion` or `flux: c-library`: which Flux it takes.
    pub flux: NeededFlux,
    /// `pod-security: LEVEL`: the Pod Security level that its namespace enforces.
    pub pod_security: Option<String>,
    /// What is done and checked, in order.
    pub steps: Vec<Step>,
}

/// Which Flux an example takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NeededFlux {
    /// The stand-in is enough.
    #[default]
    Any,
    /// `real`: what it does, the stand-in does not simulate.
    Real,
    /// `fluxion`: real Flux, with Fluxion in its view.
    Fluxion,
    /// `c-library`: the stand-in, or a view with the C library that it needs: the image has none.
    CLibrary,
}

/// One thing to do or to check. In lines of output, `*` stands for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `apply: FILE`: apply this manifest now, not at the start.
    Apply(String),
    /// `minicluster: NAME`: what follows is about this MiniCluster; else that of `minicluster.yaml`.
    MiniCluster(String),
    /// `pod: INDEX`: what follows is about the pod of this index; else the lead.
    Pod(u32),
    /// `container: NAME`: what follows is about this container; else the one that runs Flux.
    Container(String),
    /// `condition: NAME`: wait until the MiniCluster has this condition.
    Condition(String),
    /// `reason: NAME`: wait until a condition that holds has this reason.
    Reason(String),
    /// `ready: N`: wait until N brokers are online.
    Ready(i32),
    /// `exit: CODE`: the exit code in the MiniCluster's status.
    Exit(i32),
    /// `gone: NAME`: wait until this MiniCluster is deleted.
    Gone(String),
    /// `scale: N`: scale the MiniCluster.
    Scale(u32),
    /// `run: COMMAND`: run it in the container; it must succeed.
    Run(Vec<String>),
    /// `prints: LINE`: the last `run` has printed this line.
    Prints(String),
    /// `output: LINE`: the log has this line.
    Output(String),
    /// `output-exactly: LINE`, once for each line: the whole log.
    OutputExactly(Vec<String>),
    /// `no-output: LINE`: the log does not have this line.
    NoOutput(String),
}

/// Why an expectation cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpectationError {
    /// A line is no `key: value`.
    #[error("`{0}` is not `key: value`")]
    NoKey(String),
    /// A key that does not exist.
    #[error("`{0}` is no key of an expectation")]
    UnknownKey(String),
    /// A value that does not suit its key.
    #[error("`{key}: {value}`: {expected} is needed")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What it must be.
        expected: &'static str,
    },
    /// Nothing is checked.
    #[error("nothing is checked: neither a condition nor an output is expected")]
    NoCheck,
}

/// The conditions of a MiniCluster.
const CONDITIONS: [&str; 6] =
    ["Accepted", "Progressing", "Ready", "Suspended", "Complete", "Failed"];
/// The levels of Pod Security.
const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

impl Expectation {
    /// Reads the lines.
    pub fn parse(text: &str) -> Result<Self, ExpectationError> {
        let mut expectation = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (key, value) =
                line.split_once(':').ok_or_else(|| ExpectationError::NoKey(line.to_owned()))?;
            expectation.add(key.trim(), value.trim())?;
        }
        if expectation.steps.iter().any(Step::checks) {
            Ok(expectation)
        } else {
            Err(ExpectationError::NoCheck)
        }
    }

    fn add(&mut self, key: &str, value: &str) -> Result<(), ExpectationError> {
        match key {
            "flux" => self.flux = NeededFlux::of(key, value)?,
            "pod-security" => {
                self.pod_security = Some(one_of(key, value, &LEVELS, "a Pod Security level")?);
            }
            // The lines of one exact output belong together.
            "output-exactly" => match self.steps.last_mut() {
                Some(Step::OutputExactly(lines)) => lines.push(value.to_owned()),
                _ => self.steps.push(Step::OutputExactly(vec![value.to_owned()])),
            },
            _ => self.steps.push(Step::of(key, value)?),
        }
        Ok(())
    }
}

impl NeededFlux {
    fn of(key: &str, value: &str) -> Result<Self, ExpectationError> {
        match value {
            "real" => Ok(Self::Real),
            "fluxion" => Ok(Self::Fluxion),
            "c-library" => Ok(Self::CLibrary),
            _ => Err(unsuitable(key, value, "`real`, `fluxion` or `c-library`")),
        }
    }
}

impl Step {
    fn of(key: &str, value: &str) -> Result<Self, ExpectationError> {
        let text = || text(key, value);
        Ok(match key {
            "apply" => Self::Apply(text()?),
            "minicluster" => Self::MiniCluster(text()?),
            "pod" => Self::Pod(number(key, value)?),
            "container" => Self::Container(text()?),
            "condition" => {
                Self::Condition(one_of(key, value, &CONDITIONS, "a condition of a MiniCluster")?)
            }
            "reason" => Self::Reason(text()?),
            "ready" => Self::Ready(number(key, value)?),
            "exit" => Self::Exit(number(key, value)?),
            "gone" => Self::Gone(text()?),
            "scale" => Self::Scale(number(key, value)?),
            "run" => Self::Run(
                shlex::split(value)
                    .filter(|words| !words.is_empty())
                    .ok_or_else(|| unsuitable(key, value, "a command"))?,
            ),
            "prints" => Self::Prints(text()?),
            "output" => Self::Output(text()?),
            "no-output" => Self::NoOutput(text()?),
            _ => return Err(ExpectationError::UnknownKey(key.to_owned())),
        })
    }

    /// Whether this checks something that the example itself has done.
    fn checks(&self) -> bool {
        matches!(
            self,
            Self::Condition(_)
                | Self::Reason(_)
                | Self::Ready(_)
                | Self::Exit(_)
                | Self::Gone(_)
                | Self::Prints(_)
                | Self::Output(_)
                | Self::OutputExactly(_)
        )
    }
}

fn unsuitable(key: &str, value: &str, expected: &'static str) -> ExpectationError {
    ExpectationError::Value { key: key.to_owned(), value: value.to_owned(), expected }
}

fn text(key: &str, value: &str) -> Result<String, ExpectationError> {
    if value.is_empty() { Err(unsuitable(key, value, "a text")) } else { Ok(value.to_owned()) }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T, ExpectationError> {
    value.parse().map_err(|_| unsuitable(key, value, "a number"))
}

fn one_of(
    key: &str,
    value: &str,
    known: &[&str],
    expected: &'static str,
) -> Result<String, ExpectationError> {
    if known.contains(&value) {
        Ok(value.to_owned())
    } else {
        Err(unsuitable(key, value, expected))
    }
}

/// Whether a line is as expected: `*` stands for any text; space at the ends does not count.
pub fn matches(pattern: &str, line: &str) -> bool {
    fn matched(pattern: &str, line: &str) -> bool {
        match pattern.split_once('*') {
            None => pattern == line,
            Some((head, rest)) => line.strip_prefix(head).is_some_and(|tail| {
                tail.char_indices()
                    .map(|(at, _)| at)
                    .chain([tail.len()])
                    .any(|at| matched(rest, &tail[at..]))
            }),
        }
    }
    matched(pattern.trim(), line.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expectation_is_read_in_order() {
        let text = "flux: fluxion\npod-security: restricted\ncondition: Ready\nscale: 4\nready: 4\n\
             run: sh -c 'echo a: b'\nprints: a: *\npod: 2\ncondition: Complete\n\
             output-exactly: one\noutput-exactly: two\nexit: 7";
        let expected = Expectation {
            flux: NeededFlux::Fluxion,
            pod_security: Some("restricted".to_owned()),
            steps: vec![
                Step::Condition("Ready".to_owned()),
                Step::Scale(4),
                Step::Ready(4),
                Step::Run(["sh", "-c", "echo a: b"].map(str::to_owned).to_vec()),
                Step::Prints("a: *".to_owned()),
                Step::Pod(2),
                Step::Condition("Complete".to_owned()),
                Step::OutputExactly(vec!["one".to_owned(), "two".to_owned()]),
                Step::Exit(7),
            ],
        };
        assert_eq!(Expectation::parse(text), Ok(expected));
    }

    #[test]
    fn an_example_takes_any_flux_unless_it_says_which() {
        for (lines, expected) in [
            ("exit: 0", NeededFlux::Any),
            ("flux: real\nexit: 0", NeededFlux::Real),
            ("flux: fluxion\nexit: 0", NeededFlux::Fluxion),
            ("flux: c-library\nexit: 0", NeededFlux::CLibrary),
        ] {
            assert_eq!(Expectation::parse(lines).unwrap().flux, expected);
        }
    }

    #[test]
    fn what_cannot_be_understood_is_refused_by_name() {
        for (lines, complaint) in [
            ("condition: Complete\ncolour: red", "`colour` is no key"),
            ("condition: complete", "a condition of a MiniCluster is needed"),
            ("exit: seven", "`exit: seven`: a number is needed"),
            ("flux: unreal", "`real`, `fluxion` or `c-library` is needed"),
            ("pod-security: strict", "a Pod Security level is needed"),
            ("run: sh -c 'open", "a command is needed"),
            ("output:", "a text is needed"),
            ("hello world", "`hello world` is not `key: value`"),
            ("scale: 4\nno-output: a", "nothing is checked"),
        ] {
            let refused = Expectation::parse(lines).unwrap_err().to_string();
            assert!(refused.contains(complaint), "{lines}: {refused}");
        }
    }

    /// Every key there is.
    const KEYS: &str = "flux pod-security apply minicluster pod container condition reason ready exit gone \
                        scale run prints output output-exactly no-output";

    #[test]
    fn every_key_is_known_and_described_for_people() {
        let description = include_str!("../../../examples/README.md");
        for key in KEYS.split(' ') {
            let parsed = Expectation::default().add(key, "?");
            assert_ne!(parsed, Err(ExpectationError::UnknownKey(key.to_owned())));
            assert!(description.contains(&format!("| `{key}:")), "{key} is not described");
        }
        let described = description.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(described, KEYS.split(' ').count(), "the description has other keys");
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, line, expected) in [
            ("hello", "hello", true),
            ("hello", "  hello ", true),
            ("hello", "hello you", false),
            ("hello*", "hello you", true),
            ("*wall time *", "FLUXTIME a wall time 0:01.00", true),
            ("*a*b", "xaxxbxb", true),
            ("*a*b", "xaxxbxbc", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, line), expected, "{pattern} and {line}");
        }
    }
}
