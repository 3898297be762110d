//! `agent.toml` across releases: what an operator of this release writes for a run that another one
//! started is read by the agents of that run (docs/design/operator-and-agent.md).
//!
//! `golden/agent.toml` has every field, as the first release writes it. It is never changed: a new field
//! has a default, and is not written at its default.

use flux_contract::AgentConfig;

const GOLDEN: &str = include_str!("golden/agent.toml");

/// A new field without a default cannot be read; one that is not left out at its default is written
/// where no agent of that release knows it.
#[test]
fn a_document_of_the_first_release_is_read_and_written_again_to_the_byte() {
    assert_eq!(AgentConfig::from_toml(GOLDEN).unwrap().to_toml().unwrap(), GOLDEN);
}
