//! Wall times: the texts that users' scripts look for, and the timeline of a run.

use flux_contract::Phase;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;
use tokio::time::Instant;

/// `duration` as `%E` of GNU time(1) shows it: `m:ss.cc` below an hour, `h:mm:ss` from there on.
/// Fractions are cut, not rounded, as GNU time does.
pub(crate) fn elapsed_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, rest) = (seconds / 60, seconds % 60);
    if seconds >= 3600 {
        format!("{}:{:02}:{rest:02}", minutes / 60, minutes % 60)
    } else {
        format!("{minutes}:{rest:02}.{:02}", duration.subsec_millis() / 10)
    }
}

/// The line that users and tools search the lead's log for when `logging.timed` is set, as
/// `FLUXTIME fluxsubmit wall time 0:04.73`.
pub(crate) fn fluxtime_line(what: &str, duration: Duration) -> String {
    format!("FLUXTIME {what} wall time {}", elapsed_text(duration))
}

/// The phases of a run in order, one at a time, on a monotonic clock. Of several starts of the broker
/// it keeps the first and the last: a worker may start its broker thousands of times.
#[derive(Debug)]
pub(crate) struct Timeline {
    origin: Instant,
    done: Vec<Phase>,
    /// How many of `done` came before the second start.
    first_start: Option<usize>,
    running: Option<(String, Instant)>,
}

impl Timeline {
    /// A timeline that begins now.
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now(), done: Vec::new(), first_start: None, running: None }
    }

    /// Ends the phase that runs, if one does, and begins phase `name`.
    pub(crate) fn start(&mut self, name: &str) {
        let now = Instant::now();
        self.end_running(now);
        self.running = Some((name.to_owned(), now));
    }

    /// Ends the phase that runs, if one does: the broker is about to be started again. The start that
    /// comes takes the place of the one that was, unless that was the first.
    pub(crate) fn start_again(&mut self) {
        self.end_running(Instant::now());
        match self.first_start {
            Some(first) => self.done.truncate(first),
            None => self.first_start = Some(self.done.len()),
        }
    }

    /// When the phase that runs began.
    pub(crate) fn running_since(&self) -> Option<Instant> {
        self.running.as_ref().map(|(_, start)| *start)
    }

    /// Ends the phase that runs, if one does, and returns all phases so far. Calling it again, or
    /// starting another phase afterwards, is fine.
    pub(crate) fn finish(&mut self) -> Vec<Phase> {
        self.end_running(Instant::now());
        self.done.clone()
    }

    /// All phases so far; the one that runs, with its duration up to now, comes last.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        let now = Instant::now();
        let running = self.running.as_ref().map(|(name, start)| self.phase(name, *start, now));
        self.done.iter().cloned().chain(running).collect()
    }

    fn end_running(&mut self, now: Instant) {
        if let Some((name, start)) = self.running.take() {
            self.done.push(self.phase(&name, start, now));
        }
    }

    fn phase(&self, name: &str, start: Instant, end: Instant) -> Phase {
        Phase {
            name: name.to_owned(),
            start_milliseconds: milliseconds(start.saturating_duration_since(self.origin)),
            duration_milliseconds: milliseconds(end.saturating_duration_since(start)),
        }
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the same in all processes of a machine.
pub(crate) fn monotonic_nanoseconds() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(|time| u64::try_from(Duration::from(time).as_nanos()).unwrap_or(u64::MAX))
        .unwrap_or_default()
}

/// `duration` in whole milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[test]
    fn times_look_as_gnu_time_prints_them() {
        let text = |milliseconds| elapsed_text(Duration::from_millis(milliseconds));
        assert_eq!(text(0), "0:00.00");
        assert_eq!(text(4_739), "0:04.73");
        assert_eq!(text(59_999), "0:59.99");
        assert_eq!(text(60_000), "1:00.00");
        assert_eq!(text(3_599_990), "59:59.99");
        assert_eq!(text(3_600_000), "1:00:00");
        assert_eq!(text(3_723_900), "1:02:03");
        assert_eq!(text(360_000_000), "100:00:00");
    }

    #[test]
    fn the_fluxtime_line_is_the_one_scripts_search_for() {
        assert_eq!(
            fluxtime_line("fluxsubmit", Duration::from_millis(4_730)),
            "FLUXTIME fluxsubmit wall time 0:04.73"
        );
    }

    fn phase(name: &str, start_milliseconds: u64, duration_milliseconds: u64) -> Phase {
        Phase { name: name.to_owned(), start_milliseconds, duration_milliseconds }
    }

    #[tokio::test(start_paused = true)]
    async fn a_phase_ends_where_the_next_begins() {
        let mut timeline = Timeline::new();
        advance(Duration::from_millis(10)).await;
        timeline.start("prepare");
        advance(Duration::from_millis(20)).await;
        timeline.start("command");
        advance(Duration::from_millis(70)).await;
        let expected = vec![phase("prepare", 10, 20), phase("command", 30, 70)];
        assert_eq!(timeline.phases(), expected, "the running phase counts up to now");
        assert_eq!(timeline.finish(), expected);
        advance(Duration::from_millis(100)).await;
        assert_eq!(timeline.finish(), expected, "finishing twice changes nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_thousand_starts_the_first_and_the_last_are_kept() {
        let mut timeline = Timeline::new();
        timeline.start("prepare");
        for _ in 0..1000 {
            timeline.start("quorum");
            advance(Duration::from_millis(4)).await;
            timeline.start_again();
            advance(Duration::from_millis(6)).await;
        }
        timeline.start("quorum");
        advance(Duration::from_millis(7)).await;
        let expected =
            vec![phase("prepare", 0, 0), phase("quorum", 0, 4), phase("quorum", 10_000, 7)];
        assert_eq!(timeline.finish(), expected);
    }

    #[test]
    fn the_clock_runs_forwards() {
        let first = monotonic_nanoseconds();
        assert!(first > 0 && monotonic_nanoseconds() >= first);
    }
}
