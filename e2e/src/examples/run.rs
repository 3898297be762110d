//! Applies an example in a namespace of its own and runs the steps of its expectation.

use super::expectation::{NeededFlux, Step, matches};
use super::{Example, object, volumes};
use crate::environment::Environment;
use crate::notes;
use crate::product::images::for_workflows;
use crate::product::printed;
use crate::product::view::View;
use crate::programs;
use crate::trial::instance::{Instance, wait_for};
use crate::trial::logs::container_log;
use crate::trial::{Trial, is_finished, is_true};
use anyhow::{Context as _, Result, bail, ensure};
use flux_api::crd::MiniCluster;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// Runs the example of that name; keeps the evidence when it fails, else cleans up. Notes an example as not run if it
/// needs another Flux. With `install`, agent and view come into the pods of its MiniClusters in this way.
pub fn run(name: &str, install: Option<&str>, environment: &Environment) -> Result<()> {
    let example = &Example::load(name)?;
    if let Some(reason) = obstacle(example, &View::from_environment()?, environment.is_own())? {
        notes::not_run(&format!("example {name}"), reason);
        return Ok(());
    }
    if environment.is_own() {
        // Before the trial: the cluster's network does not reach the sources of these images.
        let maker = example.maker_of_image().unwrap_or_default();
        for_workflows::load(maker, &environment.cluster)?;
    }
    let purpose = format!("example-{name}");
    let mut namespace = String::new();
    let played = environment.trial(&purpose, async |trial| {
        trial.namespace().clone_into(&mut namespace);
        volumes::provide(environment, trial, example)?;
        let run = trial.named(&example.name);
        let mut run_of_example = ExampleRun {
            environment,
            trial,
            example,
            install,
            run,
            pod: 0,
            container: None,
            printed: String::new(),
        };
        run_of_example.play().await
    });
    let removed = volumes::remove(&namespace, played.is_ok(), environment);
    played.and(removed)
}

/// Why the example cannot run with this view, on a cluster of ours or another.
fn obstacle(example: &Example, view: &View, own_cluster: bool) -> Result<Option<&'static str>> {
    let maker = example.maker_of_image();
    if maker.is_some() && !own_cluster {
        return Ok(Some("its image, which is in no registry, is made for clusters of ours only"));
    }
    let flux = |step: &Step| if let Step::Flux(flux) = step { Some(*flux) } else { None };
    let Some(flux) = example.steps.iter().find_map(flux) else { return Ok(None) };
    let (is_there, reason) = match flux {
        NeededFlux::Real => (view.is_real(), "it needs real Flux"),
        NeededFlux::Fluxion => (view.has_fluxion()?, "it needs a view with Fluxion"),
        NeededFlux::Pmix => (view.has_pmix()?, "it needs a view with flux-pmix"),
        NeededFlux::CLibrary => {
            (view.has_c_library()?, "its image has no C library, and the view has none either")
        }
    };
    if !is_there {
        return Ok(Some(reason));
    }
    for_workflows::obstacle(maker.unwrap_or_default())
}

/// An example on the cluster, with the pod and the container that its steps are about.
struct ExampleRun<'run> {
    environment: &'run Environment,
    trial: &'run Trial,
    example: &'run Example,
    /// How agent and view come into the pods, if not in the way of the example's manifest.
    install: Option<&'run str>,
    run: Instance<'run>,
    pod: u32,
    /// Name of a container, if it is not the one that runs Flux.
    container: Option<&'run str>,
    printed: String,
}

impl<'run> ExampleRun<'run> {
    async fn play(&mut self) -> Result<()> {
        for step in &self.example.steps {
            if let Step::PodSecurity(level) = step {
                self.trial.enforce(level)?;
            }
        }
        for object in &self.example.objects {
            self.apply(object.clone())?;
        }
        for step in &self.example.steps {
            self.step(step).await.with_context(|| {
                let (example, run, container) =
                    (&self.example.name, self.run.name, self.container());
                format!(
                    "example {example}, {step:?}, pod {} of {run}, container {container}",
                    self.pod
                )
            })?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &'run Step) -> Result<()> {
        match step {
            // These come before the first object.
            Step::Flux(_) | Step::PodSecurity(_) => {}
            Step::Apply(file) => self.apply(object(&self.example.directory.join(file))?)?,
            Step::Minicluster(name) => {
                self.run = self.trial.named(name);
                (self.pod, self.container) = (0, None);
            }
            Step::Pod(pod) => (self.pod, self.container) = (*pod, None),
            Step::Container(name) => self.container = Some(name),
            Step::Condition(kind) => self.await_condition(kind).await?,
            Step::Reason(reason) => self.await_reason(reason).await?,
            Step::Ready(brokers) => drop(self.run.brokers(*brokers).await?),
            Step::Exit(code) => {
                let cluster = self.trial.api::<MiniCluster>().get(self.run.name).await?;
                let found = cluster.status.and_then(|status| status.exit_code);
                ensure!(found == Some(*code), "the exit code is {found:?}");
            }
            Step::Gone(name) => {
                let name = format!("minicluster/{name}");
                self.run.kubectl(&["wait", "--for=delete", &name, "--timeout=3m"])?;
            }
            Step::Scale(size) => {
                let replicas = format!("--replicas={size}");
                self.run.kubectl(&["scale", "minicluster", self.run.name, &replicas])?;
            }
            Step::Run(words) => {
                let pod = self.run.pod(self.pod).await?.name_any();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.printed = self.run.exec_in(&pod, self.container(), &words)?;
            }
            Step::Client(words) => self.printed = self.client(words)?,
            Step::Kubectl(words) => self.printed = self.kubectl(words)?,
            Step::Prints(line) => {
                let printed = &self.printed;
                ensure!(has_line(printed, line), "printed was:\n{printed}");
            }
            Step::Output(line) => self.await_log(|log| has_line(log, line)).await?,
            Step::OutputExactly(lines) => self.await_log(|log| is_exactly(lines, log)).await?,
            Step::NoOutput(line) => {
                let log = self.log().await?;
                ensure!(!has_line(&log, line), "the log is:\n{log}");
            }
        }
        Ok(())
    }

    fn client(&self, words: &[String]) -> Result<String> {
        let words = words.iter().map(String::as_str);
        let words: Vec<&str> =
            ["exec", "-i", self.run.name, "--"].into_iter().chain(words).collect();
        let plugin = self.trial.plugin(&words)?;
        let mut client = self.trial.program(Path::new("python3"));
        client.arg(self.example.directory.join("client.py")).arg(plugin.get_program());
        printed(client.args(plugin.get_args()))
    }

    /// What kubectl or the plugin prints on a terminal.
    fn kubectl(&self, words: &[String]) -> Result<String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = match words[..] {
            ["flux", ref words @ ..] => self.trial.plugin(words)?,
            _ => self.trial.kubectl_command(&words),
        };
        let Output { stdout, stderr, .. } = programs::run(&mut command)?;
        Ok(String::from_utf8_lossy(&[stderr, stdout].concat()).into_owned())
    }

    fn apply(&self, mut object: Value) -> Result<()> {
        if let Some(install) = self.install
            && object["kind"] == "MiniCluster"
        {
            object["spec"]["flux"]["container"]["install"] = install.into();
        }
        // It belongs to no namespace, and names that of its Service.
        if object["kind"] == "APIService" {
            object["spec"]["service"]["namespace"] = self.trial.namespace().into();
        }
        self.environment
            .cluster
            .apply(&object.to_string(), &["--namespace", self.trial.namespace()])
    }

    fn container(&self) -> &'run str {
        self.container.unwrap_or(self.run.name)
    }

    async fn log(&self) -> Result<String> {
        container_log(self.trial, &self.run.pod(self.pod).await?, self.container()).await
    }

    async fn await_log(&self, expected: impl Fn(&str) -> bool) -> Result<()> {
        let mut seen = String::new();
        let found = wait_for("the log", async || {
            seen = match self.log().await {
                Ok(log) if expected(&log) => return Ok(Some(())),
                Ok(log) => format!("the log is:\n{log}"),
                Err(error) => format!("{error:#}"),
            };
            Ok(None)
        });
        found.await.with_context(|| seen)
    }

    async fn await_condition(&self, kind: &str) -> Result<()> {
        let settled = |cluster: &MiniCluster| is_true(cluster, kind) || is_finished(cluster);
        let cluster = self.run.until(kind, settled).await?;
        if !is_true(&cluster, kind) {
            let status = serde_saphyr::to_string(&cluster.status).unwrap_or_default();
            bail!("{} is finished and not {kind}; its status:\n{status}", self.run.name);
        }
        if ["Complete", "Failed"].contains(&kind) { self.check_end(kind).await } else { Ok(()) }
    }

    /// Checks that the Job comes to the same end, which Kubernetes reports when no pod runs any more, and that nothing
    /// was started twice.
    async fn check_end(&self, kind: &str) -> Result<()> {
        let name = self.run.name;
        let jobs = self.trial.api::<Job>();
        wait_for(&format!("its Job to be {kind}"), async || {
            // An example that cleans up may have deleted its Job.
            let Some(job) = jobs.get_opt(name).await? else { return Ok(Some(())) };
            let conditions = job.status.and_then(|status| status.conditions).unwrap_or_default();
            let is =
                |type_: &str| conditions.iter().any(|it| it.type_ == type_ && it.status == "True");
            let other = if kind == "Failed" { "Complete" } else { "Failed" };
            ensure!(!is(other), "its Job is {other}");
            Ok(is(kind).then_some(()))
        })
        .await?;
        let pods = self.trial.pods(name).await?;
        let leads = pods.iter().filter(|pod| pod.name_any().starts_with(&format!("{name}-0-")));
        ensure!(leads.count() <= 1, "the lead was made more than once");
        let statuses =
            pods.iter().filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref());
        let restarts: i32 = statuses.flatten().map(|status| status.restart_count).sum();
        ensure!(restarts == 0, "containers were started again {restarts} times");
        Ok(())
    }

    async fn await_reason(&self, reason: &str) -> Result<()> {
        let what = format!("a condition with the reason {reason}");
        let holds = |cluster: &MiniCluster| {
            let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
            conditions.into_iter().any(|it| it.status == "True" && it.reason == reason)
        };
        self.run.until(&what, holds).await.map(drop)
    }
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|seen| matches(line, seen))
}

/// Whether the log has these lines and no others.
fn is_exactly(lines: &[String], log: &str) -> bool {
    let seen: Vec<_> = log.lines().collect();
    seen.len() == lines.len() && lines.iter().zip(seen).all(|(line, seen)| matches(line, seen))
}
