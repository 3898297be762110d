//! Values for tests.

use flux_contract::instance::InstanceReport;

/// An instance with a drained rank, an offline one, and two jobs.
pub(crate) fn report() -> InstanceReport {
    serde_json::from_str(include_str!("fixtures/report.json")).unwrap()
}
