//! Files into a pod and out of it, with the real binary.

use crate::prelude::*;
use std::fs::File;

fn agent(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flux-agent"));
    command.args(arguments);
    command
}

#[test]
fn packed_files_are_unpacked_and_errors_name_the_path() {
    let pod = Pod::new();
    let path = |name: &str| pod.at(name).display().to_string();
    fs::create_dir_all(pod.at("from/below")).unwrap();
    fs::write(pod.at("from/below/a"), "1").unwrap();
    let stream = File::create(pod.at("stream")).unwrap();
    let packed = agent(&["pack", &path("from")]).stdout(stream).output().unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let unpack = |to: &str| {
        let mut command = agent(&["unpack", &path(to), "--name", "from"]);
        command.stdin(File::open(pod.at("stream")).unwrap()).stdout(Stdio::null());
        command.output().unwrap()
    };
    assert!(unpack("to").status.success());
    assert!(unpack("to").status.success(), "into the directory that is there now");
    for name in ["to/below/a", "to/from/below/a"] {
        assert_eq!(pod.read(name), "1");
    }
    let failed = |output: std::process::Output, error: &str| {
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(73), "{log}");
        assert!(log.contains(error), "{log}");
    };
    failed(unpack("absent/to"), "absent/to: No such file or directory");
    let absent = agent(&["pack", &path("absent")]).stdout(Stdio::null()).output().unwrap();
    failed(absent, "absent: No such file or directory");
}
