//! Applies each example below `examples/` to a cluster and runs the steps of its `expect.toml`.

use e2e::examples::names;
use e2e::examples::run::run;

/// One test for each example, whose name has hyphens where that of the test has underscores.
macro_rules! examples {
    ($($test:ident,)*) => {
        const TESTED: &[&str] = &[$(stringify!($test)),*];
        $(
            #[test]
            #[ignore = "needs a cluster"]
            fn $test() {
                let name = stringify!($test).replace('_', "-");
                crate::succeeds(|environment| run(&name, None, environment));
            }
        )*
    };
}

examples! {
    archive, archive_broadcast, autoscale, autoscaler, batch, batch_logs, batch_raw,
    broker_options, bursting, bursting_hostlist, cleanup, custom_config, dask, deadline,
    diagnostics, disable_view, distroless, elasticity, ensemble, executorlib, failing, fluxion,
    gpu, hello_world, hooks, interactive, jax, jupyter, lammps, launcher, maestro, mcp, merlin,
    minimal_service, mpi, mpi4py, munge, nextflow, non_root, open_mpi, own_user, own_view,
    parsl, pod_settings, psij, quiet, read_only_root, reframe, rest, resume, retry,
    run_again, scale_to_zero, scaling, script, services, several_on_a_node, sidecar,
    sidecar_first, sidecar_service, snakemake, submit_command, suspend, timed, tuned_pods,
    volume_configmap, volume_emptydir, volume_hostpath, volume_pvc, volume_secret, workflow,
}

/// The examples that tests in `own_clusters/` run.
const ON_CLUSTERS_OF_THEIR_OWN: [&str; 6] =
    ["claims", "exclusive-cores", "gang", "kueue", "metrics-api", "topology"];

#[test]
fn every_example_has_a_test() {
    let is_here = |name: &String| !ON_CLUSTERS_OF_THEIR_OWN.contains(&name.as_str());
    let names = names().unwrap().into_iter().filter(is_here);
    assert_eq!(names.map(|name| name.replace('-', "_")).collect::<Vec<_>>(), TESTED);
}
