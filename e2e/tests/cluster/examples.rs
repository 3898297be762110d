//! Applies each example below `examples/` to a cluster and checks what its `expect.txt` says.

use e2e::{
    environment::Environment,
    examples::{names, run::run},
    progress::Progress,
};

/// One test for each example, whose name has hyphens where that of the test has underscores.
macro_rules! examples {
    ($($test:ident,)*) => {
        const TESTED: &[&str] = &[$(stringify!($test)),*];
        $(
            #[test]
            #[ignore = "needs a cluster"]
            fn $test() {
                example(&stringify!($test).replace('_', "-"));
            }
        )*
    };
}

examples! {
    archive, autoscaler, batch, batch_raw, broker_options, bursting, cleanup, custom_config,
    deadline, disable_view, distroless, elasticity, failing, fluxion, gpu, hello_world, hooks,
    interactive, launcher, minimal_service, mpi, munge, non_root, pod_settings, quiet,
    read_only_root, script, services, sidecar, sidecar_service, timed, volume_configmap,
    volume_emptydir, volume_hostpath, volume_pvc, volume_secret, workflow,
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
        Ok(names) => {
            let tests: Vec<_> = names.iter().map(|name| name.replace('-', "_")).collect();
            assert_eq!(tests, TESTED);
        }
        Err(error) => panic!("{error:#}"),
    }
}
