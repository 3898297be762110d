//! Where a job fits: first come, first served, on the nodes with most free cores.

use crate::protocol::JobSpec;
use crate::resources::Cores;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Allocation {
    pub(crate) cores: Cores,
    pub(crate) tasks: Vec<u32>,
}

/// Finds room for a job among the `free` cores, `None` where there is not enough. `all` says how large a whole node is.
pub(crate) fn allocate(spec: &JobSpec, all: &Cores, free: &Cores) -> Option<Allocation> {
    let mut allocation = match spec.nodes {
        Some(nodes) => allocate_nodes(spec, nodes, all, free)?,
        None => allocate_slots(spec, free.clone())?,
    };
    if spec.script.is_some() {
        // A batch job is one script.
        allocation.tasks.truncate(1);
    }
    Some(allocation)
}

/// Tasks in blocks, the earlier nodes taking the remainder.
fn allocate_nodes(spec: &JobSpec, nodes: usize, all: &Cores, free: &Cores) -> Option<Allocation> {
    let wanted = spec.tasks.div_ceil(nodes);
    let fits = |(rank, cores): &(&u32, &usize)| {
        **cores >= wanted && (!spec.exclusive || all.get(*rank) == Some(*cores))
    };
    let mut candidates: Vec<(&u32, &usize)> = free.iter().filter(fits).collect();
    candidates.sort_by_key(|(rank, cores)| (Reverse(**cores), **rank));
    let taken = |cores| if spec.exclusive { cores } else { wanted };
    let chosen = candidates.get(..nodes)?.iter();
    let cores: Cores = chosen.map(|(rank, cores)| (**rank, taken(**cores))).collect();
    let share = |index| spec.tasks / nodes + usize::from(index < spec.tasks % nodes);
    let tasks = cores.keys().enumerate();
    let tasks = tasks.flat_map(|(index, rank)| std::iter::repeat_n(*rank, share(index))).collect();
    Some(Allocation { cores, tasks })
}

/// One core for each task, of the rank that has most of them left.
fn allocate_slots(spec: &JobSpec, mut left: Cores) -> Option<Allocation> {
    let mut allocation = Allocation::default();
    for _ in 0..spec.tasks {
        let most = left.iter_mut().max_by_key(|(rank, cores)| (**cores, Reverse(**rank)));
        let (rank, cores) = most?;
        *cores = cores.checked_sub(1)?;
        *allocation.cores.entry(*rank).or_default() += 1;
        allocation.tasks.push(*rank);
    }
    allocation.tasks.sort_unstable();
    Some(allocation)
}
