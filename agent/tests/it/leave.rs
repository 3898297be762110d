//! A worker that gets SIGTERM leaves its rank in order, and the next one of that rank takes it again: on
//! the real binary.

use crate::pod::broker::UNREACHABLE;
use crate::prelude::*;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

/// Shell text of a broker that says when it gets SIGTERM, and ends.
const ENDS_AT_SIGTERM: &str =
    "trap 'touch $POD/ended; exit 0' TERM; touch $POD/up; while :; do sleep 0.02; done";

/// What the broker of rank 1 knows of those below it, in a tree `kary:1`.
const TREE: &str = r#"{"rank":1,"size":3,"children":[{"rank":2,"size":2,"children":[{"rank":3,"size":1,"children":[]}]}]}"#;
const EPROTO: u8 = 71;

/// What an instance of Flux knows of rank 1, and what it was asked.
#[derive(Default)]
struct Instance {
    /// Why it is drained, if it is.
    drained: Option<&'static str>,
    /// A job runs there.
    busy: bool,
    /// It is of a release that cannot be asked for the jobs of a rank.
    old: bool,
    /// The lead is gone: this errno is the answer to all questions for it.
    errno: Option<u8>,
    /// Topics and payloads.
    asked: Vec<String>,
}

impl Instance {
    fn reply(&mut self, topic: &str, payload: &str) -> Result<String, u8> {
        if topic == "state-machine.get" {
            return Ok(state_text("run"));
        }
        self.asked.push(format!("{topic} {payload}"));
        if let Some(errno) = self.errno {
            return Err(errno);
        }
        let drain = |reason| ("0-1", json!({ "timestamp": 1.5, "reason": reason }));
        let drained: HashMap<_, _> = self.drained.map(drain).into_iter().collect();
        let mut jobs = vec![json!({ "id": 1, "ranks": "0" })];
        jobs.retain(|_| self.old);
        jobs.extend(self.busy.then(|| json!({ "id": 25_568_477_184_u64, "ranks": "0-1" })));
        Ok(match topic {
            "overlay.topology" => TREE.to_owned(),
            "job-list.list" if self.old && payload.contains("and") => return Err(EPROTO),
            "resource.status" => json!({ "drain": drained }).to_string(),
            "job-list.list" => json!({ "jobs": jobs }).to_string(),
            _ => String::new(),
        })
    }

    fn times_asked(&self, what: &str) -> usize {
        self.asked.iter().filter(|asked| asked.starts_with(what)).count()
    }
}

/// A worker whose broker is up, in an instance of which `instance` is true.
struct Worker {
    pod: Pod,
    run: Background,
    instance: Arc<Mutex<Instance>>,
    _lead: tokio::runtime::Runtime,
}

impl Worker {
    fn of(instance: Instance, grace_seconds: u64) -> Self {
        let (pod, mut config, lead) = worker_with_lead();
        pod.broker_does(ENDS_AT_SIGTERM);
        config.shutdown.grace_seconds = grace_seconds;
        let instance = Arc::new(Mutex::new(instance));
        let asked = Arc::clone(&instance);
        broker_that(pod.layout().local_socket(), move |topic, payload| {
            asked.lock().unwrap().reply(topic, payload)
        });
        let run = pod.start(&config);
        let worker = Self { pod, run, instance, _lead: lead };
        worker.pod.await_file("up");
        worker.await_asked("resource.status", 1);
        worker
    }

    fn await_asked(&self, what: &str, times: usize) {
        let asked = || self.instance.lock().unwrap().times_asked(what) >= times;
        await_that(&format!("{what} is asked"), asked);
    }

    /// Waits for the end and returns the jobs that did not end, and the log.
    fn end(self) -> (Vec<String>, String) {
        let log = self.run.end().with_code(stopped()).log;
        assert!(self.pod.at("ended").exists(), "the broker got no SIGTERM: {log}");
        (self.pod.message().unfinished_jobs, log)
    }
}

/// Long enough for whatever a test waits for.
const LONG: u64 = 600;

#[test]
fn a_worker_drains_its_rank_before_its_broker_ends() {
    let worker = Worker::of(Instance { busy: true, ..Instance::default() }, LONG);
    worker.run.signal(Signal::SIGTERM);
    worker.await_asked("job-list.list", 2);
    assert!(!worker.pod.at("ended").exists(), "a job runs");
    worker.instance.lock().unwrap().busy = false;
    let instance = Arc::clone(&worker.instance);
    let (unfinished, log) = worker.end();
    assert_eq!(unfinished, [""; 0]);
    assert!(log.contains("no job runs on rank 1: ending the broker"), "{log}");
    // Their brokers end with this one.
    let drain = r#"resource.drain {"reason":"flux-agent: its pod is stopping","targets":"1-3"}"#;
    let instance = instance.lock().unwrap();
    assert_eq!(instance.times_asked(drain), 1, "{:?}", instance.asked);
    let of_all = |asked: &&String| asked.starts_with("job-list") && asked.contains(r#"["1-3"]"#);
    assert!(instance.asked.iter().any(|asked| of_all(&asked)), "{:?}", instance.asked);
}

/// An old release lists the jobs of all ranks.
#[test]
fn jobs_that_do_not_end_in_time_are_named() {
    for old in [false, true] {
        let worker = Worker::of(Instance { busy: true, old, ..Instance::default() }, 2);
        worker.run.signal(Signal::SIGTERM);
        let (unfinished, log) = worker.end();
        assert_eq!(unfinished, ["ƒfxQ8UX"], "{old}: {log}");
        assert!(log.contains("rank 1: jobs that did not end in time: ƒfxQ8UX"), "{log}");
    }
}

#[test]
fn a_second_signal_or_a_lost_lead_ends_the_wait() {
    let asked_twice = Worker::of(Instance { busy: true, ..Instance::default() }, LONG);
    asked_twice.run.signal(Signal::SIGTERM);
    asked_twice.await_asked("job-list.list", 1);
    asked_twice.run.signal(Signal::SIGTERM);
    let gone = Instance { busy: true, errno: Some(UNREACHABLE), ..Instance::default() };
    let without_lead = Worker::of(gone, LONG);
    without_lead.run.signal(Signal::SIGTERM);
    let begun = Instant::now();
    asked_twice.end();
    let (_, log) = without_lead.end();
    let why = "resource.status with errno 113 (No route to host); ending the broker at once";
    assert!(log.contains(why), "{log}");
    assert!(begun.elapsed() < PATIENCE / 2);
}

#[test]
fn only_the_drain_that_a_pod_has_left_is_lifted() {
    for (reason, lifted) in [("flux-agent: its pod is stopping", 1), ("bad fan", 0)] {
        let worker = Worker::of(Instance { drained: Some(reason), ..Instance::default() }, LONG);
        if lifted > 0 {
            worker.await_asked(r#"resource.undrain {"targets":"1"}"#, 1);
        }
        worker.run.signal(Signal::SIGTERM);
        let instance = Arc::clone(&worker.instance);
        worker.end();
        let instance = instance.lock().unwrap();
        let asked = |what| instance.times_asked(what);
        assert_eq!(asked("resource.undrain"), lifted, "{reason}: {:?}", instance.asked);
        let below =
            r#"resource.drain {"reason":"flux-agent: its pod is stopping","targets":"2-3"}"#;
        let drains = [asked(below), asked("resource.drain")];
        assert_eq!(drains, [1, 1], "its own rank is drained: {:?}", instance.asked);
    }
}

#[test]
fn a_broker_that_was_never_up_is_ended_at_once() {
    let (pod, config, _lead) = worker_with_lead();
    pod.broker_does(ENDS_AT_SIGTERM);
    broker_that(pod.layout().local_socket(), |_, _| Ok(state_text("join")));
    let run = pod.start(&config);
    pod.await_file("up");
    run.signal(Signal::SIGTERM);
    let log = run.end().with_code(stopped()).log;
    assert!(pod.at("ended").exists() && !log.contains("draining"), "{log}");
}
