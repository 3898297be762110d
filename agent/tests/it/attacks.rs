//! What a job may try against the first process of its pod, and against root: the job is the shell text of a
//! launcher, and another user than the agent.

use crate::prelude::*;
use flux_contract::FluxUser;

const UID: u32 = 1234;

/// A pod of root, with the shared volume as Kubernetes makes it, whose job of Flux's user is `script`.
fn attacked(script: &str) -> Option<(Pod, AgentConfig)> {
    let pod = Pod::of_root()?;
    fs::set_permissions(pod.layout().mount(), Permissions::from_mode(0o777)).unwrap();
    let mut config = pod.launcher(&format!("cd $POD/mnt/flux\n{script}"));
    config.user = FluxUser { uid: UID, run_as_root: false, ..config.user };
    Some((pod, config))
}

fn owner(pod: &Pod, path: &str) -> u32 {
    fs::symlink_metadata(pod.at(path)).unwrap().uid()
}

/// Shell text that puts a program in the place of the agent that notes who runs it.
const PLANT: &str = "mv bin bin.old && mkdir bin && {
    printf '#!/bin/sh\\nid -u >> %s/ran-by\\nexec %s/mnt/flux/bin.old/flux-agent \"$@\"\\n' $POD $POD > bin/flux-agent
    chmod a+x bin/flux-agent
    touch $POD/planted
}";

#[test]
fn a_job_cannot_replace_the_agent_that_root_runs() {
    let Some((pod, mut config)) = attacked(&format!("{PLANT}\ntrue")) else { return };
    config.hooks.post = Some("touch $POD/posted".to_owned());
    pod.start(&config).end().with_code(0);
    assert!(pod.at("posted").exists() && !pod.at("planted").exists());
    assert_eq!(pod.mode("mnt/flux"), 0o1777);
}

/// As in a volume whose owner the agent is not.
#[test]
fn root_runs_its_own_program_and_not_what_has_come_to_its_path() {
    let Some((pod, mut config)) = attacked("true") else { return };
    config.hooks.pre =
        Some(format!("cd $POD/mnt/flux\n{PLANT}\ncd $POD/work\nexport CARRIED=over"));
    config.hooks.post = Some("echo $CARRIED > $POD/posted".to_owned());
    pod.start(&config).end().with_code(0);
    assert_eq!(pod.read("posted"), "over\n");
    let ran_by = format!("{UID}\n");
    assert_eq!(pod.read("ran-by"), ran_by, "what starts the command alone is run by its path");
}

#[test]
fn a_job_cannot_replace_what_the_agent_writes_again() {
    let script = "for place in config config/etc config/run config/curve config/etc/flux/config \
                  config/etc/flux/config/broker.toml flux-view.sh; do
                      mv $place $place.old && touch $POD/replaced
                  done
                  true";
    let Some((pod, config)) = attacked(script) else { return };
    pod.start(&config).end().with_code(0);
    assert!(!pod.at("replaced").exists());
    for path in ["config", "config/run", "config/etc/flux/config/broker.toml"] {
        assert_eq!(owner(&pod, &format!("mnt/flux/{path}")) == 0, path != "config/run", "{path}");
    }
}

/// What is where PID 1 looks for the reason of a batch that failed.
#[test]
fn a_pipe_or_an_endless_device_in_the_place_of_a_batchs_reason_holds_up_nothing() {
    for make in ["mkfifo", "ln -s /dev/zero"] {
        let script =
            format!("cd $POD/mnt/flux/config/run\n{make} x && mv -f x command.failure\nexit 5\n");
        let Some((pod, mut config)) = attacked("true") else { return };
        config.workload = pod.batch(&script).workload;
        pod.start(&config).end().with_code(5);
        assert_eq!(pod.message().exit_code, 5);
        assert!(fs::symlink_metadata(pod.at("mnt/flux/config/run/command.failure")).is_ok());
    }
}

/// Where a job starts whose container starts in `path`, of mode `mode`; who owns that then, and the log.
fn run_in(path: &str, mode: u32) -> Option<(String, u32, String)> {
    let (pod, mut config) = attacked("true")?;
    config.workload = pod.launcher("pwd").workload;
    let directory = pod.at(path);
    fs::create_dir_all(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
    let ended = Ended::of(pod.prepared(&config).current_dir(&directory)).with_code(0);
    let place = Path::new(ended.output.trim()).strip_prefix(pod.at("")).unwrap();
    Some((place.display().to_string(), owner(&pod, path), ended.log))
}

#[test]
fn a_command_starts_where_its_user_can_be_and_directories_of_the_system_stay_roots() {
    let closed = "usr/local/bin stays closed to flux: it is a directory of the system; give flux";
    for (path, mode, place, owner, says) in [
        ("usr/local/bin", 0o755, "usr/local/bin", 0, closed),
        ("root", 0o700, "home/flux", 0, "by workingDir"),
        ("usr/src/app", 0o755, "usr/src/app", UID, ""),
    ] {
        let Some((found, of, log)) = run_in(path, mode) else { return };
        assert_eq!((found.as_str(), of), (place, owner), "{path}: {log}");
        assert!(log.contains(says), "{path}: {log}");
    }
    // Where a container starts whose image names none.
    let Some((found, _, log)) = run_in("", 0o777) else { return };
    assert!(found.is_empty() && !log.contains("stays closed"), "{found}: {log}");
}
