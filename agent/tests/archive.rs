//! State kept from one `MiniCluster` to the next, on the real binary with a shell script in place of
//! Flux.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod pod;

use flux_contract::{AgentConfig, Archive, Exit};
use pod::{Pod, code, stderr};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

#[test]
fn an_archive_is_restored_only_if_it_exists_when_the_broker_starts() {
    let pod = Pod::new();
    let archive = pod.at("archive.tgz");
    let mut config = config(&pod, &["true"], &archive);
    pod.run(&config);
    assert!(!pod.read("flux-calls").contains("content.restore"));
    // A hook may be what brings it.
    config.hooks.pre = Some(format!("echo > {}", archive.display()));
    pod.run(&config);
    let calls = pod.read("flux-calls");
    assert!(calls.contains(&format!("-Scontent.restore={}", archive.display())), "{calls}");
    let dump = pod.at(".archive.tgz.hello-0.new/dump.tgz");
    assert!(calls.contains(&format!("-Scontent.dump={}", dump.display())), "{calls}");
}

/// Shell text of a broker that dumps `$POD/dump` to the path of the configuration.
const DUMPS: &str = "for word; do
    case \"$word\" in -Scontent.dump=*) cp $POD/dump \"${word#-Scontent.dump=}\" ;; esac
done";

/// `pod` with a command and an archive at `path`.
fn config(pod: &Pod, command: &[&str], path: &Path) -> AgentConfig {
    let archive = Some(Archive { path: path.display().to_string() });
    AgentConfig { archive, ..pod.config(command) }
}

/// A pod whose broker dumps `dump`, and its archive with the state of before.
fn pod_with_archive(dump: &[u8], name: &str) -> (Pod, PathBuf) {
    let pod = Pod::new();
    pod.broker_ends_with(DUMPS);
    fs::create_dir(pod.at("state")).unwrap();
    let archive = pod.at("state").join(name);
    fs::write(&archive, "before").unwrap();
    fs::write(pod.at("dump"), dump).unwrap();
    (pod, archive)
}

#[test]
fn a_whole_dump_replaces_the_archive_also_when_the_command_failed() {
    let whole = [vec![b'x'; 512], vec![0; 1024]].concat();
    let (pod, archive) = pod_with_archive(&whole, "archive.tar");
    let output = pod.run(&config(&pod, &["sh", "-c", "exit 7"], &archive));
    assert_eq!(code(&output), 7, "{}", stderr(&output));
    assert_eq!(fs::read(&archive).unwrap(), whole);
    assert_eq!(fs::read_dir(pod.at("state")).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_dump_that_was_cut_off_leaves_the_archive_as_it_was_and_is_reported() {
    let (pod, archive) = pod_with_archive(b"half", "archive.tar");
    pod.broker_ends_with(&format!("{DUMPS}\nexit 1"));
    let output = pod.run(&config(&pod, &["sh", "-c", "exit 7"], &archive));
    assert_eq!((code(&output), fs::read(&archive).unwrap()), (7, b"before".to_vec()));
    let error = stderr(&output);
    assert!(error.contains("archive.tar") && error.contains("not whole"), "{error}");
    assert!(pod.message().last_error.unwrap().contains("the broker ended with exit code 1"));
    assert_eq!(fs::read_dir(pod.at("state")).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_broker_that_never_ran_leaves_the_archive_as_it_was() {
    let (pod, archive) = pod_with_archive(b"", "archive.tgz");
    pod.broker_does("exit 1");
    let output = pod.run(&config(&pod, &["true"], &archive));
    assert_eq!(code(&output), i32::from(Exit::Broker.code()), "{}", stderr(&output));
    assert_eq!(fs::read(&archive).unwrap(), b"before");
}

#[test]
fn a_place_that_takes_no_files_ends_the_run_before_there_is_a_state_to_keep() {
    let pod = Pod::new();
    // A file system that takes no directories.
    symlink("/proc", pod.at("state")).unwrap();
    let output = pod.run(&config(&pod, &["touch", "ran"], &pod.at("state/archive.tgz")));
    assert_eq!(code(&output), i32::from(Exit::Prepare.code()), "{}", stderr(&output));
    let message = pod.message();
    assert!(message.last_error.unwrap().contains("place for the archive's next state"));
    assert!(!message.command_ran && !pod.at("work/ran").exists());
}

#[test]
fn an_archive_on_a_volume_that_is_read_only_is_restored_and_its_state_said_to_be_lost() {
    let pod = Pod::new();
    fs::create_dir(pod.at("state")).unwrap();
    fs::write(pod.at("state/archive.tgz"), "before").unwrap();
    let config = config(&pod, &["true"], &pod.at("state/archive.tgz"));
    let Some(output) = pod.with_read_only("state", &pod.prepared(&config)) else { return };
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let calls = pod.read("flux-calls");
    assert!(calls.contains("content.restore") && !calls.contains("content.dump"), "{calls}");
    assert!(pod.message().last_error.unwrap().contains("will not be kept"));
}

#[test]
fn an_archive_that_cannot_be_looked_at_ends_the_run_and_is_not_replaced() {
    let whole = [vec![b'x'; 512], vec![0; 1024]].concat();
    let (pod, archive) = pod_with_archive(&whole, "archive.tar");
    fs::remove_file(&archive).unwrap();
    symlink(&archive, &archive).unwrap();
    let output = pod.run(&config(&pod, &["touch", "ran"], &archive));
    assert_eq!(code(&output), i32::from(Exit::Prepare.code()), "{}", stderr(&output));
    let message = pod.message();
    let error = message.last_error.unwrap();
    assert!(!message.command_ran && error.contains("look for archive"), "{error}");
    assert!(archive.is_symlink() && !pod.at("work/ran").exists());
}
