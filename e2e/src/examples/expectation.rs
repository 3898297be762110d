//! The steps of an example's `expect.toml`, which a test does or checks in their order. `docs/testing.md` describes
//! them; a test compares its table with these.

use anyhow::Result;
use serde::Deserialize;

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

/// A requirement, an action or a check. In lines of output, `*` stands for any text.
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
    Run(Vec<String>),
    /// Starts `client.py` of the example, which starts this program in the lead.
    Client(Vec<String>),
    /// Calls kubectl with these words on this machine.
    Kubectl(Vec<String>),
    Prints(String),
    Output(String),
    /// All lines of the log.
    OutputExactly(Vec<String>),
    NoOutput(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    steps: Vec<Step>,
}

pub(super) fn parse(text: &str) -> Result<Vec<Step>> {
    let Expectation { steps } = toml::from_str(text)?;
    Ok(steps)
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
    fn every_step_is_described_for_people() {
        let refused = toml::from_str::<Expectation>("steps = [{ none = 0 }]").unwrap_err();
        let (_, names) = refused.message().split_once("expected one of ").unwrap();
        let described = include_str!("../../../docs/testing.md");
        let described = described.lines().filter_map(|line| line.strip_prefix("| `"));
        let described: Vec<&str> =
            described.filter_map(|it| Some(it.split_once(" =")?.0)).collect();
        assert_eq!(names.replace('`', "").split(", ").collect::<Vec<_>>(), described);
    }
}
