//! Values for tests.

use flux_contract::instance::{InstanceReport, JobReport};
use flux_protocol::RankStatus;
use flux_protocol::job::JobStatus;

/// An instance with a drained rank, an offline one, and two jobs.
pub(crate) fn report() -> InstanceReport {
    let rank = |rank, allocated, up, drained: Option<&str>| RankStatus {
        rank,
        up,
        cores: 4,
        cores_allocated: allocated,
        drained: drained.map(str::to_owned),
        ..RankStatus::default()
    };
    let job = |id: &str, name: &str, state, ranks: Option<&str>, seconds| JobReport {
        id: id.to_owned(),
        user: "flux".to_owned(),
        name: name.to_owned(),
        state,
        tasks: 4,
        nodes: ranks.map(|_| 2),
        ranks: ranks.map(str::to_owned),
        seconds,
    };
    InstanceReport {
        ranks: vec![
            rank(0, 4, true, None),
            rank(1, 2, true, None),
            rank(2, 0, true, Some("bad fan")),
            rank(3, 0, false, None),
        ],
        jobs: vec![
            job("ƒ3", "wait", JobStatus::Sched, None, 5.0),
            job("ƒ2", "lammps", JobStatus::Run, Some("0-1"), 75.0),
        ],
        ..InstanceReport::default()
    }
}
