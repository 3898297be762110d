//! The release of flux-core that this program stands in for, and what older ones lack: one table, read from the tags of
//! flux-core.

use crate::output::{Failure, strerror};
use memchr::memmem;
use std::fs::{self, OpenOptions};
use std::hint::black_box;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;

/// As in real Flux, a text of its own in the program. [`copy`] puts another release in its place, so the program is read
/// and not a constant.
const RELEASE: &str = "\x000.88.0\0";

/// What some releases have, or do, and others do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    /// `flux run`, `flux submit` and `flux batch`. Before, they are commands of `flux mini`.
    Submissions,
    /// The number of active jobs.
    Stats,
    /// `tbon.connect_timeout`. Before, an attribute without effect.
    ConnectTimeout,
    /// `broker.quorum` is a number. Before, a set of ranks.
    QuorumSize,
    /// Constraints of `job-list.list`. Before, it needs `userid`, `states` and `results`.
    Constraints,
    SchedStatus,
    /// The operator `ranks` of constraints.
    RanksConstraint,
    /// `broker.cleanup-timeout`. Before, an attribute without effect.
    CleanupTimeout,
    JobsSort,
    /// `--setattr` and `--config-path` of `flux start`. Before, `--broker-opts` passes them to the broker.
    StartSetattr,
    /// `flux job attach` passes signals on to the job. Before, they end it.
    ForwardedSignals,
    /// `tbon.topo=mincrit`. Before, the broker refuses it.
    Mincrit,
    /// The table `[modules]`. Before, a table without effect.
    Modules,
    /// `broker.shutdown-timeout`. Before, an attribute without effect.
    ShutdownTimeout,
}

/// The first release with each feature, and the place in its source.
pub(crate) const FEATURES: [(Feature, [u32; 2], &str); 14] = [
    (Feature::Submissions, [0, 48], "src/bindings/python/flux/cli/run.py"),
    (Feature::Stats, [0, 49], "src/modules/job-manager/job-manager.c:141"),
    (Feature::ConnectTimeout, [0, 50], "src/broker/overlay.c:53"),
    (Feature::QuorumSize, [0, 51], "src/broker/state_machine.c:763"),
    (Feature::Constraints, [0, 53], "src/modules/job-list/list.c:268"),
    (Feature::SchedStatus, [0, 61], "src/modules/resource/status.c:461"),
    (Feature::RanksConstraint, [0, 64], "src/modules/job-list/match.c:845"),
    (Feature::CleanupTimeout, [0, 68], "src/broker/state_machine.c:1317"),
    (Feature::JobsSort, [0, 68], "src/cmd/flux-jobs.py:304"),
    (Feature::StartSetattr, [0, 69], "src/cmd/flux-start.c:104"),
    (Feature::ForwardedSignals, [0, 73], "src/cmd/job/attach.c:100"),
    (Feature::Mincrit, [0, 75], "src/broker/topology.c:55"),
    (Feature::Modules, [0, 77], "src/bindings/python/flux/modprobe.py:726"),
    (Feature::ShutdownTimeout, [0, 82], "src/broker/state_machine.c:1702"),
];

/// The release, as `0.88.0`.
pub(crate) fn release() -> &'static str {
    black_box(RELEASE).trim_matches('\0')
}

/// Whether this release has the feature.
pub(crate) fn has(feature: Feature) -> bool {
    let mut numbers = release().split('.').map(|number| number.parse().unwrap_or_default());
    let own = [numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default()];
    FEATURES.iter().all(|(other, since, _)| *other != feature || own >= *since)
}

/// `flux-stand-in --release RELEASE FILE`: writes a copy of this program that stands in for that release.
pub(crate) fn copy(words: &[String]) -> Result<u8, Failure> {
    let [_, wanted, to] = words else {
        return Err(Failure::new("Usage: flux-stand-in --release RELEASE FILE"));
    };
    let (from, wanted) = (black_box(RELEASE).as_bytes(), format!("\0{wanted}\0"));
    if wanted.len() != from.len() {
        return Err(Failure::new(format!("a release has the form {}", release())));
    }
    let fault = |error: std::io::Error| Failure::new(format!("{to}: {}", strerror(&error)));
    let own = std::env::current_exe().and_then(fs::read);
    let mut program = own.map_err(fault)?;
    let places: Vec<usize> = memmem::find_iter(&program, from).collect();
    for place in places {
        program[place..place + from.len()].copy_from_slice(wanted.as_bytes());
    }
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o755).open(to).map_err(fault)?;
    file.write_all(&program).map_err(fault)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_in_the_table_of_the_page() {
        let page = include_str!("../../../docs/custom-views.md");
        for (feature, [major, minor], place) in FEATURES {
            let (since, place) = (format!("| {major}.{minor} |"), format!("`{place}`"));
            let is_row = |line: &&str| line.starts_with(&since) && line.contains(&place);
            assert!(page.lines().any(|line| is_row(&line)), "{feature:?}: {since} {place}");
            assert!(has(feature));
        }
    }
}
