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

/// What a release has, or does, and an older one does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    Submissions,
    Stats,
    QuorumSize,
    Constraints,
    SchedStatus,
    RanksConstraint,
    EndOfOptions,
    JobsSort,
    StartOptions,
    ForwardedSignals,
    Mincrit,
}

/// The first release with each feature, and the place in its source. The page on custom views has more of them: an
/// attribute that no release before 0.82 knows, for one, was accepted there without an effect.
const FEATURES: [(Feature, [u32; 2], &str); 11] = [
    (Feature::Submissions, [0, 48], "src/bindings/python/flux/cli/run.py"),
    (Feature::Stats, [0, 49], "src/modules/job-manager/job-manager.c:141"),
    (Feature::QuorumSize, [0, 51], "src/broker/state_machine.c:763"),
    (Feature::Constraints, [0, 53], "src/modules/job-list/list.c:268"),
    (Feature::SchedStatus, [0, 61], "src/modules/resource/status.c:461"),
    (Feature::RanksConstraint, [0, 64], "src/modules/job-list/match.c:845"),
    (Feature::EndOfOptions, [0, 66], "src/bindings/python/flux/cli/base.py:1238"),
    (Feature::JobsSort, [0, 68], "src/cmd/flux-jobs.py:304"),
    (Feature::StartOptions, [0, 69], "src/cmd/flux-start.c:104"),
    (Feature::ForwardedSignals, [0, 73], "src/cmd/job/attach.c:100"),
    (Feature::Mincrit, [0, 75], "src/broker/topology.c:55"),
];

pub(crate) fn release() -> &'static str {
    black_box(RELEASE).trim_matches('\0')
}

pub(crate) fn has(feature: Feature) -> bool {
    let numbers = release().split('.').map(|number| number.parse().unwrap_or_default());
    let own: Vec<u32> = numbers.collect();
    FEATURES.iter().all(|(other, since, _)| *other != feature || own.as_slice() >= since.as_slice())
}

/// `flux-stand-in --release RELEASE FILE`: writes a copy of this program that stands in for that release.
pub(crate) fn copy(words: &[String]) -> Result<u8, Failure> {
    let (from, wanted) = (black_box(RELEASE), words.get(1).map(|it| format!("\0{it}\0")));
    let wanted = wanted.filter(|wanted| wanted.len() == from.len()).zip(words.get(2));
    let (wanted, to) = wanted.ok_or_else(|| Failure::not_simulated("such a --release"))?;
    let fault = |error| Failure::new(format!("{to}: {}", strerror(&error)));
    let mut program = std::env::current_exe().and_then(fs::read).map_err(fault)?;
    let places: Vec<usize> = memmem::find_iter(&program, from).collect();
    for place in places {
        program[place..place + from.len()].copy_from_slice(wanted.as_bytes());
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o755).open(to);
    file.and_then(|mut file| file.write_all(&program)).map_err(fault)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_in_the_table_of_the_page() {
        let page = include_str!("../../../docs/custom-views.md");
        for (feature, [_, minor], place) in FEATURES {
            let mut rows = page.lines().filter(|line| line.starts_with(&format!("| 0.{minor} |")));
            assert!(has(feature) && rows.any(|row| row.contains(place)), "{feature:?}: {place}");
        }
    }
}
