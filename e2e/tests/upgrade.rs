//! Another release of the operator takes over while `MiniClusters` run, or none does for a while. Tests of
//! their own program: they exchange the operator that all other tests share.
//!
//! Run by `cargo verify`, or alone: `cargo test -p e2e --test upgrade -- --ignored`.

use anyhow::{Context as _, Result, ensure};
use e2e::{
    environment::Environment,
    product::install::{NAME, NAMESPACE},
    progress::Progress,
    trial::{Trial, condition, is_true, logs::times_logged, minicluster},
};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::{batch::v1::Job, core::v1::ConfigMap};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// A MiniCluster that has everything it needs is done long before.
const DEADLINE: Duration = Duration::from_mins(4);

/// The other release: it has agents of its own, which no running pod may need.
const OTHER_AGENT: &str = "localhost/flux-e2e/agent-of-another-release:1";

/// One test after the other has the operator.
static OPERATOR: Mutex<()> = Mutex::new(());

#[test]
#[ignore = "needs a cluster"]
fn a_command_that_fails_while_no_operator_runs_is_run_once_and_told_later() {
    let _alone = OPERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    let progress = Progress::new();
    let environment = Environment::shared(&progress).unwrap();
    let outcome = environment.trial("alone", &[], async |trial| {
        let codes = [2, 7, 75, 137, 143];
        for code in codes {
            trial.apply(&ends_when_told(code)).await?;
        }
        for code in codes {
            await_ready(trial, &format!("code-{code}"), 1).await?;
        }
        scale_operator(environment, 0)?;
        let outcome = fail_alone(trial, environment, &codes).await;
        scale_operator(environment, 1)?;
        outcome?;
        for code in codes {
            told_in_the_end(trial, code).await?;
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error:#}");
    }
}

/// A MiniCluster whose command ends with `code` when a file is there.
fn ends_when_told(code: i32) -> String {
    let command = format!("echo once; until test -e /tmp/go; do sleep 0.2; done; exit {code}");
    let container = format!("{{image: 'ubuntu:24.04', command: '{command}'}}");
    minicluster(&format!("code-{code}"), &format!("{{size: 1, containers: [{container}]}}"))
}

/// Lets each command end, and waits until its Job has failed.
async fn fail_alone(trial: &Trial, environment: &Environment, codes: &[i32]) -> Result<()> {
    for code in codes {
        let name = format!("code-{code}");
        let pod = trial.pod(&name, 0).await?.context("no lead")?.name_any();
        let namespace = ["--namespace", trial.namespace(), "--container", &name];
        environment
            .kubectl(&[&["exec", &pod][..], &namespace, &["--", "touch", "/tmp/go"]].concat())?;
    }
    for code in codes {
        let name = format!("code-{code}");
        let failed = await_condition(trial.api::<Job>(), &name, |job: Option<&Job>| {
            let status = job.and_then(|job| job.status.as_ref());
            let mut all = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
            all.any(|condition| condition.type_ == "Failed" && condition.status == "True")
        });
        let failed = tokio::time::timeout(DEADLINE, failed).await;
        failed.with_context(|| format!("waiting for the Job {name} to fail"))??;
    }
    Ok(())
}

/// The operator that is back reports the command's own code, and one pod has run the command.
async fn told_in_the_end(trial: &Trial, code: i32) -> Result<()> {
    let name = format!("code-{code}");
    let cluster = trial.await_finished(&name, DEADLINE).await?;
    let told = cluster.status.as_ref().and_then(|status| status.exit_code);
    ensure!(is_true(&cluster, "Failed") && told == Some(code), "{name}: {:?}", cluster.status);
    let times = times_logged(trial, &name, "once").await?;
    ensure!(times == 1, "{name} ran {times} times");
    Ok(())
}

/// Waits until so many operators run.
fn scale_operator(environment: &Environment, replicas: u32) -> Result<()> {
    let kubectl =
        |words: &[&str]| environment.kubectl(&[&["--namespace", NAMESPACE][..], words].concat());
    kubectl(&["scale", "deployment", NAME, &format!("--replicas={replicas}")])?;
    if replicas == 0 {
        let pods = format!("--selector=app.kubernetes.io/name={NAME}");
        kubectl(&["wait", "pods", "--for=delete", &pods, "--timeout=1m"])?;
    } else {
        kubectl(&["rollout", "status", "deployment", NAME, "--timeout=2m"])?;
    }
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn what_runs_goes_on_when_the_operator_is_another_one() {
    let _alone = OPERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    let progress = Progress::new();
    let environment = Environment::shared(&progress).unwrap();
    let outcome = environment.trial("upgrade", &[], async |trial| {
        let (read, unread) = start_both(trial).await?;
        let former = set_agent_image(environment, OTHER_AGENT)?;
        let outcome = go_on(trial, &read, &unread).await;
        // The tests that come after have the operator of this checkout again.
        set_agent_image(environment, &former)?;
        outcome
    });
    if let Err(error) = outcome {
        panic!("{error:#}");
    }
}

/// Gives the operator another image for its agents, as another release would have, waits until such an
/// operator is available, and returns the image that it had.
fn set_agent_image(environment: &Environment, image: &str) -> Result<String> {
    const VARIABLE: &str = "FLUX_OPERATOR_AGENT_IMAGE";
    let kubectl =
        |words: &[&str]| environment.kubectl(&[&["--namespace", NAMESPACE][..], words].concat());
    let path = format!(
        "-ojsonpath={{.spec.template.spec.containers[0].env[?(@.name==\"{VARIABLE}\")].value}}"
    );
    let former = kubectl(&["get", "deployment", NAME, &path])?;
    ensure!(!former.is_empty(), "the operator has no variable {VARIABLE}");
    kubectl(&["set", "env", "deployment", NAME, &format!("{VARIABLE}={image}")])?;
    kubectl(&["rollout", "status", "deployment", NAME, "--timeout=2m"])?;
    Ok(former)
}

/// Two `MiniClusters` that run: one whose configuration the next release can read, and one whose it
/// cannot, because a release wrote it that has another version of it.
async fn start_both(trial: &Trial) -> Result<(String, String)> {
    let (read, unread) = (start(trial, "read").await?, start(trial, "unread").await?);
    await_ready(trial, &read, 2).await?;
    await_ready(trial, &unread, 2).await?;
    let mut data = data(trial, &unread).await?;
    for text in data.values_mut() {
        *text = text.replace("version = 1", "version = 2");
    }
    patch::<ConfigMap>(trial, &format!("{unread}-agent"), &json!({ "data": data })).await?;
    Ok((read, unread))
}

/// Under another operator the first gets another size, the second is not touched; both end well.
async fn go_on(trial: &Trial, read: &str, unread: &str) -> Result<()> {
    let before = data(trial, unread).await?;
    for name in [read, unread] {
        patch::<MiniCluster>(trial, name, &json!({ "spec": { "size": 3 } })).await?;
    }
    await_ready(trial, read, 3).await?;
    let refused = |cluster: Option<&MiniCluster>| {
        let progressing = cluster.and_then(|cluster| condition(cluster, "Progressing"));
        progressing.is_some_and(|(_, reason, message)| {
            reason == "ChangeRefused" && message.contains("with the agent image")
        })
    };
    trial.await_minicluster(unread, "refused another size", DEADLINE, refused).await?;
    ensure!(data(trial, unread).await? == before, "the configuration was changed");
    for name in [read, unread] {
        let cluster = trial.await_finished(name, DEADLINE).await?;
        ensure!(is_true(&cluster, "Complete"), "{name}: {:?}", cluster.status);
    }
    ensure!(data(trial, unread).await? == before, "the configuration was changed in the end");
    Ok(())
}

/// Starts a MiniCluster that runs long enough to see another operator.
async fn start(trial: &Trial, name: &str) -> Result<String> {
    let spec = "{size: 2, maxSize: 3, containers: [{image: 'ubuntu:24.04', command: sleep 75}]}";
    trial.apply(&minicluster(name, spec)).await
}

async fn await_ready(trial: &Trial, name: &str, brokers: i32) -> Result<()> {
    let ready = |cluster: Option<&MiniCluster>| {
        let status = cluster.and_then(|cluster| cluster.status.as_ref());
        status.is_some_and(|status| status.ready_brokers == brokers)
    };
    let what = format!("ready with {brokers} brokers");
    trial.await_minicluster(name, &what, DEADLINE, ready).await?;
    Ok(())
}

/// What the ConfigMap of the agents says.
async fn data(trial: &Trial, name: &str) -> Result<BTreeMap<String, String>> {
    let config = trial.api::<ConfigMap>().get(&format!("{name}-agent")).await;
    let config = config.with_context(|| format!("reading the ConfigMap of {name}"))?;
    ensure!(config.data.is_some(), "{} is empty", config.name_any());
    Ok(config.data.unwrap_or_default())
}

async fn patch<K>(trial: &Trial, name: &str, patch: &Value) -> Result<()>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    let patched = trial.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.with_context(|| format!("patching {name}"))?;
    Ok(())
}
