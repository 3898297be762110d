//! How the agent and the view come into the pods: mounted as image volumes, which the other tests have by
//! default on a cluster that can do so, and copied.

mod left_out;

use crate::{DEADLINE, apply, complete, kubectl, lead_log, trial};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    environment::Environment,
    examples::run::run_installed_by,
    not_run,
    product::images::{View, for_tests::SPACK_VIEW},
    progress::Progress,
    trial::{Trial, condition},
};
use flux_operator::crd::{InstallMethod, Installed, MiniCluster};

/// Examples that are copied as well: images whose files nobody may write, and without any program of their own.
macro_rules! copied {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            #[ignore = "needs a cluster"]
            fn $test() {
                let progress = Progress::new();
                let environment = Environment::shared(&progress).unwrap();
                if let Err(error) = run_installed_by("Copy", $name, environment, &progress) {
                    panic!("{error:#}");
                }
            }
        )*
    };
}

copied! {
    read_only_root_is_copied: "read-only-root",
    distroless_is_copied: "distroless",
}

/// Whether the API server has image volumes: where it does not, it makes a pod without them, and says nothing.
fn has_image_volumes() -> Result<bool> {
    let pod = r#"{"spec": {"volumes": [{"name": "image", "image": {"reference": "probe"}}]}}"#;
    let overrides = format!("--overrides={pod}");
    let left = "-ojsonpath={.spec.volumes[*].image.reference}";
    let words = ["run", "probe", "--image=probe", "--dry-run=server", &overrides, left];
    Ok(kubectl(&words)?.trim() == "probe")
}

/// The ways into a pod that this cluster has, each with a word for names.
pub(crate) fn methods() -> Result<Vec<(&'static str, &'static str)>> {
    let image = has_image_volumes()?.then_some(("Image", "image"));
    Ok(image.into_iter().chain([("Copy", "copy")]).collect())
}

/// Runs `spec` to its end, and returns how agent and view came into its pods and the lead's log.
async fn completed(trial: &Trial, name: &str, spec: &str) -> Result<(Installed, String)> {
    let name = apply(trial, name, spec).await?;
    let cluster = complete(trial, &name).await?;
    let log = lead_log(trial, &name).await?;
    let installed = cluster.status.and_then(|status| status.install);
    Ok((installed.context("the status does not say how")?, log))
}

#[test]
#[ignore = "needs a cluster"]
fn images_are_mounted_without_being_asked_for_where_the_cluster_can() {
    if let Some(method) = Environment::asked_for_install().unwrap() {
        let why = format!("the operator was installed with --install {method:?}");
        not_run::note("mounts without being asked for", &why, &Progress::new());
        return;
    }
    trial("mounted", &[], async |trial| {
        let spec = "{size: 2, containers: [{image: 'ubuntu:24.04', command: 'cat /mnt/flux/flux-operator-done.txt'}]}";
        let (installed, log) = completed(trial, "mounted", spec).await?;
        if !has_image_volumes()? {
            ensure!(installed.method == InstallMethod::Copy, "{installed:?}");
            ensure!(installed.reason.contains("image volumes are off unless"), "{installed:?}");
            return Ok(());
        }
        ensure!(installed.method == InstallMethod::Image, "{installed:?}");
        ensure!(installed.reason.contains("all nodes have image volumes"), "{installed:?}");
        ensure!(log.contains("linked the view: "), "log:\n{log}");
        for pod in trial.pods("mounted").await? {
            let spec = pod.spec.context("no spec")?;
            ensure!(spec.init_containers.is_none(), "{:?}", spec.init_containers);
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_view_is_copied_into_memory_where_that_is_asked_for() {
    trial("memory", &[], async |trial| {
        let spec = "{size: 2, flux: {container: {install: Copy, medium: Memory}}, containers: [{image: 'ubuntu:24.04', command: 'stat --file-system --format=%T /mnt/flux /opt/software'}]}";
        let (installed, log) = completed(trial, "memory", spec).await?;
        ensure!(installed.method == InstallMethod::Copy, "{installed:?}");
        ensure!(log.lines().filter(|line| *line == "tmpfs").count() == 2, "log:\n{log}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_spack_view_is_mounted_as_an_arbitrary_user_under_restricted() {
    let from_registry =
        View::from_environment().is_ok_and(|view| matches!(view, View::Image(_) | View::Published));
    if from_registry {
        let why = "the view comes from a registry, and no other can be made of it";
        not_run::note("a Spack view", why, &Progress::new());
        return;
    }
    let labels = [("pod-security.kubernetes.io/enforce", "restricted")];
    trial("spack", &labels, async |trial| {
        if !has_image_volumes()? {
            let why = "the API server has no image volumes";
            not_run::note("a mounted Spack view", why, &Progress::new());
            return Ok(());
        }
        let spec = SPACK.replace("VIEW", SPACK_VIEW);
        let (installed, log) = completed(trial, "spack", &spec).await?;
        ensure!(installed.method == InstallMethod::Image, "{installed:?}");
        let package = "/flux_operator/view/opt/software/linux-x86_64";
        ensure!(log.lines().any(|line| line == package), "log:\n{log}");
        Ok(())
    });
}

/// A sidecar of yet another user uses Flux too, and is there before anything is linked.
const SPACK: &str = "
  size: 2
  pod:
    securityContext: {runAsNonRoot: true, runAsUser: 1000730000, seccompProfile: {type: RuntimeDefault}}
  flux: {container: {image: VIEW, install: Image}}
  containers:
    - image: ubuntu:24.04
      command: readlink /opt/software/linux-x86_64
      runFlux: true
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
    - image: ubuntu:24.04
      name: beside
      command: test -x /mnt/flux/view/bin/flux
      securityContext:
        runAsUser: 4321
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
";

#[test]
#[ignore = "needs a cluster"]
fn what_keeps_a_view_that_was_to_be_mounted_from_the_pods_is_named() {
    trial("no-view", &[], async |trial| {
        let image = "localhost/flux-e2e/nosuch-view:1";
        let spec = format!(
            "{{size: 1, flux: {{container: {{image: '{image}', install: Image}}}}, containers: [{{image: 'ubuntu:24.04', command: hostname}}]}}"
        );
        let name = apply(trial, "no-view", &spec).await?;
        let (type_, what) = if has_image_volumes()? {
            ("Progressing", image)
        } else {
            ("Accepted", "left out of the Job: the volumes of agent and view (feature ImageVolume")
        };
        let named = |cluster: Option<&MiniCluster>| {
            let condition = cluster.and_then(|cluster| condition(cluster, type_));
            condition.is_some_and(|(_, _, message)| message.contains(what))
        };
        trial.await_minicluster(&name, what, DEADLINE, named).await?;
        Ok(())
    });
}
