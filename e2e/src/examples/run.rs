//! Applies an example in a namespace of its own and does and checks what its expectation says.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::batch::v1::Job;
use kube::{
    ResourceExt as _,
    runtime::wait::{await_condition, conditions},
};

use super::{
    Example, MINICLUSTER,
    expectation::{NeededFlux, Step, matches},
    look::{DEADLINE, Place},
    volumes::Volumes,
};
use crate::{
    environment::Environment,
    not_run,
    product::images::View,
    progress::Progress,
    trial::{Trial, evidence::keep_evidence, is_true},
};

/// Runs the example of that name; keeps the evidence when it fails, cleans up when it does not. One that
/// needs another Flux than there is does not run, which is noted.
pub fn run(name: &str, environment: &Environment, progress: &Progress) -> Result<()> {
    run_example(&Example::load(name)?, environment, progress)
}

/// The same with `flux.container.install: <method>` in each of its `MiniClusters`.
pub fn run_installed_by(
    method: &str,
    name: &str,
    environment: &Environment,
    progress: &Progress,
) -> Result<()> {
    let scratch = tempfile::tempdir().context("making a directory for manifests")?;
    let example = Example::load(name)?.installed_by(method, scratch.path())?;
    run_example(&example, environment, progress)
}

fn run_example(example: &Example, environment: &Environment, progress: &Progress) -> Result<()> {
    let name = &example.name;
    if let Some(reason) = obstacle(example, &View::from_environment()?, environment.is_own())? {
        not_run::note(&format!("example {name}"), reason, progress);
        return Ok(());
    }
    environment.run(async |client| {
        let level = example.expectation.pod_security();
        let label = level.map(|level| ("pod-security.kubernetes.io/enforce", level));
        let purpose = format!("example-{name}");
        let labels = label.as_slice();
        let trial = Trial::begin(&environment.cluster, &client, &purpose, labels).await?;
        let volumes = Volumes::provide(&trial, example).await?;
        let played = async { Scene::new(environment, &trial, example)?.play().await }.await;
        if let Err(error) = played {
            // What fails stays, to be looked at.
            bail!("{error:#}\n{}", keep_evidence(&trial).await);
        }
        trial.clean().await?;
        Box::pin(volumes.remove(&client)).await
    })
}

/// Why the example cannot run with this view, on a cluster of ours or another.
fn obstacle(example: &Example, view: &View, own_cluster: bool) -> Result<Option<&'static str>> {
    if example.has_own_image() && !own_cluster {
        return Ok(Some("its image, which is in no registry, is made for clusters of ours only"));
    }
    let Some(flux) = example.expectation.flux() else { return Ok(None) };
    let (is_there, reason) = match flux {
        NeededFlux::Real => (view.is_real(), "it needs real Flux"),
        NeededFlux::Fluxion => (view.has_fluxion()?, "it needs a view with Fluxion"),
        NeededFlux::CLibrary => {
            (view.has_c_library()?, "its image has no C library, and the view has none either")
        }
    };
    Ok((!is_there).then_some(reason))
}

/// An example on the cluster, and what its steps are about now.
struct Scene<'run> {
    environment: &'run Environment,
    trial: &'run Trial,
    example: &'run Example,
    place: Place,
    printed: String,
}

impl<'run> Scene<'run> {
    fn new(
        environment: &'run Environment,
        trial: &'run Trial,
        example: &'run Example,
    ) -> Result<Self> {
        let path = example.directory.join(MINICLUSTER);
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let object: kube::core::DynamicObject =
            serde_saphyr::from_str(&text).with_context(|| format!("parsing {}", path.display()))?;
        let name = object.metadata.name.context("the MiniCluster has no name")?;
        let place = Place::lead(&name);
        Ok(Self { environment, trial, example, place, printed: String::new() })
    }

    async fn play(&mut self) -> Result<()> {
        for manifest in &self.example.manifests {
            self.apply(manifest)?;
        }
        for step in &self.example.expectation.steps {
            self.step(step).await.with_context(|| {
                format!("example {}, {step:?}, {}", self.example.name, self.place)
            })?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            // What there must be before the start.
            Step::Flux(_) | Step::PodSecurity(_) => {}
            Step::Apply(file) => self.apply(&self.example.directory.join(file))?,
            Step::Minicluster(name) => self.place = Place::lead(name),
            Step::Pod(pod) => {
                self.place.pod = *pod;
                self.place.container = None;
            }
            Step::Container(name) => self.place.container = Some(name.clone()),
            Step::Condition(kind) => self.await_condition(kind).await?,
            Step::Reason(reason) => self.await_reason(reason).await?,
            Step::Ready(brokers) => self.await_ready(*brokers).await?,
            Step::Exit(code) => self.check_exit(*code).await?,
            Step::Gone(name) => self.await_gone(name).await?,
            Step::Scale(size) => {
                let replicas = format!("--replicas={size}");
                self.kubectl(&["scale", "minicluster", &self.place.minicluster, &replicas])?;
            }
            Step::Run(words) => self.printed = self.exec(words).await?,
            Step::Prints(line) => check_line(&self.printed, line)?,
            Step::Output(line) => {
                let has_line = |log: &str| log.lines().any(|seen| matches(line, seen));
                self.place.await_log(self.trial, &has_line).await?;
            }
            Step::OutputExactly(lines) => {
                self.place.await_log(self.trial, &|log| is_exactly(lines, log)).await?;
            }
            Step::NoOutput(line) => {
                let log = self.place.log(self.trial).await?;
                ensure!(!log.lines().any(|seen| matches(line, seen)), "the log is:\n{log}");
            }
        }
        Ok(())
    }

    /// `kubectl` in the example's namespace.
    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut all = vec!["--namespace", self.trial.namespace()];
        all.extend(arguments);
        self.environment.kubectl(&all)
    }

    fn apply(&self, manifest: &Path) -> Result<()> {
        let path = manifest.to_string_lossy();
        self.kubectl(&["apply", "--server-side", "--validate=strict", "--filename", &path])?;
        Ok(())
    }

    async fn await_condition(&self, kind: &str) -> Result<()> {
        let name = &self.place.minicluster;
        let settled = |cluster: Option<&MiniCluster>| {
            let finished = |cluster| is_true(cluster, "Complete") || is_true(cluster, "Failed");
            cluster.is_some_and(|cluster| is_true(cluster, kind) || finished(cluster))
        };
        let cluster = self.trial.await_minicluster(name, kind, DEADLINE, settled).await?;
        if !is_true(&cluster, kind) {
            let status = serde_saphyr::to_string(&cluster.status).unwrap_or_default();
            bail!("{name} is finished and not {kind}; its status:\n{status}");
        }
        if ["Complete", "Failed"].contains(&kind) { self.check_end(kind).await } else { Ok(()) }
    }

    /// What has ended has ended whole: its Job says the same, which Kubernetes does when no pod runs any
    /// more, and nothing of it was started twice.
    async fn check_end(&self, kind: &str) -> Result<()> {
        let name = &self.place.minicluster;
        // What cleans up after itself may be gone.
        let Some(job) = self.trial.api::<Job>().get_opt(name).await? else { return Ok(()) };
        let status = job.status.unwrap_or_default();
        let mut conditions = status.conditions.iter().flatten();
        let agrees = conditions.any(|it| it.type_ == kind && it.status == "True");
        ensure!(agrees, "its Job is not {kind}: {status:?}");
        let pods = self.trial.pods(name).await?;
        let leads = pods.iter().filter(|pod| pod.name_any().starts_with(&format!("{name}-0-")));
        ensure!(leads.count() <= 1, "the lead was made more than once");
        let statuses =
            pods.iter().filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref());
        let restarts: i32 = statuses.flatten().map(|status| status.restart_count).sum();
        ensure!(restarts == 0, "containers were started again {restarts} times");
        Ok(())
    }

    async fn await_ready(&self, brokers: i32) -> Result<()> {
        let ready = |cluster: Option<&MiniCluster>| {
            let status = cluster.and_then(|cluster| cluster.status.as_ref());
            status.is_some_and(|status| status.ready_brokers == brokers)
        };
        let what = format!("ready with {brokers} brokers");
        let name = &self.place.minicluster;
        self.trial.await_minicluster(name, &what, DEADLINE, ready).await?;
        Ok(())
    }

    async fn check_exit(&self, code: i32) -> Result<()> {
        let name = &self.place.minicluster;
        let cluster = self.trial.api::<MiniCluster>().get(name).await?;
        let found = cluster.status.and_then(|status| status.exit_code);
        ensure!(found == Some(code), "the exit code is {found:?}");
        Ok(())
    }

    async fn await_reason(&self, reason: &str) -> Result<()> {
        let holds = |cluster: Option<&MiniCluster>| {
            let conditions = cluster.and_then(|it| it.status.as_ref()).map(|it| &it.conditions);
            conditions.into_iter().flatten().any(|it| it.status == "True" && it.reason == reason)
        };
        let name = &self.place.minicluster;
        let what = format!("a condition with the reason {reason}");
        self.trial.await_minicluster(name, &what, DEADLINE, holds).await?;
        Ok(())
    }

    async fn await_gone(&self, name: &str) -> Result<()> {
        let api = self.trial.api::<MiniCluster>();
        // Deleted long ago, or to be waited for.
        let Some(found) = api.get_opt(name).await? else { return Ok(()) };
        let uid = found.metadata.uid.unwrap_or_default();
        let gone = conditions::is_deleted(&uid);
        tokio::time::timeout(DEADLINE, await_condition(api, name, gone))
            .await
            .context("it is still there")??;
        Ok(())
    }

    async fn exec(&self, words: &[String]) -> Result<String> {
        let pod = self.place.pod(self.trial).await?.name_any();
        let mut arguments = vec!["exec", &pod, "--container", self.place.container(), "--"];
        arguments.extend(words.iter().map(String::as_str));
        self.kubectl(&arguments)
    }
}

fn check_line(printed: &str, line: &str) -> Result<()> {
    ensure!(printed.lines().any(|seen| matches(line, seen)), "printed was:\n{printed}");
    Ok(())
}

/// Whether the log has these lines and no others.
fn is_exactly(lines: &[String], log: &str) -> bool {
    let seen: Vec<&str> = log.lines().collect();
    seen.len() == lines.len() && lines.iter().zip(seen).all(|(line, seen)| matches(line, seen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flux_operator::images::VIEW_IMAGE;

    #[test]
    fn an_example_that_lacks_something_says_what() {
        let obstacle_of = |name: &str, view: &View, own_cluster: bool| {
            obstacle(&Example::load(name).unwrap(), view, own_cluster).unwrap()
        };
        let real = View::Image("registry.example/view:1".to_owned());
        for (name, own_cluster, with_stand_in) in [
            ("hello-world", false, None),
            ("mpi", true, Some("it needs real Flux")),
            ("fluxion", true, Some("it needs a view with Fluxion")),
        ] {
            assert_eq!(obstacle_of(name, &View::StandIn, own_cluster), with_stand_in, "{name}");
            assert_eq!(obstacle_of(name, &real, own_cluster), None, "{name}");
        }
        let published = View::Image(VIEW_IMAGE.to_owned());
        for (name, refused) in [("distroless", true), ("munge", false), ("hello-world", false)] {
            assert_eq!(obstacle_of(name, &published, false).is_some(), refused, "{name}");
            assert_eq!(obstacle_of(name, &View::StandIn, true), None, "{name}");
        }
        assert!(obstacle_of("mpi", &real, false).is_some_and(|it| it.starts_with("its image")));
    }

    #[test]
    fn an_exact_output_has_neither_more_nor_fewer_lines() {
        let lines = ["a", "b*"].map(str::to_owned);
        assert!(is_exactly(&lines, "a\nbc\n"));
        assert!(!is_exactly(&lines, "a\nbc\nd\n"));
        assert!(!is_exactly(&lines, "a\n"));
        assert!(!is_exactly(&lines, "bc\na\n"));
    }
}
