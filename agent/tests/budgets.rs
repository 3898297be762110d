//! The limits of the agent's processor time and memory, measured with the binary of its image. Elapsed time is not measured,
//! as it depends on other work of the machine.
//!
//! `cargo verify` runs these tests one after the other with that binary; the binary of other tests is much larger.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "it/pod/mod.rs"]
mod pod;
#[path = "it/settings.rs"]
mod settings;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use pod::{Background, Pod, closed_port};
use std::fs;

/// Peak resident memory of PID 1, in KiB.
const MEMORY_LIMIT: u64 = 8 * 1024;
/// Processor time from exec to a printed plan, in microseconds.
const PLAN_LIMIT: i64 = 10_000;
/// Measurements of which the middle one counts.
const ROUNDS: usize = 15;

/// Peak resident memory of `run`, in KiB.
fn peak_memory(run: &Background) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", run.0.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Processor time of all children that have ended, in microseconds.
fn time_of_children() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    (usage.user_time() + usage.system_time()).num_microseconds()
}

fn assert_within_memory(run: &Background, state: &str) {
    let peak = peak_memory(run);
    assert!(peak <= MEMORY_LIMIT, "{state} it took {peak} KiB, more than {MEMORY_LIMIT}");
}

#[test]
#[ignore = "measures the agent of the image, which `cargo verify` builds and names"]
fn a_plan_is_there_within_ten_milliseconds_of_processor_time() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    let mut times: Vec<i64> = (0..ROUNDS)
        .map(|_| {
            let before = time_of_children();
            pod.ask("plan", &[]).with_code(0);
            time_of_children() - before
        })
        .collect();
    times.sort_unstable();
    println!("plan: {times:?} microseconds");
    let middle = times[ROUNDS / 2];
    assert!(middle <= PLAN_LIMIT, "a plan took {middle} microseconds, more than {PLAN_LIMIT}");
}

#[test]
#[ignore = "measures the agent of the image, which `cargo verify` builds and names"]
fn it_waits_for_the_lead_in_little_memory() {
    let (pod, config) = Pod::worker(closed_port());
    let run = pod.start(&config);
    pod::await_that("it waits for the lead", || {
        pod.ask("status", &[]).output.contains("wait-for-lead")
    });
    assert_within_memory(&run, "while it waited for the lead");
}

#[test]
#[ignore = "measures the agent of the image, which `cargo verify` builds and names"]
fn it_runs_a_command_in_little_memory() {
    let pod = Pod::new();
    let script = "touch $POD/running; while [ ! -e $POD/done ]; do sleep 0.02; done";
    let run = pod.start(&pod.launcher(script));
    pod.await_file("running");
    // As the kubelet does.
    assert!(!pod.ask("status", &[]).output.is_empty());
    assert_within_memory(&run, "while the command ran");
    fs::write(pod.at("done"), "").unwrap();
    run.end().with_code(0);
}
