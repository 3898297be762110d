//! How the agent and the view come into the pods: copied, or mounted as image volumes, which is the default of the other
//! tests on a cluster with image volumes.

use crate::prelude::*;
use e2e::examples::run::run;
use e2e::product::images::for_tests::SPACK_VIEW;
use flux_api::crd::{InstallMethod, Installed};

/// Nobody may write the files of one of them; the image of the other one has no program of its own.
#[test]
#[ignore = "needs a cluster"]
fn copies_work_with_read_only_roots_and_empty_images() {
    for example in ["read-only-root", "distroless"] {
        succeeds(|environment| run(example, Some("Copy"), environment));
    }
}

/// Whether the API server has image volumes; without them it silently makes a pod without the volumes.
pub(crate) fn has_image_volumes() -> Result<bool> {
    let pod = r#"{"spec": {"volumes": [{"name": "image", "image": {"reference": "probe"}}]}}"#;
    let overrides = format!("--overrides={pod}");
    let left = "-ojsonpath={.spec.volumes[*].image.reference}";
    let words = ["run", "probe", "--image=probe", "--dry-run=server", &overrides, left];
    Ok(Environment::shared()?.kubectl(&words)?.trim() == "probe")
}

/// Waits until it is complete, and returns how agent and view came into the pods and the lead's log.
async fn completed(run: &Instance<'_>, method: InstallMethod) -> Result<(Installed, String)> {
    run.complete().await?;
    let installed = run.installed().await?;
    ensure!(installed.method == method, "{installed:?}");
    Ok((installed, run.log(0).await?))
}

#[test]
#[ignore = "needs a cluster"]
fn images_are_mounted_by_default_where_the_cluster_can() {
    if let Some(method) = Environment::asked_for_install().unwrap() {
        let why = format!("the operator was installed with --install {method:?}");
        notes::not_run("mounts without being asked for", &why);
        return;
    }
    trial("mounted", async |trial| {
        let write = "cat /mnt/flux/flux-operator-done.txt; touch /flux_operator/view/x 2>&1; true";
        let run = trial.run("mounted", "size: 2", &format!("command: '{write}'")).await?;
        if !has_image_volumes()? {
            let (installed, _) = completed(&run, InstallMethod::Copy).await?;
            ensure!(installed.reason.contains("image volumes are off unless"), "{installed:?}");
            return Ok(());
        }
        let (installed, log) = completed(&run, InstallMethod::Image).await?;
        ensure!(installed.reason.contains("all nodes have image volumes"), "{installed:?}");
        for words in ["linked the view: ", "Read-only file system"] {
            ensure!(log.contains(words), "no {words:?} in the log:\n{log}");
        }
        for pod in trial.pods("mounted").await? {
            let spec = pod.spec.context("no spec")?;
            ensure!(spec.init_containers.is_none(), "{:?}", spec.init_containers);
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_view_is_copied_into_memory_on_request() {
    trial("memory", async |trial| {
        let fields = "size: 2, flux: {container: {install: Copy, medium: Memory}}";
        let look = "command: 'stat --file-system --format=%T /mnt/flux /opt/software'";
        let run = trial.run("memory", fields, look).await?;
        let (_, log) = completed(&run, InstallMethod::Copy).await?;
        ensure!(log.lines().filter(|line| *line == "tmpfs").count() == 2, "log:\n{log}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn an_arbitrary_user_mounts_a_spack_view_under_restricted() {
    let from_registry = View::from_environment().is_ok_and(|view| matches!(view, View::Image(_)));
    let why = if from_registry {
        Some("the view comes from a registry, and no other can be made of it")
    } else {
        (!has_image_volumes().unwrap()).then_some("the API server has no image volumes")
    };
    if let Some(why) = why {
        notes::not_run("a mounted Spack view", why);
        return;
    }
    trial("spack", async |trial| {
        trial.enforce("restricted")?;
        let manifest = include_str!("manifests/spack.yaml").replace("VIEW", SPACK_VIEW);
        trial.apply(&manifest).await?;
        let (_, log) = completed(&trial.named("spack"), InstallMethod::Image).await?;
        let package = "/flux_operator/view/opt/software/linux-x86_64";
        ensure!(log.lines().any(|line| line == package), "log:\n{log}");
        Ok(())
    });
}

/// An API server without image volumes makes a Job without them.
#[test]
#[ignore = "needs a cluster"]
fn the_status_names_why_a_view_is_not_mounted() {
    trial("no-view", async |trial| {
        let image = "localhost/flux-e2e/nosuch-view:1";
        let fields = format!("size: 1, flux: {{container: {{image: '{image}', install: Image}}}}");
        let run = trial.run("no-view", &fields, "command: hostname").await?;
        if has_image_volumes()? {
            return run.await_condition("Progressing", image).await.map(drop);
        }
        let left = "dropped from the Job: the volumes of agent and view (feature ImageVolume";
        let condition = run.await_condition("Accepted", left).await?;
        ensure!(condition.reason == "FieldsNotActedOn", "{condition:?}");
        let (code, message) = run.fails("StartError").await?;
        ensure!(code == Some(128), "{code:?}: {message}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_volume_is_named_until_it_can_be_mounted() {
    trial("no-secret", async |trial| {
        let volume = "volumes: {credentials: {path: /credentials, secretName: nosuch}}";
        let container = format!("command: 'cat /credentials/token', {volume}");
        let run = trial.run("no-secret", "size: 2", &container).await?;
        let condition = run.await_condition("Progressing", "\"nosuch\" not found").await?;
        ensure!(condition.message.contains("FailedMount"), "{condition:?}");
        run.kubectl(&["create", "secret", "generic", "nosuch", "--from-literal=token=open"])?;
        run.complete().await.map(drop)
    });
}
