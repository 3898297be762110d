//! The last moment of PID 1: whoever asks whether the pod is ready gets an answer before it ends.
//!
//! With PID 1 ends everything in its container, and the kubelet learns of that up to a second later.
//! A probe that is cut off so, or that is to start in that second, becomes a Warning Event about a run
//! with which nothing was wrong. So a good run waits for the probes that are due; a run that is longer
//! than a few seconds has had the first ones long before.
//!
//! The startup probe's success brings the first readiness probe. A kubelet that looks at the pod while that
//! one runs asks for another right after it (`UpdatePodStatus` in `pkg/kubelet/prober/prober_manager.go` of
//! 1.36). It comes late where the node has much to do, and how late the second one came tells of that: of the
//! time between the first two, the kubelet may have spent one pause between its looks doing nothing.

use crate::process::signals::Signals;
use crate::status::readiness::Answered;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// How long the kubelet may take to notice that a container has ended: it looks at all of them every
/// [`LOOK`], and the look takes its time.
const NOTICE: Duration = Duration::from_millis(1500);
/// How long the first probe may take to come: the kubelet has to notice the start, too.
const FIRST_PROBE: Duration = Duration::from_secs(4);
/// How long the next one may take, once the kubelet asks.
const NEXT_PROBE: Duration = Duration::from_secs(10);
/// How many come at the start: the startup probe, and the readiness probe at once after it has succeeded.
const FIRST: u32 = 2;
/// How often the kubelet looks at the containers (`genericPlegRelistPeriod`): no work of a node, but a pause.
const LOOK: Duration = Duration::from_secs(1);
/// How long the probe that may follow the first readiness probe takes at least to come.
const FOLLOWS: Duration = Duration::from_millis(300);
/// How long a probe that has its answer may take to go.
const END: Duration = Duration::from_secs(2);

/// Lets those who ask have their answer, which the end of the run has settled. After a good run, whose
/// readiness probe comes every `period`, those who are about to ask as well.
pub(crate) async fn wait_for_due_probes(
    signals: &mut Signals,
    answered: &mut watch::Receiver<Answered>,
    period: Option<Duration>,
) {
    if let Some(period) = period {
        // Told to stop: then the pod is being deleted, and nobody minds.
        let _ = signals.unless_stopped(answer_the_kubelet(answered, period)).await;
    }
    let _ = timeout(END, answered.wait_for(|answered| answered.open == 0)).await;
}

async fn answer_the_kubelet(answered: &mut watch::Receiver<Answered>, period: Duration) {
    let first = answered.wait_for(|answered| answered.ready > 0);
    if timeout(FIRST_PROBE, first).await.is_ok() {
        let all = answered.wait_for(|answered| answered.ready >= FIRST);
        let _ = timeout(NEXT_PROBE, all).await;
    }
    let so_far = *answered.borrow_and_update();
    if let Some(wait) = until_asked(so_far, period, Instant::now()) {
        let _ = timeout(wait, answered.changed()).await;
    }
}

/// How long to wait for the next probe, if one could come before the kubelet notices the end: one comes
/// every `period`, and one may follow the first readiness probe at once.
fn until_asked(so_far: Answered, period: Duration, now: Instant) -> Option<Duration> {
    let (first, last) = (so_far.first?, so_far.last?);
    let slow = (last - first).saturating_sub(LOOK) * 2;
    let follows = last + slow.clamp(FOLLOWS, NEXT_PROBE);
    if so_far.ready == FIRST && now < follows {
        return Some(follows - now);
    }
    let next = last + period;
    let is_due = now + NOTICE >= next && now <= next + NOTICE;
    is_due.then(|| (next + NOTICE).saturating_duration_since(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    #[test]
    fn only_a_probe_that_is_due_is_waited_for() {
        let (last, period) = (Instant::now(), Duration::from_mins(1));
        let so_far = Answered { ready: 3, first: Some(last - period), last: Some(last), open: 0 };
        let wait = |seconds| until_asked(so_far, period, last + Duration::from_secs(seconds));
        assert_eq!((wait(0), wait(30), wait(58)), (None, None, None));
        assert_eq!(wait(59), Some(Duration::from_millis(2500)));
        assert_eq!(wait(61), Some(Duration::from_millis(500)));
        assert_eq!(wait(62), None, "the kubelet asks no more");
    }

    #[test]
    fn a_readiness_probe_may_follow_the_first_one_later_on_a_slow_node() {
        let (first, period) = (Instant::now(), Duration::from_mins(1));
        let millis = Duration::from_millis;
        let wait = |gap, after| {
            let last = first + millis(gap);
            let so_far = Answered { ready: 2, first: Some(first), last: Some(last), open: 0 };
            until_asked(so_far, period, last + millis(after))
        };
        assert_eq!((wait(300, 100), wait(300, 300)), (Some(millis(200)), None));
        assert_eq!((wait(1_100, 100), wait(1_100, 300)), (Some(millis(200)), None));
        assert_eq!((wait(2_000, 100), wait(2_000, 2_000)), (Some(millis(1_900)), None));
        let last = Some(first + millis(300));
        let third = Answered { ready: 3, first: Some(first), last, open: 0 };
        assert_eq!(until_asked(third, period, first + millis(400)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kubelet_that_does_not_ask_is_not_waited_for_long() {
        let (_sender, mut answered) = watch::channel(Answered::default());
        let started = Instant::now();
        answer_the_kubelet(&mut answered, Duration::from_mins(1)).await;
        assert_eq!(started.elapsed(), FIRST_PROBE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_was_asked_before_ends_at_once() {
        let last = Some(Instant::now());
        let (_sender, mut answered) =
            watch::channel(Answered { ready: 2, first: last, last, open: 0 });
        tokio::time::advance(FOLLOWS).await;
        let started = Instant::now();
        answer_the_kubelet(&mut answered, Duration::from_mins(1)).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_ends_before_its_first_probes_waits_for_them() {
        let (sender, mut answered) = watch::channel(Answered::default());
        let started = Instant::now();
        tokio::spawn(async move {
            let mut first = None;
            for ready in 1..=2 {
                sleep(Duration::from_secs(1)).await;
                let now = Instant::now();
                first.get_or_insert(now);
                sender.send_replace(Answered { ready, first, last: Some(now), open: 0 });
            }
            sleep(Duration::from_mins(1)).await;
        });
        answer_the_kubelet(&mut answered, Duration::from_mins(1)).await;
        assert_eq!(started.elapsed(), Duration::from_secs(2) + FOLLOWS);
    }
}
