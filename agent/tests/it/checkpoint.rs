//! The state of an instance that runs, and a lead that begins again from it.

use crate::archive::{config, pod_with_archive, whole_dump};
use crate::prelude::*;
use flate2::read::GzDecoder;
use std::io::Read as _;

const CHECKPOINT: &str = "state/archive.tar.checkpoint";
const RAN: &str = "job/0000/0006/7300/0000";

/// A command that waits until the shell condition `until` holds.
fn waits(pod: &Pod, archive: &Path, until: &str) -> AgentConfig {
    let script = format!("until {until}; do sleep 0.02; done");
    let mut config = AgentConfig { archive: None, ..pod.launcher(&script) };
    config.archive = crate::archive::config(pod, &[], archive).archive;
    config.archive.as_mut().unwrap().every_seconds = Some(0);
    config
}

/// A dump with a job that ran.
fn dump_of_running() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let log = "{\"name\":\"submit\"}\n{\"name\":\"validate\"}\n{\"name\":\"alloc\"}\n{\"name\":\"start\"}\n";
    for (path, content) in [("eventlog", log), ("R", "{}"), ("jobspec", "{}")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let path = format!("{RAN}/{path}");
        builder.append_data(&mut header, path, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn the_state_is_written_while_the_instance_runs_and_goes_with_its_end() {
    let (pod, archive) = pod_with_archive(&whole_dump());
    fs::write(pod.at("dumps"), "cp $POD/running-dump \"$2\"").unwrap();
    fs::write(pod.at("running-dump"), dump_of_running()).unwrap();
    let found = "cmp -s $POD/running-dump $POD/state/archive.tar.checkpoint && \
                 [ \"$(cat $POD/state/archive.tar)\" = before ]";
    let ended = pod.run(&waits(&pod, &archive, found)).with_code(0);
    assert!(!ended.log.contains("stays as it was"), "{}", ended.log);
    let dump = pod.at(".archive.tar.hello-0.new/checkpoint-dump.tar");
    let dump = dump.display().to_string().replace("/.archive", "/state/.archive");
    let calls = pod.read("flux-calls");
    assert!(calls.contains(&format!("dump --quiet {dump}\n")), "{calls}");
    assert_eq!(fs::read(&archive).unwrap(), whole_dump());
    assert_eq!(fs::read_dir(pod.at("state")).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_dump_that_fails_or_is_cut_off_leaves_the_checkpoint_as_it_was() {
    for (script, why) in [
        ("echo no such key >&2; exit 3", "exit code 3: no such key"),
        ("printf half > \"$2\"", "use the dump: it lacks the end of a tar archive"),
        // Killed in the middle.
        ("printf half > \"$2\"; kill -9 $$", "was ended by signal 9"),
    ] {
        let (pod, archive) = pod_with_archive(b"");
        fs::write(pod.at("dumps"), format!("echo >> $POD/dumped\n{script}")).unwrap();
        fs::write(pod.at(CHECKPOINT), dump_of_running()).unwrap();
        let twice = "[ \"$(wc -l < $POD/dumped)\" -gt 2 ]";
        pod.broker_ends_with("exit 1");
        let ended = pod.run(&waits(&pod, &archive, twice));
        let stays = format!("{} stays as it was: ", pod.at(CHECKPOINT).display());
        let lines: Vec<_> = ended.log.lines().filter(|line| line.contains(&stays)).collect();
        assert!(lines.len() == 1 && lines[0].contains(why), "{why}: {}", ended.log);
        assert_eq!(fs::read(pod.at(CHECKPOINT)).unwrap(), dump_of_running());
        assert_eq!(pod.read("state/archive.tar"), "before");
        assert_eq!(fs::read_dir(pod.at("state")).unwrap().count(), 2);
    }
}

#[test]
fn a_lead_begins_again_from_the_checkpoint_and_names_what_is_lost() {
    let (pod, archive) = pod_with_archive(b"");
    fs::write(pod.at(CHECKPOINT), dump_of_running()).unwrap();
    // Also where no more are written.
    let mut config = config(&pod, &["true"], &archive);
    pod.broker_does(
        "for word; do case \"$word\" in
            -o-Scontent.restore=*) cp \"${word#-o-Scontent.restore=}\" $POD/restored ;;
        esac; done",
    );
    pod.write_config(&config);
    let planned = pod.ask("plan", &[]).output;
    assert!(planned.contains("content.restore="), "{planned}");
    // The broker does not come to its end.
    pod.broker_ends_with("kill -9 $$");
    let ended = pod.run(&config);
    ended.with_log("jobs that ran then are lost (1): ƒjCgZGK");
    let mut restored = String::new();
    let packed = fs::File::open(pod.at("restored")).unwrap();
    GzDecoder::new(packed).read_to_string(&mut restored).unwrap();
    let note = "\"note\":\"the lead was lost while this job ran\"";
    assert!(restored.contains(note) && restored.contains("\"name\":\"clean\""), "{restored}");
    // It serves until there is another.
    assert_eq!(fs::read(pod.at(CHECKPOINT)).unwrap(), dump_of_running());
    assert_eq!(pod.read("state/archive.tar"), "before");
    // An orderly end.
    fs::write(pod.at("dump"), whole_dump()).unwrap();
    pod.broker_ends_with(crate::archive::DUMPS);
    config.hooks.post = None;
    pod.run(&config).with_code(0);
    assert_eq!(fs::read(&archive).unwrap(), whole_dump());
    assert!(!pod.at(CHECKPOINT).exists());
}

#[test]
fn a_checkpoint_that_is_not_whole_gives_way_to_the_archive() {
    let (pod, archive) = pod_with_archive(&whole_dump());
    let whole = dump_of_running();
    fs::write(pod.at(CHECKPOINT), &whole[..whole.len() - 1024]).unwrap();
    let ended = pod.run(&config(&pod, &["true"], &archive)).with_code(0);
    ended.with_log("is not restored, but ").with_log("it lacks the end of a tar archive");
    let calls = pod.read("flux-calls");
    assert!(calls.contains(&format!("-Scontent.restore={}", archive.display())), "{calls}");
    assert!(!pod.at(CHECKPOINT).exists());
}

#[test]
fn a_checkpoint_that_cannot_be_read_ends_the_run() {
    let (pod, archive) = pod_with_archive(&whole_dump());
    fs::create_dir(pod.at(CHECKPOINT)).unwrap();
    let config = config(&pod, &["touch", "ran"], &archive);
    pod.run(&config).with_code(Exit::Prepare.code());
    pod.error_says("restore checkpoint");
    assert!(!pod.at("work/ran").exists());
    assert_eq!(pod.read("state/archive.tar"), "before");
}
