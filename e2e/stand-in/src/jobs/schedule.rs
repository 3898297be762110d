//! Where a job fits: first come, first served, on the nodes with most free cores.

use std::collections::{BTreeMap, BTreeSet};

use super::spec::JobSpec;
use crate::resources::Cores;

/// Cores given to a job by rank, and the rank of every task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Allocation {
    /// Cores by rank.
    pub(crate) cores: BTreeMap<u32, BTreeSet<u32>>,
    /// Rank of task 0, 1, ...
    pub(crate) tasks: Vec<u32>,
}

impl Allocation {
    /// The rank on which output files are opened.
    pub(crate) fn first(&self) -> u32 {
        self.cores.keys().next().copied().unwrap_or_default()
    }
}

/// Finds room for a job among the `free` cores, `None` where there is not enough. `all` tells
/// how large a whole node is.
pub(crate) fn allocate(spec: &JobSpec, all: &Cores, free: &Cores) -> Option<Allocation> {
    match spec.nodes {
        Some(count) => allocate_nodes(spec, count, all, free),
        None => allocate_slots(spec, free),
    }
}

fn take(cores: &BTreeSet<u32>, count: usize) -> Option<BTreeSet<u32>> {
    (cores.len() >= count).then(|| cores.iter().copied().take(count).collect())
}

fn allocate_nodes(spec: &JobSpec, count: u32, all: &Cores, free: &Cores) -> Option<Allocation> {
    let slots = spec.tasks.div_ceil(count);
    let wanted = usize::try_from(slots * spec.cores_per_task).ok()?;
    let mut candidates: Vec<(usize, u32)> = free
        .iter()
        .filter(|(rank, cores)| {
            let whole = all.get(rank).is_some_and(|all| all.len() == cores.len());
            cores.len() >= wanted && (whole || !spec.exclusive)
        })
        .map(|(rank, cores)| (cores.len(), *rank))
        .collect();
    candidates.sort_by_key(|(cores, rank)| (usize::MAX - cores, *rank));
    let chosen = candidates.get(..usize::try_from(count).ok()?)?;
    let mut allocation = Allocation::default();
    for (_, rank) in chosen {
        let cores = free.get(rank)?;
        let given = if spec.exclusive { cores.clone() } else { take(cores, wanted)? };
        allocation.cores.insert(*rank, given);
    }
    let ranks: Vec<u32> = allocation.cores.keys().copied().collect();
    allocation.tasks = spread(spec.processes(), &ranks, spec.tasks, count);
    Some(allocation)
}

/// Tasks in blocks, the earlier nodes taking the remainder.
fn spread(processes: u32, ranks: &[u32], tasks: u32, count: u32) -> Vec<u32> {
    let (each, extra) = (tasks / count, tasks % count);
    let share = |index: u32| each + u32::from(index < extra);
    let all = (0_u32..).zip(ranks).flat_map(|(index, rank)| {
        std::iter::repeat_n(*rank, usize::try_from(share(index)).unwrap_or_default())
    });
    all.take(usize::try_from(processes).unwrap_or_default()).collect()
}

fn allocate_slots(spec: &JobSpec, free: &Cores) -> Option<Allocation> {
    let mut left = free.clone();
    let mut allocation = Allocation::default();
    let size = usize::try_from(spec.cores_per_task).ok()?;
    let mut slots: BTreeMap<u32, u32> = BTreeMap::new();
    for _ in 0..spec.tasks {
        let (_, rank) = left
            .iter()
            .map(|(rank, cores)| (cores.len(), *rank))
            .max_by_key(|(cores, rank)| (*cores, u32::MAX - rank))?;
        let cores = left.get_mut(&rank)?;
        let given = take(cores, size)?;
        cores.retain(|core| !given.contains(core));
        allocation.cores.entry(rank).or_default().extend(given);
        *slots.entry(rank).or_default() += 1;
    }
    let all = slots.into_iter().flat_map(|(rank, count)| {
        std::iter::repeat_n(rank, usize::try_from(count).unwrap_or_default())
    });
    allocation.tasks = all.take(usize::try_from(spec.processes()).ok()?).collect();
    Some(allocation)
}
