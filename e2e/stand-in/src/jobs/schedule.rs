//! Where a job fits: first come, first served, on the nodes with most free cores.

use std::collections::{BTreeMap, BTreeSet};

use super::spec::JobSpec;
use crate::resources::Nodes;

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

/// Free cores by rank.
pub(crate) type Free = BTreeMap<u32, BTreeSet<u32>>;

/// The whole of every node.
pub(crate) fn whole(nodes: &Nodes) -> Free {
    nodes.iter().map(|(rank, node)| (*rank, node.cores.clone())).collect()
}

/// Finds room for a job among the `free` cores, `None` where there is not enough. `nodes` tells
/// how large a whole node is.
pub(crate) fn allocate(spec: &JobSpec, nodes: &Nodes, free: &Free) -> Option<Allocation> {
    match spec.nodes {
        Some(count) => allocate_nodes(spec, count, nodes, free),
        None => allocate_slots(spec, free),
    }
}

fn take(cores: &BTreeSet<u32>, count: usize) -> Option<BTreeSet<u32>> {
    (cores.len() >= count).then(|| cores.iter().copied().take(count).collect())
}

fn allocate_nodes(spec: &JobSpec, count: u32, nodes: &Nodes, free: &Free) -> Option<Allocation> {
    let slots = spec.tasks.div_ceil(count);
    let wanted = usize::try_from(slots * spec.cores_per_task).ok()?;
    let mut candidates: Vec<(usize, u32)> = free
        .iter()
        .filter(|(rank, cores)| {
            let whole = nodes.get(rank).is_some_and(|node| node.cores.len() == cores.len());
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

fn allocate_slots(spec: &JobSpec, free: &Free) -> Option<Allocation> {
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::resources::Node;

    /// Nodes `n0`, `n1`... with as many cores as said.
    pub(crate) fn nodes(cores: &[u32]) -> Nodes {
        let node = |(rank, count): (u32, &u32)| {
            (
                rank,
                Node { host: format!("n{rank}"), cores: (0..*count).collect(), ..Node::default() },
            )
        };
        (0..).zip(cores).map(node).collect()
    }

    /// A job of `true`.
    pub(crate) fn spec(tasks: u32, nodes: Option<u32>) -> JobSpec {
        JobSpec {
            command: vec!["true".to_owned()],
            script: None,
            tasks,
            nodes,
            cores_per_task: 1,
            exclusive: false,
            directory: "/".to_owned(),
            environment: BTreeMap::new(),
            input: None,
            output: None,
            error: None,
            label: false,
            waitable: false,
            name: "true".to_owned(),
            urgency: 16,
            limit: None,
            scope: None,
            user: 0,
        }
    }

    fn tasks(spec: &JobSpec, cores: &[u32]) -> Option<Vec<u32>> {
        let nodes = nodes(cores);
        allocate(spec, &nodes, &whole(&nodes)).map(|allocation| allocation.tasks)
    }

    #[test]
    fn tasks_are_spread_over_nodes_in_blocks() {
        assert_eq!(tasks(&spec(4, None), &[2, 2]), Some(vec![0, 0, 1, 1]));
        assert_eq!(tasks(&spec(3, Some(2)), &[2, 2]), Some(vec![0, 0, 1]));
        assert_eq!(tasks(&spec(4, Some(4)), &[1, 1, 1, 1]), Some(vec![0, 1, 2, 3]));
    }

    #[test]
    fn what_does_not_fit_is_not_allocated() {
        assert_eq!(tasks(&spec(5, None), &[2, 2]), None);
        assert_eq!(tasks(&spec(3, Some(3)), &[2, 2]), None);
        let wide = JobSpec { cores_per_task: 3, ..spec(1, None) };
        assert_eq!(tasks(&wide, &[2, 2]), None);
    }

    #[test]
    fn exclusive_jobs_need_untouched_nodes() {
        let nodes = nodes(&[2, 2]);
        let mut free = whole(&nodes);
        free.insert(0, BTreeSet::from([1]));
        let exclusive = JobSpec { exclusive: true, ..spec(1, Some(1)) };
        let allocation = allocate(&exclusive, &nodes, &free).expect("fits");
        assert_eq!(allocation.cores, BTreeMap::from([(1, BTreeSet::from([0, 1]))]));
        assert_eq!(allocate(&JobSpec { nodes: Some(2), ..exclusive }, &nodes, &free), None);
    }
}
