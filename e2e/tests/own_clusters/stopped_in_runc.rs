//! How a container ends that is stopped just before its program begins, a moment that no test on a cluster can meet.

use crate::prelude::*;
use e2e::packages::{self, NODE, STATIC_PROGRAM};
use std::fs;
use std::process::Command;

/// The code that the failure policy of a Job takes for such an end
/// (`crates/api/src/objects/job.rs`, docs/design/runs.md).
const CODE: i32 = 2;

/// A hook of the runtime runs between its `start` and the container's own program, and stops the container, as the
/// kubelet may do.
#[test]
#[ignore = "needs root"]
fn a_container_stopped_before_its_program_begins_ends_with_two() {
    packages::ensure(NODE).unwrap();
    packages::ensure(STATIC_PROGRAM).unwrap();
    let bundle = tempfile::tempdir().unwrap();
    let root = bundle.path().join("rootfs");
    fs::create_dir_all(root.join("proc")).unwrap();
    fs::copy(programs::find("busybox").unwrap(), root.join("busybox")).unwrap();
    let run = |name: &str, hooks: Value| {
        let configuration = json!({
            "ociVersion": "1.0.2",
            "process": {"args": ["/busybox", "true"], "cwd": "/", "user": {"uid": 0, "gid": 0}},
            "root": {"path": "rootfs"},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}]},
            "hooks": hooks,
        });
        fs::write(bundle.path().join("config.json"), configuration.to_string()).unwrap();
        let name = format!("{name}-{}", std::process::id());
        let mut command = Command::new(programs::find("runc").unwrap());
        command.arg("run").arg("--bundle").arg(bundle.path()).arg(name);
        command.output().unwrap()
    };
    assert_eq!(run("not-stopped", json!({})).status.code(), Some(0));
    // The runtime continues only when the hook has ended, and the hook ends with the container.
    let stop = json!({"path": "/busybox", "args": ["sh", "-c", "kill -TERM 1; sleep 60"]});
    let ended = run("stopped", json!({"startContainer": [stop]}));
    assert_eq!(ended.status.code(), Some(CODE), "{ended:?}");
}
