//! A container that starts as root and lacks capabilities of root, which also stands for a home on NFS with `root_squash`.

use crate::archive::{self, pod_with_archive, whole_dump};
use crate::prelude::*;
use std::os::unix::fs::chown;

const USER: u32 = 1234;

/// The end of a run of root whose user of Flux is another, with the capabilities that `bounds` leaves (setpriv(1)).
fn run(pod: &Pod, config: AgentConfig, bounds: &str) -> Ended {
    let mut config = config;
    (config.user.run_as_root, config.user.uid) = (false, USER);
    let run = pod.prepared(&config);
    let mut root = Command::new("setpriv");
    root.arg(format!("--bounding-set={bounds}"));
    Ended::of(&mut pod.wrapped(root, &run))
}

#[test]
fn root_prepares_directories_with_the_rights_of_fluxs_user() {
    for bounds in [
        "-dac_override,-dac_read_search",
        "-dac_override,-dac_read_search,-fowner",
        "-dac_override,-dac_read_search,-fowner,-chown",
        "-all,+setuid,+setgid,+kill",
    ] {
        let Some(pod) = Pod::of_root() else { return };
        let config = pod.config(&["id", "-u"]);
        // A container that is started again finds what the first has made.
        for _ in 0..2 {
            run(&pod, config.clone(), bounds).with_code(0).with_output("1234\n");
        }
        for (path, mode) in [
            ("mnt/flux/config/run/flux", 0o755),
            ("flux_operator/private/curve", 0o700),
            ("home/flux", 0o700),
        ] {
            let owner = fs::metadata(pod.at(path)).unwrap().uid();
            assert_eq!((owner, pod.mode(path)), (USER, mode), "{path} with {bounds}");
        }
        assert_eq!(pod.mode("flux_operator/private"), 0o755, "{bounds}");
    }
}

#[test]
fn missing_capabilities_are_named_with_the_remedy() {
    for (bounds, lacking) in
        [("-all", "SETUID, SETGID, KILL"), ("-all,+setuid,+setgid", "KILL"), ("-setuid", "SETUID")]
    {
        let Some(pod) = Pod::of_root() else { return };
        run(&pod, pod.config(&["true"]), bounds).with_code(Exit::Prepare.code());
        pod.error_says(&format!("root without the capabilities {lacking}; add them"));
        pod.error_says("pod.securityContext.runAsUser: 1234");
    }
}

#[test]
fn a_run_works_in_directories_closed_to_root() {
    let (Some(_), (pod, archive)) = (Pod::of_root(), pod_with_archive(&whole_dump())) else {
        return;
    };
    for path in [Path::new("work"), Path::new("state"), Path::new("state/archive.tar")] {
        chown(pod.at(path), Some(USER), Some(USER)).unwrap();
    }
    fs::set_permissions(pod.at(""), Permissions::from_mode(0o777)).unwrap();
    let closed = Permissions::from_mode(0o700);
    for path in ["work", "state"] {
        fs::set_permissions(pod.at(path), closed.clone()).unwrap();
    }
    let mut config = archive::config(&pod, &["sh", "-c", "touch here; id -u"], &archive);
    config.hooks.post = Some("pwd".to_owned());
    let bounds = "-dac_override,-dac_read_search,-fowner,-chown";
    let work = pod.at("work").display().to_string();
    let ended = run(&pod, config, bounds).with_code(0);
    assert_eq!(ended.output, format!("1234\n{work}\n"), "{}", ended.log);
    assert!(!ended.log.contains("warning"), "{}", ended.log);
    assert_eq!(fs::read(&archive).unwrap(), whole_dump());
    for file in ["work/here", "state/archive.tar"] {
        assert_eq!(fs::metadata(pod.at(file)).unwrap().uid(), USER, "{file}");
    }
}

#[test]
fn a_closed_directory_is_named_with_the_remedy() {
    let Some(pod) = Pod::of_root() else { return };
    fs::create_dir(pod.at("closed")).unwrap();
    fs::set_permissions(pod.at("closed"), Permissions::from_mode(0o555)).unwrap();
    // Neither root's nor that of Flux's user.
    chown(pod.at("closed"), Some(99), Some(99)).unwrap();
    let archive = pod.at("closed/state.tar");
    let config = archive::config(&pod, &["true"], &archive);
    run(&pod, config, "-dac_override,-fowner").with_code(Exit::Prepare.code());
    pod.error_says("closed/.state.tar.hello-0.new: Permission denied");
    pod.error_says("root lacks the capabilities DAC_OVERRIDE");
    pod.error_says("pod.securityContext.runAsUser");
}
