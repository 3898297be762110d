//! What a job may try against the first process of its pod, and against root: the job is the shell text of a
//! launcher, and another user than the agent.

use crate::pod::{Background, Ended, Pod};
use flux_contract::{AgentConfig, FluxUser};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// Flux's user.
const UID: u32 = 1234;

/// A pod of root, with the shared volume as Kubernetes makes it, whose job of Flux's user is `script`.
fn attacked(script: &str) -> Option<(Pod, AgentConfig)> {
    let pod = Pod::of_root()?;
    fs::set_permissions(pod.layout().mount(), Permissions::from_mode(0o777)).unwrap();
    let mut config = pod.launcher(&format!("cd $POD/mnt/flux\n{script}"));
    config.user = FluxUser { uid: UID, run_as_root: false, ..config.user };
    Some((pod, config))
}

/// How the run ends, which must be soon.
fn end(pod: &Pod, config: &AgentConfig) -> Ended {
    Background::start(pod.prepared(config)).end()
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
    end(&pod, &config).with_code(0);
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
    end(&pod, &config).with_code(0);
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
    end(&pod, &config).with_code(0);
    assert!(!pod.at("replaced").exists());
    for path in ["config", "config/run", "config/etc/flux/config/broker.toml"] {
        assert_eq!(owner(&pod, &format!("mnt/flux/{path}")) == 0, path != "config/run", "{path}");
    }
}

/// Puts what `make` makes where PID 1 looks for the reason of a batch that failed.
fn failure_replaced(make: &str) {
    let script =
        format!("cd $POD/mnt/flux/config/run\n{make} x && mv -f x command.failure\nexit 5\n");
    let Some((pod, mut config)) = attacked("true") else { return };
    config.workload = pod.batch(&script).workload;
    end(&pod, &config).with_code(5);
    assert_eq!(pod.message().exit_code, 5);
    assert!(fs::symlink_metadata(pod.at("mnt/flux/config/run/command.failure")).is_ok());
}

#[test]
fn a_pipe_in_the_place_of_a_batchs_reason_holds_up_nothing() {
    failure_replaced("mkfifo");
}

#[test]
fn a_device_without_an_end_in_the_place_of_a_batchs_reason_is_not_read() {
    failure_replaced("ln -s /dev/zero");
}

/// The run of a job that says where it is, in the working directory `path`, of mode `mode`.
fn run_in(path: &str, mode: u32) -> Option<(Pod, Ended)> {
    let (pod, mut config) = attacked("true")?;
    config.workload = pod.launcher("pwd").workload;
    let directory = pod.at(path);
    fs::create_dir_all(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
    let ended = Ended::of(pod.prepared(&config).current_dir(&directory)).with_code(0);
    Some((pod, ended))
}

#[test]
fn a_working_directory_of_the_system_stays_roots_and_the_command_runs_there_if_it_can() {
    let Some((pod, ended)) = run_in("usr/local/bin", 0o755) else { return };
    let ended = ended.with_output(&format!("{}\n", pod.at("usr/local/bin").display()));
    assert_eq!(owner(&pod, "usr/local/bin"), 0);
    ended
        .with_log("usr/local/bin stays closed to flux: it is a directory of the system; give flux");
}

#[test]
fn a_command_does_not_start_in_a_home_that_its_user_cannot_enter() {
    let Some((pod, ended)) = run_in("root", 0o700) else { return };
    let home = format!("{}\n", pod.at("home/flux").display());
    ended.with_output(&home).with_log("by workingDir");
    assert_eq!(owner(&pod, "root"), 0);
}

/// Where a container starts whose image names none.
#[test]
fn nothing_is_said_of_the_root_directory() {
    let Some((pod, ended)) = run_in("", 0o777) else { return };
    assert_eq!(ended.output.trim(), pod.at("").display().to_string().trim_end_matches('/'));
    assert!(!ended.log.contains("stays closed"), "{}", ended.log);
}

#[test]
fn a_working_directory_of_the_application_belongs_to_fluxs_user() {
    let Some((pod, _)) = run_in("usr/src/app", 0o755) else { return };
    assert_eq!(owner(&pod, "usr/src/app"), UID);
}
