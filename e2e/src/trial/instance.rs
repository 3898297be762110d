//! One MiniCluster of a trial: how tests wait for it, read it and change it.

use super::logs::container_log;
use super::{Trial, condition, is_finished, is_true, minicluster};
use crate::wait::until_found;
use anyhow::{Context as _, Result, bail, ensure};
use flux_api::crd::{Installed, MiniCluster, MiniClusterStatus, State};
use flux_contract::instance::InstanceReport;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use std::time::Duration;

/// The deadline of every condition that tests wait for; mostly it holds much sooner.
pub const DEADLINE: Duration = Duration::from_mins(3);
/// The agent, called as `flux`.
const FLUX: &str = "/mnt/flux/bin/flux";
const AGENT: &str = "/mnt/flux/bin/flux-agent";

/// A MiniCluster in the namespace of a trial.
#[derive(Clone, Copy)]
pub struct Instance<'run> {
    trial: &'run Trial,
    pub name: &'run str,
}

/// Whether the output of `kubectl flux explain` names this reason and a remedy.
fn names(explanation: &Value, reason: &str) -> bool {
    explanation["reason"] == reason && explanation["remedy"].is_string()
}

impl Trial {
    /// The MiniCluster of this name, which may not be there yet.
    pub fn named<'run>(&'run self, name: &'run str) -> Instance<'run> {
        Instance { trial: self, name }
    }

    /// Applies a MiniCluster of this specification.
    pub async fn start<'run>(&'run self, name: &'run str, spec: &str) -> Result<Instance<'run>> {
        self.apply(&minicluster(name, spec)).await?;
        Ok(self.named(name))
    }

    /// Applies a MiniCluster with these fields, whose only container has the usual image and `container`.
    pub async fn run<'run>(
        &'run self,
        name: &'run str,
        fields: &str,
        container: &str,
    ) -> Result<Instance<'run>> {
        self.start(name, &specification(&[fields], container)).await
    }
}

impl Instance<'_> {
    /// Waits until `holds` is true of it.
    pub async fn until(
        &self,
        what: &str,
        holds: impl Fn(&MiniCluster) -> bool + Send + Sync,
    ) -> Result<MiniCluster> {
        let (name, api) = (self.name, self.trial.api::<MiniCluster>());
        let holds = |cluster: Option<&MiniCluster>| cluster.is_some_and(&holds);
        // It holds several MiniClusters.
        let waiting = Box::pin(await_condition(api.clone(), name, holds));
        if let Ok(found) = tokio::time::timeout(DEADLINE, waiting).await {
            let found = found.with_context(|| format!("watching the MiniCluster {name}"))?;
            return found.with_context(|| format!("the MiniCluster {name} is gone"));
        }
        let last =
            api.get(name).await.with_context(|| format!("reading the MiniCluster {name}"))?;
        let status = serde_saphyr::to_string(&last.status).unwrap_or_default();
        bail!("waited {} s for {name} to be {what}; its status:\n{status}", DEADLINE.as_secs())
    }

    /// Waits until it is `Complete` or `Failed`.
    pub async fn finished(&self) -> Result<MiniCluster> {
        self.until("finished", is_finished).await
    }

    /// Waits until it is ready, and returns the name of its lead's pod.
    pub async fn ready(&self) -> Result<String> {
        self.until("ready", |cluster| is_true(cluster, "Ready")).await?;
        Ok(self.pod(0).await?.name_any())
    }

    /// Waits until it is ready and Flux has so many brokers for jobs; returns the name of its lead's pod.
    pub async fn ready_with(&self, brokers: u32) -> Result<String> {
        let lead = self.ready().await?;
        self.up(brokers).await?;
        Ok(lead)
    }

    /// Waits until its status is as `fits` wants it.
    pub async fn status(
        &self,
        what: &str,
        fits: impl Fn(&MiniClusterStatus) -> bool + Send + Sync,
    ) -> Result<MiniCluster> {
        self.until(what, |cluster| cluster.status.as_ref().is_some_and(&fits)).await
    }

    /// Waits until its status counts so many brokers.
    pub async fn brokers(&self, count: i32) -> Result<MiniCluster> {
        let what = format!("with {count} brokers");
        self.status(&what, |status| status.ready_brokers == count).await
    }

    /// Waits until it runs, with so many brokers.
    pub async fn running(&self, count: i32) -> Result<MiniCluster> {
        let runs = |status: &MiniClusterStatus| {
            status.state == Some(State::Running) && status.ready_brokers == count
        };
        self.status(&format!("running with {count} brokers"), runs).await
    }

    /// Waits until it is in this state.
    pub async fn state(&self, state: State) -> Result<MiniCluster> {
        self.status(&format!("{state:?}"), |status| status.state == Some(state)).await
    }

    /// Waits until its condition `kind` has `words` as its reason, or in its message. If the condition explains why the
    /// MiniCluster does not run, `kubectl flux explain` has to name the reason and a remedy.
    pub async fn await_condition(&self, kind: &str, words: &str) -> Result<Condition> {
        let holds = |cluster: &MiniCluster| {
            condition(cluster, kind)
                .is_some_and(|found| found.reason == words || found.message.contains(words))
        };
        let cluster = self.until(&format!("{kind}: {words}"), holds).await?;
        let found = condition(&cluster, kind).cloned().context("no such condition")?;
        if ["Accepted", "Progressing", "Suspended"].contains(&kind) {
            let what = format!("kubectl flux explain {}: {}", self.name, found.reason);
            until_true(&what, async || Ok(names(&self.explanation()?, &found.reason))).await?;
        }
        Ok(found)
    }

    /// Waits until it has ended, and fails unless it ended well.
    pub async fn complete(&self) -> Result<MiniCluster> {
        let cluster = self.finished().await?;
        ensure!(is_true(&cluster, "Complete"), "{}: {:?}", self.name, cluster.status);
        Ok(cluster)
    }

    /// Waits until it has ended, and fails unless it failed for this reason; returns exit code and message.
    pub async fn fails(&self, reason: &str) -> Result<(Option<i32>, String)> {
        let cluster = self.finished().await?;
        let failed = condition(&cluster, "Failed").context("it did not fail")?;
        ensure!(failed.status == "True" && failed.reason == reason, "{}: {failed:?}", self.name);
        let code = cluster.status.as_ref().and_then(|status| status.exit_code);
        self.explains(reason, &failed.message)?;
        Ok((code, failed.message.clone()))
    }

    /// Fails unless `kubectl flux explain` names this reason and this cause, and what to do.
    fn explains(&self, reason: &str, cause: &str) -> Result<()> {
        let found = self.explanation()?;
        ensure!(names(&found, reason) && found["cause"] == cause, "{reason}, {cause}: {found}");
        Ok(())
    }

    fn explanation(&self) -> Result<Value> {
        self.trial.plugin_json(&["explain", self.name])
    }

    /// How agent and view come into its pods, read from its status.
    pub async fn installed(&self) -> Result<Installed> {
        let cluster = self.trial.api::<MiniCluster>().get(self.name).await?;
        cluster
            .status
            .and_then(|status| status.install)
            .context("the status has no method of installation")
    }

    /// The newest pod of this index; that of index 0 is the lead.
    pub async fn pod(&self, index: u32) -> Result<Pod> {
        let found = self.trial.pod(self.name, index).await?;
        found.with_context(|| format!("{} has no pod of index {index}", self.name))
    }

    /// Deletes a pod, and returns it as it was.
    pub async fn delete_pod(&self, index: u32) -> Result<Pod> {
        let pod = self.pod(index).await?;
        self.kubectl(&["delete", "pod", &pod.name_any(), "--wait=false"])?;
        Ok(pod)
    }

    /// Waits until the newest pod of this index is another than `before` and has a node.
    pub async fn another(&self, index: u32, before: &Pod) -> Result<Pod> {
        wait_for(&format!("another pod {index} of {}", self.name), async || {
            let pod = self.trial.pod(self.name, index).await?;
            let is_placed = |pod: &Pod| pod.spec.as_ref().is_some_and(|it| it.node_name.is_some());
            Ok(pod.filter(|pod| pod.uid() != before.uid() && is_placed(pod)))
        })
        .await
    }

    /// The log of the runner of a pod.
    pub async fn log(&self, index: u32) -> Result<String> {
        container_log(self.trial, &self.pod(index).await?, self.name).await
    }

    /// Waits until the runner in the newest pod of this index has printed `text`, and returns the pod.
    pub async fn printed(&self, index: u32, text: &str) -> Result<Pod> {
        wait_for(&format!("{text:?} in the log of {}-{index}", self.name), async || {
            let Some(pod) = self.trial.pod(self.name, index).await? else { return Ok(None) };
            // A container that is starting has no log.
            let log = container_log(self.trial, &pod, self.name).await.unwrap_or_default();
            Ok(log.contains(text).then_some(pod))
        })
        .await
    }

    /// Fails unless the lead has printed each of `lines` once.
    pub async fn each_once(&self, lines: &[&str]) -> Result<()> {
        let log = self.log(0).await?;
        for line in lines {
            let times = log.lines().filter(|it| it.trim() == *line).count();
            ensure!(times == 1, "{line} stands {times} times in the log:\n{log}");
        }
        Ok(())
    }

    /// How many lines equal `line`, in all logs of its pods that can be read.
    pub async fn times(&self, line: &str) -> Result<usize> {
        let mut times = 0;
        for pod in self.trial.pods(self.name).await? {
            let log = container_log(self.trial, &pod, self.name).await.unwrap_or_default();
            times += log.lines().filter(|it| *it == line).count();
        }
        Ok(times)
    }

    /// Runs `words` in the runner of a pod and returns the output.
    pub async fn exec(&self, index: u32, words: &[&str]) -> Result<String> {
        self.exec_in(&self.pod(index).await?.name_any(), self.name, words)
    }

    /// Runs `words` in this container of this pod and returns the output.
    pub fn exec_in(&self, pod: &str, container: &str, words: &[&str]) -> Result<String> {
        let into = ["exec", pod, "--container", container, "--"];
        self.kubectl(&[&into[..], words].concat())
    }

    /// Runs kubectl in its namespace and returns the output.
    pub fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.trial.kubectl(words)
    }

    /// The message of each Event of its namespace with these fields.
    pub fn events(&self, fields: &str) -> Result<Vec<String>> {
        let messages = "-ojsonpath={range .items[*]}{.message}{\"\\n\"}{end}";
        let events = self.kubectl(&["get", "events", "--field-selector", fields, messages])?;
        Ok(events.lines().map(str::to_owned).collect())
    }

    /// Creates `/tmp/go` in the newest pod of this index, for which its command waits.
    pub async fn go(&self, index: u32) -> Result<()> {
        self.exec(index, &["touch", "/tmp/go"]).await.map(drop)
    }

    /// The same in the pods of so many indices, from 0.
    pub async fn go_all(&self, count: u32) -> Result<()> {
        for index in 0..count {
            self.go(index).await?;
        }
        Ok(())
    }

    /// Lets the command of [`then_on`] continue. Fails unless the command succeeds and ran once on each of so many brokers.
    pub async fn ends_on(&self, brokers: u32) -> Result<()> {
        self.go(0).await?;
        self.complete().await?;
        let hosts: Vec<String> = (0..brokers).map(|rank| format!("{}-{rank}", self.name)).collect();
        let lines = ["begun", "done"].into_iter().chain(hosts.iter().map(String::as_str));
        self.each_once(&lines.collect::<Vec<_>>()).await
    }

    /// Runs `flux` on the lead and returns the output without white space at the ends.
    pub async fn flux(&self, words: &[&str]) -> Result<String> {
        let printed = self.exec(0, &[&[FLUX], words].concat()).await?;
        Ok(printed.trim().to_owned())
    }

    /// Submits a job that has a task on each of so many nodes, waits until it runs, and returns its id.
    pub async fn job(&self, nodes: &str, task: &str) -> Result<String> {
        let id = self.flux(&["submit", "-N", nodes, "-n", nodes, "sh", "-c", task]).await?;
        until_true("the job to run", async || Ok(self.jobs().await? == "RUN")).await?;
        Ok(id)
    }

    /// The status of each job.
    pub async fn jobs(&self) -> Result<String> {
        self.flux(&["jobs", "-a", "-no", "{status}"]).await
    }

    /// The ranks that are drained, each with its reason.
    pub async fn drained(&self) -> Result<String> {
        let printed = self.exec(0, &[AGENT, "instance"]).await?;
        let report: InstanceReport = serde_json::from_str(&printed)?;
        let drained = report.ranks.iter().filter_map(|it| Some((it.rank, it.drained.as_ref()?)));
        Ok(drained.map(|(rank, reason)| format!("{rank} {reason}")).collect::<Vec<_>>().join("\n"))
    }

    /// Waits until Flux has so many brokers for jobs: of those without a job, as many are up.
    pub async fn up(&self, count: u32) -> Result<()> {
        self.up_within(count, DEADLINE).await
    }

    /// The same in this time.
    pub async fn up_within(&self, count: u32, time: Duration) -> Result<()> {
        let mut seen = String::new();
        let found = until_found("the brokers", time, async || {
            // A lead that is starting does not answer.
            let list = ["resource", "list", "--states=free", "-no", "{nnodes}"];
            let counted = self.flux(&list).await;
            seen = format!("{counted:?}");
            Ok(counted.is_ok_and(|counted| counted == count.to_string()).then_some(()))
        });
        let name = self.name;
        found
            .await
            .with_context(|| format!("{count} brokers of {name} are to be up, seen were {seen}"))
    }

    pub async fn agent_status(&self, index: u32) -> Result<Value> {
        let answer = self.exec(index, &[AGENT, "status", "--output", "json"]).await?;
        serde_json::from_str(&answer).with_context(|| format!("reading {answer}"))
    }

    /// Changes fields of the specification, as a user would.
    pub fn edit(&self, spec: &Value) -> Result<()> {
        self.patch(&format!("minicluster/{}", self.name), &json!({ "spec": spec }))
    }

    /// Changes fields of an object of its namespace, `kind/name`.
    pub fn patch(&self, object: &str, patch: &Value) -> Result<()> {
        let words = ["patch", object, "--type=merge", "--patch", &patch.to_string()];
        self.kubectl(&words).map(drop)
    }

    /// Deletes it, and waits until it is gone with all that it had.
    pub async fn delete(&self) -> Result<()> {
        let words = ["delete", "minicluster", self.name, "--cascade=foreground", "--timeout=3m"];
        self.kubectl(&words)?;
        let left = self.trial.pods(self.name).await?;
        ensure!(left.is_empty(), "{} pods are left", left.len());
        Ok(())
    }
}

/// A specification with these fields, whose only container has the usual image and `container`.
pub fn specification(fields: &[&str], container: &str) -> String {
    let joined = |parts: &[&str]| {
        let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
        parts.join(", ")
    };
    let container = joined(&["image: 'ubuntu:24.04'", container]);
    format!("{{{}}}", joined(&[&joined(fields), &format!("containers: [{{{container}}}]")]))
}

/// The fields of a container whose command begins, waits for [`Instance::go`], and then runs on so many brokers.
pub fn then_on(brokers: u32) -> String {
    format!(
        "launcher: true, command: 'echo begun; until test -e /tmp/go; do sleep 0.2; done; \
         flux run -N{brokers} hostname; echo done'"
    )
}

/// How the container `name` of the pod has ended, if it has.
pub fn end_of<'pod>(pod: &'pod Pod, name: &str) -> Option<&'pod ContainerStateTerminated> {
    let status = pod.status.as_ref()?;
    let main = status.container_statuses.iter().flatten();
    let mut all = main.chain(status.init_container_statuses.iter().flatten());
    all.find(|container| container.name == name)?.state.as_ref()?.terminated.as_ref()
}

/// Waits until `holds` is true, at most [`DEADLINE`].
pub async fn until_true(what: &str, mut holds: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    wait_for(what, async || Ok(holds().await?.then_some(()))).await
}

/// The lines of a text, sorted, because several programs print in any order.
pub fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Waits until `attempt` returns a value, at most [`DEADLINE`].
pub async fn wait_for<T>(what: &str, attempt: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    until_found(what, DEADLINE, attempt).await
}
