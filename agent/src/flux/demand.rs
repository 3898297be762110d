//! How many pods the jobs of an instance need: those that run, and those that wait. The operator asks for it and gives
//! the instance as many (docs/design/demand.md).
//!
//! The scheduler keeps for itself which resources a job would get. So the jobs that wait are placed here on what is free,
//! the lowest ranks first as the schedulers do it, by what flux-core's job-list knows of them: nodes, cores and tasks.

use crate::flux::leaving::REASON;
use crate::plan::config::{CONFIG_POLL, ConfigReader};
use crate::status::progress::DemandReporter;
use flux_contract::Autoscale;
use flux_contract::demand::Demand;
use flux_protocol::RankStatus;
use flux_protocol::client::job_list::{self, WaitingJob};
use flux_protocol::client::{BrokerAddress, SocketError, resource};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Pause between two looks at the queue.
const INTERVAL: Duration = Duration::from_millis(500);
/// The pause is so many times as long as the look before it: a long queue is not asked for all the time.
const REST: u32 = 10;
/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Publishes what the jobs of the instance need, until it is dropped. `config` is where `settings` are, which may change.
pub(crate) async fn watch(
    broker: BrokerAddress,
    mut settings: Autoscale,
    config: PathBuf,
    reporter: DemandReporter,
) {
    let mut window = Window::new(Instant::now());
    let (mut read, mut config) = (Instant::now(), ConfigReader::new(config));
    loop {
        let began = Instant::now();
        if read.elapsed() >= CONFIG_POLL {
            read = began;
            let text = config.read().await.unwrap_or_default();
            settings = Autoscale::of_document(&text).unwrap_or(settings);
        }
        let looked = timeout(PATIENCE, look(&broker, settings.max_size)).await;
        // While nobody answers, nobody knows.
        let wanted = looked.ok().and_then(Result::ok);
        let idle = Duration::from_secs(settings.idle_seconds);
        reporter.publish(wanted.map(|wanted| window.add(Instant::now(), wanted, idle)));
        sleep(INTERVAL.max(began.elapsed() * REST)).await;
    }
}

async fn look(broker: &BrokerAddress, most: u32) -> Result<u32, SocketError> {
    let mut socket = broker.connect().await?;
    // In this order, a job that starts in between counts twice; in the other it would not count.
    let waiting = job_list::waiting(&mut socket).await?;
    let ranks = resource::ranks(&mut socket).await?;
    Ok(pods_needed(&ranks, &waiting, most))
}

/// A rank that a job may be placed on.
#[derive(Clone, Copy)]
struct Place {
    rank: u32,
    cores: usize,
    free: usize,
}

/// How many pods there must be, of `most`, for the jobs that run and those of `waiting`: 1 more than the highest rank
/// among them. A job for which there is no room beside the others waits for them, and needs as many as it would alone.
/// One that is too large for `most` pods needs none.
fn pods_needed(ranks: &[RankStatus], waiting: &[WaitingJob], most: u32) -> u32 {
    let busy = ranks.iter().filter(|it| it.cores_allocated > 0 || it.gpus_allocated > 0);
    let mut highest = busy.map(|it| it.rank).max();
    // Of a rank that its pod has left, the next pod lifts the drain.
    let is_given = |it: &&RankStatus| it.drained.as_deref().is_none_or(|why| why == REASON);
    let given = ranks.iter().filter(|it| it.rank < most).filter(is_given);
    let mut beside: Vec<Place> = given
        .map(|it| {
            let free = it.cores.saturating_sub(it.cores_allocated);
            Place { rank: it.rank, cores: it.cores, free }
        })
        .collect();
    let empty: Vec<Place> = beside.iter().map(|it| Place { free: it.cores, ..*it }).collect();
    for job in waiting {
        if highest.is_some_and(|rank| rank + 1 >= most) {
            break;
        }
        let placed = place(job, &mut beside).or_else(|| place(job, &mut empty.clone()));
        highest = highest.max(placed);
    }
    highest.map_or(0, |rank| rank + 1)
}

/// Takes what `job` needs from `places`, which are in the order of their ranks, and gives the highest rank that it has
/// then; nothing is taken where there is not enough.
fn place(job: &WaitingJob, places: &mut [Place]) -> Option<u32> {
    let takes = match job.nodes {
        Some(nodes) => on_nodes(job, nodes, places)?,
        None => in_slots(job, places)?,
    };
    let mut highest = None;
    for (at, cores) in takes {
        let place = places.get_mut(at)?;
        place.free = place.free.saturating_sub(cores);
        highest = highest.max(Some(place.rank));
    }
    highest
}

/// The places, and how many cores of each, of a job that asks for nodes: all cores of them unless it says how many.
fn on_nodes(job: &WaitingJob, nodes: usize, places: &[Place]) -> Option<Vec<(usize, usize)>> {
    let share_of = |it: &Place| match job.cores {
        Some(cores) => Some(cores.div_ceil(nodes.max(1))).filter(|share| *share <= it.free),
        None => Some(it.cores).filter(|all| *all == it.free),
    };
    let fitting = places.iter().enumerate().filter_map(|(at, it)| Some((at, share_of(it)?)));
    let takes: Vec<_> = fitting.take(nodes).collect();
    (takes.len() == nodes).then_some(takes)
}

/// The same of a job that asks for cores alone. Those of one task are on one node.
fn in_slots(job: &WaitingJob, places: &[Place]) -> Option<Vec<(usize, usize)>> {
    let cores = job.cores.unwrap_or(job.tasks).max(1);
    let tasks = job.tasks.clamp(1, cores);
    let size = cores.div_ceil(tasks);
    let (mut left, mut takes) = (tasks, Vec::new());
    for (at, place) in places.iter().enumerate() {
        let here = left.min(place.free / size);
        if here > 0 {
            takes.push((at, here * size));
            left -= here;
        }
    }
    (left == 0).then_some(takes)
}

/// What was wanted lately: at each time that this was seen last, the most since then.
struct Window {
    began: Instant,
    seen: VecDeque<(Instant, u32)>,
}

impl Window {
    const fn new(began: Instant) -> Self {
        Self { began, seen: VecDeque::new() }
    }

    /// The demand of this moment, for pods that are kept while they were wanted within `idle`. What was wanted before
    /// the beginning is not known, so nothing is given up before `idle` is over.
    fn add(&mut self, now: Instant, wanted: u32, idle: Duration) -> Demand {
        while self.seen.pop_back_if(|(_, before)| *before <= wanted).is_some() {}
        self.seen.push_back((now, wanted));
        while self.seen.pop_front_if(|(then, _)| now - *then > idle).is_some() {}
        let most = self.seen.front().map_or(wanted, |(_, most)| *most);
        Demand { wanted, kept: (now - self.began >= idle).then_some(most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ranks of four cores, of which jobs have these.
    fn ranks(allocated: &[usize]) -> Vec<RankStatus> {
        let rank = |(rank, cores_allocated): (u32, &usize)| RankStatus {
            rank,
            cores: 4,
            cores_allocated: *cores_allocated,
            ..RankStatus::default()
        };
        (0..).zip(allocated).map(rank).collect()
    }

    fn nodes(nodes: usize, cores: Option<usize>) -> WaitingJob {
        WaitingJob { nodes: Some(nodes), cores, tasks: nodes }
    }

    fn tasks(tasks: usize, each: usize) -> WaitingJob {
        WaitingJob { nodes: None, cores: Some(tasks * each), tasks }
    }

    #[test]
    fn what_waits_is_placed_beside_what_runs() {
        for (allocated, waiting, needed) in [
            (&[0, 0, 0, 0][..], &[][..], 0),
            (&[1, 0, 0, 0], &[], 1),
            (&[0, 0, 4, 0], &[], 3),
            // Whole nodes, and parts of them.
            (&[0, 0, 0, 0], &[nodes(3, None)], 3),
            (&[1, 0, 0, 0], &[nodes(3, None)], 4),
            (&[1, 0, 0, 0], &[nodes(3, Some(9))], 3),
            (&[4, 0, 0, 0], &[nodes(1, None), nodes(1, None)], 3),
            // Tasks, on as few nodes as have room.
            (&[0, 0, 0, 0], &[tasks(4, 1)], 1),
            (&[2, 0, 0, 0], &[tasks(4, 1)], 2),
            (&[2, 0, 0, 0], &[tasks(2, 3)], 3),
            (&[0, 0, 0, 0], &[tasks(1, 1), tasks(3, 1), tasks(1, 1)], 2),
            (&[0, 0, 0, 0], &[WaitingJob { nodes: None, cores: None, tasks: 0 }], 1),
            // No room beside the others: it needs what it would need alone.
            (&[4, 0, 0, 0], &[nodes(4, None)], 4),
            (&[4, 4, 4, 4], &[nodes(2, None)], 4),
            // Too large for all of them.
            (&[1, 0, 0, 0], &[nodes(5, None)], 1),
            (&[0, 0, 0, 0], &[tasks(1, 5), nodes(1, Some(9))], 0),
            (&[0, 0, 0, 0], &[tasks(17, 1), nodes(2, None)], 2),
        ] {
            assert_eq!(
                pods_needed(&ranks(allocated), waiting, 4),
                needed,
                "{allocated:?} {waiting:?}"
            );
        }
        assert_eq!(pods_needed(&ranks(&[0, 0, 0, 0]), &[nodes(3, None)], 2), 0, "two pods at most");
        assert_eq!(pods_needed(&[], &[nodes(1, None)], 4), 0, "nobody knows the ranks");
    }

    #[test]
    fn a_rank_that_a_person_has_drained_is_passed_over_and_one_that_its_pod_has_left_is_not() {
        let mut ranks = ranks(&[0, 0, 0]);
        ranks[0].drained = Some("bad fan".to_owned());
        ranks[1].drained = Some(REASON.to_owned());
        assert_eq!(pods_needed(&ranks, &[nodes(1, None)], 3), 2);
        assert_eq!(pods_needed(&ranks, &[nodes(2, None)], 3), 3);
    }

    #[test]
    fn a_pod_is_kept_until_no_job_has_needed_it_for_a_while() {
        let (began, idle) = (Instant::now(), Duration::from_secs(10));
        let mut window = Window::new(began);
        for (second, wanted, kept) in [
            (0, 1, None),
            (4, 3, None),
            (5, 2, None),
            (10, 2, Some(3)),
            (14, 1, Some(3)),
            (15, 1, Some(2)),
            (20, 1, Some(2)),
            (21, 4, Some(4)),
            (31, 0, Some(4)),
            (32, 0, Some(0)),
        ] {
            let demand = window.add(began + Duration::from_secs(second), wanted, idle);
            assert_eq!(demand, Demand { wanted, kept }, "second {second}");
        }
    }

    fn job() -> impl Strategy<Value = WaitingJob> {
        let job = |(nodes, cores, tasks)| WaitingJob { nodes, cores, tasks };
        (prop::option::of(0usize..9), prop::option::of(0usize..40), 0usize..12).prop_map(job)
    }

    proptest! {
        #[test]
        fn no_busy_rank_is_given_up_and_nothing_beyond_the_most_is_asked_for(
            allocated in prop::collection::vec(0usize..5, 0..9),
            waiting in prop::collection::vec(job(), 0..9),
            most in 0u32..9,
        ) {
            let ranks = ranks(&allocated);
            let needed = pods_needed(&ranks, &waiting, most);
            let busy = allocated.iter().rposition(|cores| *cores > 0).map_or(0, |at| at + 1);
            let busy = u32::try_from(busy).unwrap();
            prop_assert!(needed >= busy && needed <= most.max(busy));
        }
    }
}
