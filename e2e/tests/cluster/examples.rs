//! Applies each example below `examples/` to a cluster and checks what its `expect.txt` says.

use e2e::{
    environment::Environment,
    examples::{names, run::run},
    progress::Progress,
};

/// One test for each example, and one that no example is forgotten.
macro_rules! examples {
    ($($test:ident: $name:literal,)*) => {
        const TESTED: &[&str] = &[$($name),*];
        $(
            #[test]
            #[ignore = "needs a cluster"]
            fn $test() {
                example($name);
            }
        )*
    };
}

examples! {
    archive: "archive",
    autoscaler: "autoscaler",
    batch: "batch",
    batch_raw: "batch-raw",
    broker_options: "broker-options",
    bursting: "bursting",
    cleanup: "cleanup",
    custom_config: "custom-config",
    deadline: "deadline",
    disable_view: "disable-view",
    distroless: "distroless",
    elasticity: "elasticity",
    failing: "failing",
    fluxion: "fluxion",
    gpu: "gpu",
    hello_world: "hello-world",
    hooks: "hooks",
    interactive: "interactive",
    launcher: "launcher",
    minimal_service: "minimal-service",
    mpi: "mpi",
    munge: "munge",
    non_root: "non-root",
    pod_settings: "pod-settings",
    quiet: "quiet",
    read_only_root: "read-only-root",
    script: "script",
    services: "services",
    sidecar: "sidecar",
    sidecar_service: "sidecar-service",
    timed: "timed",
    volume_configmap: "volume-configmap",
    volume_emptydir: "volume-emptydir",
    volume_hostpath: "volume-hostpath",
    volume_pvc: "volume-pvc",
    volume_secret: "volume-secret",
    workflow: "workflow",
}

fn example(name: &str) {
    let progress = Progress::new();
    let environment = Environment::shared(&progress).unwrap();
    if let Err(error) = run(name, environment, &progress) {
        panic!("{error:#}");
    }
}

#[test]
fn every_example_has_a_test() {
    match names() {
        Ok(names) => assert_eq!(names, TESTED),
        Err(error) => panic!("{error:#}"),
    }
}
