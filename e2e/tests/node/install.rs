//! Every way to install the operator: files, a kustomization and the chart, for all namespaces and for one.
//! Each installs it, runs a MiniCluster under Pod Security `restricted`, exchanges it for one with more options,
//! and takes it away; then nothing is left. On a cluster of its own, because the definition of MiniCluster
//! comes and goes. Needs root.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    cluster::Target,
    environment::Environment,
    kubernetes::{DownAtEnd, Network, Options},
    product::{
        chart::Chart,
        checkout,
        install::{Installation, NAME, NAMESPACE, definition},
    },
    progress::Progress,
    trial::{Trial, is_true},
    wait::{Look, until},
};
use flux_operator::images::OPERATOR_IMAGE;
use serde_json::{Value, json};

use super::options;

/// A MiniCluster that has everything it needs is done long before.
const DEADLINE: Duration = Duration::from_mins(3);
const DEFINITION: &str = "miniclusters.flux-framework.org";
const RESTRICTED: (&str, &str) = ("pod-security.kubernetes.io/enforce", "restricted");
/// The namespace of the operators that serve only theirs.
const TEAM: &str = "team";

const HELLO: &str = "
apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: hello}
spec:
  size: 2
  pod: {securityContext: {runAsNonRoot: true, runAsUser: 12345, seccompProfile: {type: RuntimeDefault}}}
  containers:
    - image: ubuntu:24.04
      command: echo hello world
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
";

/// The definition as another operator installs it, with the same names and without most of the schema.
const DEFINITION_OF_ANOTHER: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: miniclusters.flux-framework.org}
spec:
  group: flux-framework.org
  names: {kind: MiniCluster, listKind: MiniClusterList, plural: miniclusters, singular: minicluster}
  scope: Namespaced
  versions:
    - name: v1alpha2
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// What installs the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Files,
    Kustomization,
    Chart,
}

/// One way to install, for all namespaces or for one.
struct Case<'run> {
    environment: &'run Environment,
    chart: &'run Chart,
    installation: &'run Installation,
    way: Way,
    /// Whether the operator serves [`TEAM`] only, in which it is.
    only: bool,
    directory: PathBuf,
}

#[test]
#[ignore = "needs root"]
fn every_way_to_install_it_runs_a_minicluster_and_leaves_nothing() {
    let progress = Progress::new();
    let options = options("install", Network::default());
    let _down = DownAtEnd(options.clone());
    if let Err(error) = try_every_way(options, &progress) {
        panic!("{error:#}");
    }
}

fn try_every_way(options: Options, progress: &Progress) -> Result<()> {
    let chart = Chart::of_checkout(progress)?;
    let target = Target::Own(options);
    let (environment, installation) = Environment::without_operator(&target, progress)?;
    after_another_operator(&environment, &installation)?;
    for way in [Way::Files, Way::Kustomization, Way::Chart] {
        for only in [false, true] {
            let scratch = tempfile::tempdir().context("making a directory for manifests")?;
            let case = Case {
                environment: &environment,
                chart: &chart,
                installation: &installation,
                way,
                only,
                directory: scratch.path().to_owned(),
            };
            let what = format!("{way:?}, for one namespace: {only}");
            progress.step(&what, || case.try_it()).context(what)?;
        }
    }
    Ok(())
}

/// The definition of another operator is replaced, its MiniCluster stays and runs, and nothing of ours is left.
fn after_another_operator(environment: &Environment, installation: &Installation) -> Result<()> {
    let directory = tempfile::tempdir().context("making a directory for manifests")?;
    let path = directory.path();
    let (theirs, hello) = (path.join("theirs.yaml"), path.join("hello.yaml"));
    for (file, content) in [
        (&theirs, DEFINITION_OF_ANOTHER),
        (&hello, HELLO),
        (&path.join("crd.yaml"), &definition()?),
        (&path.join("operator.yaml"), &installation.everywhere()?),
    ] {
        fs::write(file, content).with_context(|| format!("writing {}", file.display()))?;
    }
    let kubectl = |words: &[&str]| environment.kubectl(words);
    kubectl(&["apply", "-f", &text(&theirs)])?;
    environment.await_definition()?;
    kubectl(&["create", "namespace", "kept"])?;
    kubectl(&["apply", "--namespace", "kept", "-f", &text(&hello)])?;
    apply(environment, &["-f", &text(&path.join("crd.yaml"))])?;
    apply(environment, &["-f", &text(&path.join("operator.yaml"))])?;
    let done = ["wait", "minicluster/hello", "--for=condition=Complete", "--timeout=3m"];
    kubectl(&[&done[..], &["--namespace", "kept"]].concat()).context("running what was there")?;
    kubectl(&["delete", "namespace", "kept"])?;
    delete(environment, "-f", &text(&path.join("operator.yaml")))?;
    delete(environment, "-f", &text(&path.join("crd.yaml")))?;
    await_nothing_left(environment)
}

impl Case<'_> {
    fn try_it(&self) -> Result<()> {
        self.prepare()?;
        self.install()?;
        self.run_hello()?;
        self.upgrade()?;
        self.has_more()?;
        self.run_hello()?;
        self.uninstall()?;
        self.environment.kubectl(&["get", "customresourcedefinition", DEFINITION])?;
        self.forget()
    }

    /// The namespace of the operator.
    fn namespace(&self) -> &'static str {
        if self.only { TEAM } else { NAMESPACE }
    }

    /// Whether the operator's namespace is made before the operator.
    fn has_namespace(&self) -> bool {
        self.only || self.way == Way::Chart
    }

    /// What an administrator does before. The chart for all namespaces has its own definition.
    fn prepare(&self) -> Result<()> {
        if self.has_namespace() {
            self.environment.kubectl(&["create", "namespace", self.namespace()])?;
            let (key, value) = RESTRICTED;
            let label = format!("{key}={value}");
            self.environment.kubectl(&["label", "namespace", self.namespace(), &label])?;
        }
        if self.only || self.way != Way::Chart {
            apply(self.environment, &["-f", &deploy("crd.yaml")?])?;
        }
        if self.only {
            apply(self.environment, &["-f", &deploy("user-roles.yaml")?])?;
        }
        Ok(())
    }

    fn install(&self) -> Result<()> {
        match self.way {
            Way::Files => {
                let text = if self.only {
                    self.installation.in_namespace(TEAM)
                } else {
                    self.installation.everywhere()
                };
                self.write("operator.yaml", &text?)?;
            }
            Way::Kustomization => self.write_kustomization(&[])?,
            Way::Chart => {
                self.write("values.yaml", &self.values(false).to_string())?;
                let skip: &[&str] = if self.only { &["--skip-crds"] } else { &[] };
                return self.helm("install", skip);
            }
        }
        self.apply()
    }

    /// Exchanges the operator for one with more options.
    fn upgrade(&self) -> Result<()> {
        self.write("values.yaml", &self.values(true).to_string())?;
        match self.way {
            Way::Files => {
                let values = format!("--values={}", self.path("values.yaml"));
                let namespace = format!("--set=createNamespace={}", !self.only);
                let text = self.chart.render(self.namespace(), &[&values, &namespace])?;
                self.write("operator.yaml", &text)?;
            }
            Way::Kustomization => {
                self.write_kustomization(&["network-policy", "pod-disruption-budget"])?;
            }
            Way::Chart => {
                if !self.only {
                    let shown = ["show", "crds", &text(self.chart.directory())];
                    let shown = self.environment.output_of(self.chart.helm(), &shown)?;
                    self.write("shown.yaml", &shown)?;
                    apply(self.environment, &["-f", &self.path("shown.yaml")])?;
                }
                return self.helm("upgrade", &[]);
            }
        }
        self.apply()
    }

    /// Values of the chart, which the files have too.
    fn values(&self, more: bool) -> Value {
        let Installation { operator_image, agent_image, view_image, .. } = self.installation;
        json!({
            "watchNamespace": if self.only { TEAM } else { "" },
            "image": parts(operator_image),
            "agentImage": parts(agent_image),
            "viewImage": view_image,
            "replicas": if more { 2 } else { 1 },
            "podDisruptionBudget": { "enabled": more },
            "networkPolicy": { "enabled": more },
        })
    }

    /// Writes a kustomization that stands on one of those in `deploy/`.
    fn write_kustomization(&self, components: &[&str]) -> Result<()> {
        let Installation { operator_image, agent_image, view_image, .. } = self.installation;
        let below =
            |path: &str| from_directory(&self.directory, &checkout()?.join("deploy").join(path));
        let components = components.iter().map(|name| below(&format!("components/{name}")));
        let (released, _) = OPERATOR_IMAGE.rsplit_once(':').context("an image without a tag")?;
        let (name, tag) = operator_image.rsplit_once(':').context("an image without a tag")?;
        let variables = json!([
            { "name": "FLUX_OPERATOR_AGENT_IMAGE", "value": agent_image },
            { "name": "FLUX_OPERATOR_VIEW_IMAGE", "value": view_image },
        ]);
        let patch = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": NAME },
            "spec": { "template": { "spec": { "containers": [{ "name": NAME, "env": variables }] } } },
        });
        let kustomization = json!({
            "namespace": self.namespace(),
            "resources": [below(if self.only { "one-namespace" } else { "" })?],
            "components": components.collect::<Result<Vec<_>>>()?,
            "images": [{ "name": released, "newName": name, "newTag": tag }],
            "patches": [{ "patch": patch.to_string(), "target": { "kind": "Deployment", "name": NAME } }],
        });
        self.write("kustomization.yaml", &kustomization.to_string())
    }

    /// What kubectl applies and deletes.
    fn operator(&self) -> (&'static str, String) {
        if self.way == Way::Kustomization {
            ("-k", self.path(""))
        } else {
            ("-f", self.path("operator.yaml"))
        }
    }

    /// Installs or upgrades by kubectl, and waits until the operator is ready.
    fn apply(&self) -> Result<()> {
        let (option, path) = self.operator();
        apply(self.environment, &[option, &path])?;
        let rollout = ["rollout", "status", "deployment", NAME, "--timeout=3m"];
        let words = [&rollout[..], &["--namespace", self.namespace()]].concat();
        self.environment.kubectl(&words).map(|_| ())
    }

    /// The options of the upgrade are in force.
    fn has_more(&self) -> Result<()> {
        let objects = ["get", "networkpolicy,poddisruptionbudget", NAME, "-oname"];
        let namespace = ["--namespace", self.namespace()];
        self.environment.kubectl(&[&objects[..], &namespace].concat())?;
        let replicas = ["get", "deployment", NAME, "-ojsonpath={.spec.replicas}"];
        let replicas = self.environment.kubectl(&[&replicas[..], &namespace].concat())?;
        ensure!(replicas == "2", "{replicas} operators");
        Ok(())
    }

    /// A MiniCluster runs, in the namespace of the operator or in one of its own.
    fn run_hello(&self) -> Result<()> {
        if !self.only {
            return self
                .environment
                .trial("hello", &[RESTRICTED], async |trial| hello(trial).await);
        }
        let file = self.path("hello.yaml");
        fs::write(&file, HELLO).context("writing a MiniCluster")?;
        for words in [
            vec!["apply", "-f", file.as_str()],
            vec!["wait", "minicluster/hello", "--for=condition=Complete", "--timeout=3m"],
            vec!["delete", "-f", file.as_str()],
        ] {
            self.environment.kubectl(&[&words[..], &["--namespace", TEAM]].concat())?;
        }
        Ok(())
    }

    /// Takes the operator away; the definition stays.
    fn uninstall(&self) -> Result<()> {
        if self.way == Way::Chart {
            let words =
                ["uninstall", NAME, "--namespace", self.namespace(), "--wait", "--timeout=3m"];
            return self.environment.output_of(self.chart.helm(), &words).map(|_| ());
        }
        let (option, path) = self.operator();
        delete(self.environment, option, &path)
    }

    /// Takes away what outlives an operator; then nothing is left.
    fn forget(&self) -> Result<()> {
        if self.has_namespace() {
            self.await_no_pod()?;
            let lease = ["delete", "lease", NAME, "--namespace", self.namespace()];
            self.environment.kubectl(&lease)?;
        }
        if self.only {
            delete(self.environment, "-f", &deploy("user-roles.yaml")?)?;
        }
        delete(self.environment, "-f", &deploy("crd.yaml")?)?;
        await_nothing_left(self.environment)?;
        if self.has_namespace() {
            self.environment.kubectl(&["delete", "namespace", self.namespace()])?;
        }
        Ok(())
    }

    /// Waits until the operator has ended: until then it renews its Lease.
    fn await_no_pod(&self) -> Result<()> {
        let label = format!("--selector=app.kubernetes.io/name={NAME}");
        let pods = ["get", "pods", label.as_str(), "-oname", "--namespace", self.namespace()];
        until("the operator to end", DEADLINE, || {
            let pods = self.environment.kubectl(&pods)?;
            Ok(if pods.is_empty() { Look::Ready(()) } else { Look::NotYet(pods) })
        })
    }

    /// Installs or upgrades the chart in the operator's namespace, and waits until everything is ready.
    fn helm(&self, word: &str, more: &[&str]) -> Result<()> {
        let (chart, values) = (text(self.chart.directory()), self.path("values.yaml"));
        let release = [word, NAME, &chart, "--values", &values, "--namespace", self.namespace()];
        let words = [&release[..], &["--wait", "--timeout=3m"], more].concat();
        self.environment.output_of(self.chart.helm(), &words).map(|_| ())
    }

    fn write(&self, name: &str, content: &str) -> Result<()> {
        fs::write(self.directory.join(name), content).with_context(|| format!("writing {name}"))
    }

    fn path(&self, name: &str) -> String {
        text(&self.directory.join(name))
    }
}

async fn hello(trial: &Trial) -> Result<()> {
    let name = trial.apply(HELLO).await?;
    let cluster = trial.await_finished(&name, DEADLINE).await?;
    ensure!(is_true(&cluster, "Complete"), "{name}: {:?}", cluster.status);
    Ok(())
}

/// An image as the chart has it.
fn parts(image: &str) -> Value {
    let (name, tag) = image.rsplit_once(':').unwrap_or((image, "latest"));
    let (registry, repository) = name.rsplit_once('/').unwrap_or(("docker.io/library", name));
    json!({ "registry": registry, "repository": repository, "tag": tag })
}

/// A file in `deploy/`.
fn deploy(name: &str) -> Result<String> {
    Ok(text(&checkout()?.join("deploy").join(name)))
}

/// `path` as it is seen from `directory`: a kustomization names others by relative paths alone.
fn from_directory(directory: &Path, path: &Path) -> Result<String> {
    let resolved =
        |path: &Path| path.canonicalize().with_context(|| format!("resolving {}", path.display()));
    let up = "../".repeat(resolved(directory)?.components().count() - 1);
    let path = text(&resolved(path)?);
    Ok(format!("{up}{}", path.trim_start_matches('/')))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn apply(environment: &Environment, what: &[&str]) -> Result<()> {
    let words = ["apply", "--server-side", "--force-conflicts"];
    environment.kubectl(&[&words[..], what].concat())?;
    environment.await_definition()
}

/// Deletes what is applied by `option` and `path`. What is in a namespace goes with it, at any moment.
fn delete(environment: &Environment, option: &str, path: &str) -> Result<()> {
    environment.kubectl(&["delete", "--ignore-not-found", option, path]).map(|_| ())
}

/// Waits until the cluster has nothing of an operator, in whichever namespace.
fn await_nothing_left(environment: &Environment) -> Result<()> {
    let kinds = environment.kubectl(&["api-resources", "--verbs=list,delete", "-oname"])?;
    let kinds = kinds.split_whitespace().collect::<Vec<_>>().join(",");
    let label = format!("--selector=app.kubernetes.io/name={NAME}");
    let everywhere = ["--all-namespaces", "--ignore-not-found", "-oname"];
    until("nothing of the operator to be left", DEADLINE, || {
        let labelled = [&["get", kinds.as_str(), label.as_str()][..], &everywhere].concat();
        let leases = [&["get", "leases"][..], &everywhere].concat();
        let releases = [&["get", "secrets", "--selector=owner=helm"][..], &everywhere].concat();
        let definition =
            ["get", "customresourcedefinition", DEFINITION, "--ignore-not-found", "-oname"];
        let leases = environment.kubectl(&leases)?;
        let leases = leases.lines().filter(|lease| lease.ends_with(&format!("/{NAME}")));
        let mut left: Vec<String> = leases.map(str::to_owned).collect();
        for words in [&labelled[..], &releases[..], &definition[..]] {
            left.extend(environment.kubectl(words)?.lines().map(str::to_owned));
        }
        Ok(if left.is_empty() { Look::Ready(()) } else { Look::NotYet(left.join(" ")) })
    })
}
