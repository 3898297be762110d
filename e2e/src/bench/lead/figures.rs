//! What was seen of the agents, and the figures made of it.

use std::time::Duration;

use serde::Serialize;

use super::counters::Counters;
use crate::bench::table::render;

/// Connections are counted in stretches of this length to find the peak.
const STRETCH: Duration = Duration::from_millis(100);

/// The counters at one time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Since the first agent was started.
    pub(super) at: Duration,
    pub(super) counters: Counters,
}

/// When the port opens, and when it did; since the first agent was started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    /// When the last agent was started.
    pub(super) started: Duration,
    /// How much later it was to open.
    pub(super) delay: Duration,
    /// When it was open.
    pub(super) opened: Duration,
}

/// How an agent ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) at: Duration,
    /// Whether the lead let it in.
    pub(super) let_in: bool,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figures {
    agents: usize,
    /// Until the last agent was started.
    start_seconds: f64,
    /// From the last agent's start until the port was to open.
    delay_seconds: f64,
    /// From the open port to the first, the middle and the last agent that was let in.
    first_seconds: f64,
    median_seconds: f64,
    last_seconds: f64,
    /// Agents that were not let in.
    lost: usize,
    /// Handshakes that the lead has completed.
    handshakes: u64,
    /// Connections that were begun, and those of them that were refused.
    connections: u64,
    refused: u64,
    /// Connections begun in a second while all agents waited for the port: on average, and the most.
    mean_closed: f64,
    peak_closed: f64,
    /// The most once it was open.
    peak_open: f64,
}

impl Figures {
    /// The figures of what was seen.
    pub(super) fn new(
        opening: Opening,
        samples: &[Sample],
        ends: &[Ended],
        handshakes: u64,
    ) -> Self {
        let Opening { started, delay, opened } = opening;
        let mut let_in: Vec<f64> = ends
            .iter()
            .filter(|end| end.let_in)
            .map(|end| end.at.saturating_sub(opened).as_secs_f64())
            .collect();
        let_in.sort_by(f64::total_cmp);
        let at = |index: usize| let_in.get(index).copied().unwrap_or(f64::NAN);
        let last = samples.last().map(|sample| sample.counters).unwrap_or_default();
        let (closed, open): (Vec<Sample>, Vec<Sample>) = samples
            .iter()
            .filter(|sample| sample.at >= started)
            .copied()
            .partition(|sample| sample.at < opened);
        Self {
            agents: ends.len(),
            start_seconds: started.as_secs_f64(),
            delay_seconds: delay.as_secs_f64(),
            first_seconds: at(0),
            median_seconds: at(let_in.len() / 2),
            last_seconds: at(let_in.len().saturating_sub(1)),
            lost: ends.len() - let_in.len(),
            handshakes,
            connections: last.begun,
            refused: last.failed,
            mean_closed: closed.first().zip(closed.last()).map_or(0.0, |(a, b)| rate(a, b)),
            peak_closed: peak(&closed),
            peak_open: peak(&open),
        }
    }
}

/// Connections begun in a second between two samples.
fn rate(from: &Sample, to: &Sample) -> f64 {
    let begun = to.counters.since(&from.counters).begun;
    // Far below 2^32: a process has no more ports.
    let begun = f64::from(u32::try_from(begun).unwrap_or(u32::MAX));
    let seconds = to.at.saturating_sub(from.at).as_secs_f64();
    if seconds > 0.0 { begun / seconds } else { 0.0 }
}

/// Most connections begun in a second, from stretches of at least [`STRETCH`].
fn peak(samples: &[Sample]) -> f64 {
    let Some(mut from) = samples.first() else { return 0.0 };
    let mut most: f64 = 0.0;
    for sample in samples {
        if sample.at.saturating_sub(from.at) >= STRETCH {
            most = most.max(rate(from, sample));
            from = sample;
        }
    }
    most
}

/// A table of measurements.
pub(super) fn table(all: &[Figures]) -> String {
    let titles = [
        "agents",
        "opens s",
        "first s",
        "median s",
        "last s",
        "lost",
        "connections",
        "refused",
        "mean/s closed",
        "peak/s closed",
        "peak/s open",
    ];
    let row = |it: &Figures| {
        [
            it.agents.to_string(),
            format!("{:.1}", it.delay_seconds),
            format!("{:.3}", it.first_seconds),
            format!("{:.3}", it.median_seconds),
            format!("{:.3}", it.last_seconds),
            it.lost.to_string(),
            it.connections.to_string(),
            it.refused.to_string(),
            format!("{:.0}", it.mean_closed),
            format!("{:.0}", it.peak_closed),
            format!("{:.0}", it.peak_open),
        ]
    };
    let rows = all.iter().map(|it| row(it).to_vec());
    let table: Vec<_> = [titles.map(str::to_owned).to_vec()].into_iter().chain(rows).collect();
    render(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(milliseconds: u64, begun: u64) -> Sample {
        let counters = Counters { begun, failed: 0 };
        Sample { at: Duration::from_millis(milliseconds), counters }
    }

    #[test]
    fn the_peak_is_that_of_the_busiest_stretch() {
        let samples = [sample(0, 0), sample(50, 40), sample(100, 50), sample(200, 60)];
        assert!((peak(&samples) - 500.0).abs() < 1e-9);
        assert!(peak(&[]).abs() < 1e-9);
    }

    #[test]
    fn times_count_from_the_open_port_and_who_was_not_let_in_is_lost() {
        let seconds = Duration::from_secs;
        let opening = Opening { started: seconds(1), delay: seconds(2), opened: seconds(3) };
        let end = |at, let_in| Ended { at: seconds(at), let_in };
        let ends = [end(5, true), end(4, true), end(9, false), end(7, true)];
        let samples = [sample(2900, 10), sample(3100, 30)];
        let figures = Figures::new(opening, &samples, &ends, 3);
        assert_eq!((figures.agents, figures.lost, figures.connections), (4, 1, 30));
        let times = [figures.first_seconds, figures.median_seconds, figures.last_seconds];
        assert_eq!(format!("{times:?}"), "[1.0, 2.0, 4.0]");
        assert_eq!(table(&[figures]).lines().count(), 2);
    }
}
