//! State kept from one `MiniCluster` to the next.

use crate::prelude::*;
use flux_contract::Archive;
use std::os::unix::fs::symlink;

#[test]
fn an_archive_is_restored_if_it_exists() {
    let pod = Pod::new();
    let archive = pod.at("archive.tgz");
    let mut config = config(&pod, &["true"], &archive);
    pod.run(&config);
    assert!(!pod.read("flux-calls").contains("content.restore"));
    // A hook may be what brings it.
    config.hooks.pre = Some("echo > $POD/archive.tgz".to_owned());
    pod.write_config(&config);
    fs::write(&archive, "state").unwrap();
    let planned = planned_command(&pod);
    fs::remove_file(&archive).unwrap();
    pod.run(&config);
    let calls = pod.read("flux-calls");
    assert!(calls.lines().any(|call| call == planned), "{planned}: {calls}");
    assert!(calls.contains(&format!("-Scontent.restore={}", archive.display())), "{calls}");
    let dump = pod.at(".archive.tgz.hello-0.new/dump.tgz");
    assert!(calls.contains(&format!("-Scontent.dump={}", dump.display())), "{calls}");
}

/// The command line of the broker by `flux-agent plan`.
fn planned_command(pod: &Pod) -> String {
    let plan = pod.ask("plan", &["--output", "json"]).json();
    let words = plan["broker"]["command"].as_array().unwrap();
    words.iter().map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

/// Shell text of a broker that dumps `$POD/dump` to the path of the configuration.
pub(crate) const DUMPS: &str = "for word; do
    case \"$word\" in -o-Scontent.dump=*) cp $POD/dump \"${word#-o-Scontent.dump=}\" ;; esac
done";

/// `pod` with a command and an archive at `path`.
pub(crate) fn config(pod: &Pod, command: &[&str], path: &Path) -> AgentConfig {
    let archive = Some(Archive { path: path.display().to_string(), every_seconds: None });
    AgentConfig { archive, ..pod.config(command) }
}

/// The dump of a broker that has had the time for it.
pub(crate) fn whole_dump() -> Vec<u8> {
    [vec![b'x'; 512], vec![0; 1024]].concat()
}

/// A pod whose broker dumps `dump`, and its archive with the state of before.
pub(crate) fn pod_with_archive(dump: &[u8]) -> (Pod, PathBuf) {
    let pod = Pod::new();
    pod.broker_ends_with(DUMPS);
    fs::create_dir(pod.at("state")).unwrap();
    let archive = pod.at("state/archive.tar");
    fs::write(&archive, "before").unwrap();
    fs::write(pod.at("dump"), dump).unwrap();
    (pod, archive)
}

#[test]
fn a_whole_dump_replaces_the_archive() {
    let (pod, archive) = pod_with_archive(&whole_dump());
    pod.run(&config(&pod, &["sh", "-c", "exit 7"], &archive)).with_code(7);
    assert_eq!(fs::read(&archive).unwrap(), whole_dump());
    assert_eq!(fs::read_dir(pod.at("state")).unwrap().count(), 1, "nothing is left beside it");
    // A broker that never ran has dumped nothing.
    pod.broker_does("exit 1");
    pod.run(&config(&pod, &["true"], &archive)).with_code(Exit::Broker.code());
    assert_eq!(fs::read(&archive).unwrap(), whole_dump());
}

#[test]
fn a_cut_off_dump_leaves_the_archive_as_it_was() {
    let (pod, archive) = pod_with_archive(b"half");
    pod.broker_ends_with(&format!("{DUMPS}\nexit 1"));
    let ended = pod.run(&config(&pod, &["sh", "-c", "exit 7"], &archive)).with_code(7);
    assert_eq!(pod.read("state/archive.tar"), "before");
    ended.with_log("archive.tar").with_log("not whole");
    pod.error_says("the broker ended with exit code 1");
    assert_eq!(fs::read_dir(pod.at("state")).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn an_impossible_place_of_the_archive_ends_the_run() {
    for (link, target, error) in [
        // A file system that takes no directories.
        ("state", "/proc", "place for the archive's next state"),
        // A link to itself, which is not replaced.
        ("state/archive.tar", "archive.tar", "look for archive"),
    ] {
        let pod = Pod::new();
        fs::create_dir_all(pod.at(link).parent().unwrap()).unwrap();
        symlink(target, pod.at(link)).unwrap();
        let config = config(&pod, &["touch", "ran"], &pod.at("state/archive.tar"));
        pod.run(&config).with_code(Exit::Prepare.code());
        assert!(!pod.message().command_ran && !pod.at("work/ran").exists());
        pod.error_says(error);
        assert!(pod.at(link).is_symlink());
    }
}

#[test]
fn a_read_only_archive_is_restored_and_not_kept() {
    let pod = Pod::new();
    fs::create_dir(pod.at("state")).unwrap();
    fs::write(pod.at("state/archive.tgz"), "before").unwrap();
    let config = config(&pod, &["true"], &pod.at("state/archive.tgz"));
    let Some(ended) = pod.with_read_only("state", &pod.prepared(&config)) else { return };
    ended.with_code(0);
    let calls = pod.read("flux-calls");
    assert!(calls.contains("content.restore") && !calls.contains("content.dump"), "{calls}");
    pod.error_says("will not be kept");
}
