//! Counts the pods that the running and waiting jobs of an instance need. The operator requests the number and gives the
//! instance as many pods (docs/design/demand.md).
//!
//! No service of Flux reports which resources a waiting job would get. So the agent places the waiting jobs on the free
//! resources itself, on the lowest ranks first as the schedulers do, by their numbers of nodes, cores and tasks in job-list.

use crate::flux::drain::REASON;
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

const INTERVAL: Duration = Duration::from_millis(500);
/// The pause is at least so many times as long as the last read, so that a long queue does not keep the broker busy.
const PAUSE_FACTOR: u32 = 10;
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Publishes the number of pods that the jobs need, until it is dropped. Reads `settings` again from the file `config`, as
/// they may change.
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
        let counted = timeout(READ_TIMEOUT, count(&broker, settings.max_size)).await;
        // Without an answer of the broker the number is not known.
        let wanted = counted.ok().and_then(Result::ok);
        let idle = Duration::from_secs(settings.idle_seconds);
        reporter.publish(wanted.map(|wanted| window.add(Instant::now(), wanted, idle)));
        sleep(INTERVAL.max(began.elapsed() * PAUSE_FACTOR)).await;
    }
}

async fn count(broker: &BrokerAddress, most: u32) -> Result<u32, SocketError> {
    let mut socket = broker.connect().await?;
    // A job that starts between the two requests counts twice. In the opposite order it would not count at all.
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

/// The number of pods, at most `most`, for the running jobs and those of `waiting`: 1 more than the highest rank of a job.
/// A job without room beside the others waits for them, and needs as many pods as it would need alone. A job that is too
/// large for `most` pods needs none.
fn pods_needed(ranks: &[RankStatus], waiting: &[WaitingJob], most: u32) -> u32 {
    let busy =
        ranks.iter().filter(|status| status.cores_allocated > 0 || status.gpus_allocated > 0);
    let mut highest = busy.map(|status| status.rank).max();
    // The next pod of a rank undrains a rank that an agent has drained.
    let is_given = |status: &&RankStatus| status.drained.as_deref().is_none_or(|why| why == REASON);
    let given = ranks.iter().filter(|status| status.rank < most).filter(is_given);
    let mut beside: Vec<Place> = given
        .map(|status| {
            let free = status.cores.saturating_sub(status.cores_allocated);
            Place { rank: status.rank, cores: status.cores, free }
        })
        .collect();
    let empty: Vec<Place> =
        beside.iter().map(|place| Place { free: place.cores, ..*place }).collect();
    for job in waiting {
        if highest.is_some_and(|rank| rank + 1 >= most) {
            break;
        }
        let placed = place(job, &mut beside).or_else(|| place(job, &mut empty.clone()));
        highest = highest.max(placed);
    }
    highest.map_or(0, |rank| rank + 1)
}

/// Takes the resources of `job` from `places`, which are in the order of their ranks, and returns its highest rank. Takes
/// nothing if there is not enough.
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

/// The places and the number of cores of each for a job that requests nodes: all cores, unless it requests a number.
fn on_nodes(job: &WaitingJob, nodes: usize, places: &[Place]) -> Option<Vec<(usize, usize)>> {
    let share_of = |place: &Place| match job.cores {
        Some(cores) => Some(cores.div_ceil(nodes.max(1))).filter(|share| *share <= place.free),
        None => Some(place.cores).filter(|all| *all == place.free),
    };
    let fitting = places.iter().enumerate().filter_map(|(at, place)| Some((at, share_of(place)?)));
    let takes: Vec<_> = fitting.take(nodes).collect();
    (takes.len() == nodes).then_some(takes)
}

/// The same for a job that requests cores alone. The cores of a task are on one node.
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

/// The recent demand: times with the highest number of pods since then.
struct Window {
    began: Instant,
    seen: VecDeque<(Instant, u32)>,
}

impl Window {
    const fn new(began: Instant) -> Self {
        Self { began, seen: VecDeque::new() }
    }

    /// The demand at `now`. A pod is kept that was wanted within `idle`. The demand before the beginning is not known, so no
    /// pod is given up before `idle` has passed.
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
    fn waiting_jobs_are_placed_beside_running_ones() {
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
            let found = pods_needed(&ranks(allocated), waiting, 4);
            assert_eq!(found, needed, "{allocated:?} {waiting:?}");
        }
        assert_eq!(pods_needed(&ranks(&[0, 0, 0, 0]), &[nodes(3, None)], 2), 0, "two pods at most");
        assert_eq!(pods_needed(&[], &[nodes(1, None)], 4), 0, "nobody knows the ranks");
    }

    #[test]
    fn ranks_that_a_person_has_drained_are_not_used() {
        let mut ranks = ranks(&[0, 0, 0]);
        ranks[0].drained = Some("bad fan".to_owned());
        ranks[1].drained = Some(REASON.to_owned());
        assert_eq!(pods_needed(&ranks, &[nodes(1, None)], 3), 2);
        assert_eq!(pods_needed(&ranks, &[nodes(2, None)], 3), 3);
    }

    #[test]
    fn unused_pods_are_kept_for_the_idle_time() {
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
        fn busy_ranks_are_kept_and_the_limit_is_respected(
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
