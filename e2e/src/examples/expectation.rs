//! The steps of an example's `expect.txt`: lines `key: value`, which a test does or checks from top to bottom.
//! `examples/README.md` describes the keys; a test compares them with these.

use anyhow::{Context as _, Result, ensure};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Number, json};

/// The Flux that an example needs if the stand-in is not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NeededFlux {
    /// Real Flux: the stand-in does not simulate what the example does.
    Real,
    /// Real Flux, with Fluxion in its view.
    Fluxion,
    /// Real Flux, with flux-pmix in its view.
    Pmix,
    /// The stand-in, or a view with the C library that it needs: the image has none.
    CLibrary,
}

/// One line: a requirement, an action or a check. In lines of output, `*` stands for any text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    Flux(NeededFlux),
    /// The Pod Security level that its namespace enforces.
    PodSecurity(String),
    Apply(String),
    /// The next steps are about this MiniCluster; by default they are about that of `minicluster.yaml`.
    Minicluster(String),
    /// The next steps are about the pod of this index; by default they are about the lead.
    Pod(u32),
    /// The next steps are about this container; by default they are about the one that runs Flux.
    Container(String),
    Condition(String),
    Reason(String),
    Ready(i32),
    Exit(i32),
    Gone(String),
    Scale(u32),
    #[serde(deserialize_with = "words")]
    Run(Vec<String>),
    Prints(String),
    Output(String),
    /// All lines of the log, with ` | ` between them.
    OutputExactly(String),
    NoOutput(String),
}

pub(super) fn parse(text: &str) -> Result<Vec<Step>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let step = |line| Step::parse(line).with_context(|| format!("reading `{line}`"));
    let steps = lines.map(step).collect::<Result<Vec<_>>>()?;
    ensure!(steps.iter().any(Step::checks), "nothing is checked");
    Ok(steps)
}

impl Step {
    fn parse(line: &str) -> Result<Self> {
        let (key, value) = line.split_once(':').context("it is not `key: value`")?;
        let (key, value) = (key.trim(), value.trim());
        ensure!(!value.is_empty(), "it has no value");
        let of_number = serde_json::from_str::<Number>(value).ok();
        let of_number = of_number.and_then(|it| serde_json::from_value(json!({ key: it })).ok());
        // A value of digits may be a text: `prints: 2` is a line.
        Ok(of_number.map_or_else(|| serde_json::from_value(json!({ key: value })), Ok)?)
    }

    /// Whether this step checks something that the example has done.
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

fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let words = shlex::split(&String::deserialize(deserializer)?);
    words.ok_or_else(|| D::Error::custom("a command as a shell would read it is needed"))
}

/// Whether a line is as expected: `*` stands for any text; space at the ends does not count.
pub(super) fn matches(pattern: &str, line: &str) -> bool {
    fn matched(pattern: &str, line: &str) -> bool {
        let Some((head, rest)) = pattern.split_once('*') else { return pattern == line };
        let Some(tail) = line.strip_prefix(head) else { return false };
        (0..=tail.len()).filter_map(|at| tail.get(at..)).any(|tail| matched(rest, tail))
    }
    matched(pattern.trim(), line.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_understood_is_refused_by_name() {
        for (lines, complaint) in [
            ("condition: Complete\ncolour: red", "reading `colour: red`: unknown variant"),
            ("exit: seven", "reading `exit: seven`: invalid type"),
            ("flux: unreal", "unknown variant `unreal`, expected one of `real`, `fluxion`"),
            ("run: sh -c 'open", "a command as a shell would read it is needed"),
            ("output:", "it has no value"),
            ("hello world", "it is not `key: value`"),
            ("scale: 4\nno-output: a", "nothing is checked"),
        ] {
            let refused = format!("{:#}", parse(lines).unwrap_err());
            assert!(refused.contains(complaint), "{lines}: {refused}");
        }
    }

    #[test]
    fn every_key_is_described_for_people() {
        let refused = format!("{:#}", Step::parse("none: such").unwrap_err());
        let (_, keys) = refused.split_once("expected one of ").unwrap();
        let described = include_str!("../../../examples/README.md");
        let described = described.lines().filter_map(|line| line.strip_prefix("| `"));
        let described: Vec<&str> = described.filter_map(|it| Some(it.split_once(':')?.0)).collect();
        assert_eq!(keys.replace('`', "").split(", ").collect::<Vec<_>>(), described);
    }
}
