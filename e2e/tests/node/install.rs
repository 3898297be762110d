//! Every way to install the operator: files, kustomizations and the chart, for all namespaces and for one.
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
    cache::Cache,
    cluster::Target,
    environment::Environment,
    kubernetes::{DownAtEnd, Network, Options, helm},
    product::packaging::{plain, same_objects, write},
    progress::Progress,
    trial::{Trial, is_true},
    wait::{Look, until},
};
use flux_operator::manifests::{Format, Installation, NAME, NAMESPACE};

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
    Kustomizations,
    Chart,
}

/// One way to install, for all namespaces or for one.
struct Case<'run> {
    environment: &'run Environment,
    helm: &'run Path,
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
    let helm = helm(&Cache::locate()?, progress)?;
    let target = Target::Own(options);
    let (environment, installation) = Environment::without_operator(&target, progress)?;
    kustomizations_say_the_same(&environment, &installation)?;
    after_another_operator(&environment, &installation)?;
    for way in [Way::Files, Way::Kustomizations, Way::Chart] {
        for only in [false, true] {
            let scratch = tempfile::tempdir().context("making a directory for manifests")?;
            let directory = scratch.path().to_owned();
            let case = Case { environment: &environment, helm: &helm, way, only, directory };
            let what = format!("{way:?}, for one namespace: {only}");
            progress.step(&what, || case.try_it(&installation)).context(what)?;
        }
    }
    Ok(())
}

/// kubectl makes of the kustomizations what is in the files.
fn kustomizations_say_the_same(
    environment: &Environment,
    installation: &Installation,
) -> Result<()> {
    let directory = tempfile::tempdir().context("making a directory for kustomizations")?;
    write(Format::Kustomize, installation, directory.path())?;
    let mut all = String::new();
    for part in ["crd", "cluster-wide"] {
        let path = text(&directory.path().join(part));
        all.extend(["---\n", &environment.kubectl(&["kustomize", &path])?]);
    }
    same_objects(&plain(installation)?, &all).context("the kustomizations")
}

/// The definition of another operator is replaced, its MiniCluster stays and runs, and nothing of ours is left.
fn after_another_operator(environment: &Environment, installation: &Installation) -> Result<()> {
    let directory = tempfile::tempdir().context("making a directory for manifests")?;
    let path = directory.path();
    write(Format::Plain, installation, path)?;
    let (definition, hello) = (path.join("theirs.yaml"), path.join("hello.yaml"));
    fs::write(&definition, DEFINITION_OF_ANOTHER).context("writing a definition")?;
    fs::write(&hello, HELLO).context("writing a MiniCluster")?;
    let kubectl = |words: &[&str]| environment.kubectl(words);
    kubectl(&["apply", "-f", &text(&definition)])?;
    await_definition(environment)?;
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
    fn try_it(&self, installation: &Installation) -> Result<()> {
        self.prepare()?;
        self.install(installation)?;
        self.run_hello()?;
        let more = Installation {
            pod_disruption_budget: true,
            network_policy: true,
            ..installation.clone()
        };
        self.upgrade(&more)?;
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

    /// What an administrator does before.
    fn prepare(&self) -> Result<()> {
        if self.only || self.way == Way::Chart {
            self.environment.kubectl(&["create", "namespace", self.namespace()])?;
            let (key, value) = RESTRICTED;
            let label = format!("{key}={value}");
            self.environment.kubectl(&["label", "namespace", self.namespace(), &label])?;
        }
        if self.only {
            write(Format::Plain, &Installation::default(), &self.directory)?;
            apply(self.environment, &["-f", &self.path("crd.yaml")])?;
        }
        Ok(())
    }

    fn install(&self, installation: &Installation) -> Result<()> {
        if self.way != Way::Chart {
            return self.apply(installation);
        }
        self.write(installation)?;
        let skip: &[&str] = if self.only { &["--skip-crds"] } else { &[] };
        let chart = self.path("");
        self.helm(&[&["install", NAME, chart.as_str()][..], skip].concat())
    }

    fn upgrade(&self, installation: &Installation) -> Result<()> {
        if self.way != Way::Chart {
            return self.apply(installation);
        }
        self.write(installation)?;
        if !self.only {
            let definition =
                self.environment.output_of(self.helm, &["show", "crds", &self.path("")])?;
            fs::write(self.path("shown.yaml"), definition).context("writing the definition")?;
            apply(self.environment, &["-f", &self.path("shown.yaml")])?;
        }
        self.helm(&["upgrade", NAME, &self.path("")])
    }

    /// Writes what this way needs.
    fn write(&self, installation: &Installation) -> Result<()> {
        let watched = self.only.then(|| TEAM.to_owned());
        let watching = Installation { watch_namespace: watched, ..installation.clone() };
        match self.way {
            Way::Files => write(Format::Plain, &watching, &self.directory),
            Way::Chart => write(Format::Helm, &watching, &self.directory),
            Way::Kustomizations => {
                write(Format::Kustomize, installation, &self.directory)?;
                let overlay = self.directory.join("team");
                fs::create_dir_all(&overlay).context("making a directory")?;
                let text = format!("namespace: {TEAM}\nresources: [../one-namespace]\n");
                fs::write(overlay.join("kustomization.yaml"), text).context("writing an overlay")
            }
        }
    }

    /// Installs or upgrades by kubectl, and waits until the operator is ready.
    fn apply(&self, installation: &Installation) -> Result<()> {
        self.write(installation)?;
        for words in self.applied() {
            apply(self.environment, &[words.0, &self.path(words.1)])?;
        }
        let rollout = ["rollout", "status", "deployment", NAME, "--timeout=3m"];
        let words = [&rollout[..], &["--namespace", self.namespace()]].concat();
        self.environment.kubectl(&words).map(|_| ())
    }

    /// What kubectl applies, the operator last.
    fn applied(&self) -> Vec<(&'static str, &'static str)> {
        match (self.way, self.only) {
            (Way::Files, false) => vec![("-f", "crd.yaml"), ("-f", "operator.yaml")],
            (Way::Files, true) => vec![("-f", "operator.yaml")],
            (Way::Kustomizations, false) => vec![("-k", "crd"), ("-k", "cluster-wide")],
            (Way::Kustomizations, true) => vec![("-k", "team")],
            (Way::Chart, _) => vec![],
        }
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
            return self.helm(&["uninstall", NAME]);
        }
        let (option, name) = *self.applied().last().context("nothing was applied")?;
        delete(self.environment, option, &self.path(name))
    }

    /// Takes away what outlives an operator; then nothing is left.
    fn forget(&self) -> Result<()> {
        let has_namespace = self.only || self.way == Way::Chart;
        if has_namespace {
            self.await_no_pod()?;
            let lease = ["delete", "lease", NAME, "--namespace", self.namespace()];
            self.environment.kubectl(&lease)?;
        }
        if self.way == Way::Chart && !self.only {
            self.environment.kubectl(&["delete", "customresourcedefinition", DEFINITION])?;
        } else if self.way == Way::Kustomizations && !self.only {
            delete(self.environment, "-k", &self.path("crd"))?;
        } else {
            delete(self.environment, "-f", &self.path("crd.yaml"))?;
        }
        await_nothing_left(self.environment)?;
        if has_namespace {
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

    /// helm, in the operator's namespace; it waits until everything is ready, or gone.
    fn helm(&self, words: &[&str]) -> Result<()> {
        let all = ["--namespace", self.namespace(), "--wait", "--timeout=3m"];
        self.environment.output_of(self.helm, &[words, &all].concat()).map(|_| ())
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

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn apply(environment: &Environment, what: &[&str]) -> Result<()> {
    let words = ["apply", "--server-side", "--force-conflicts"];
    environment.kubectl(&[&words[..], what].concat())?;
    await_definition(environment)
}

/// Deletes what is applied by `option` and `path`. What is in a namespace goes with it, at any moment.
fn delete(environment: &Environment, option: &str, path: &str) -> Result<()> {
    environment.kubectl(&["delete", "--ignore-not-found", option, path]).map(|_| ())
}

/// Waits until MiniClusters can be made.
fn await_definition(environment: &Environment) -> Result<()> {
    let wait = ["wait", "--for=condition=Established", "--timeout=1m"];
    let definition = format!("customresourcedefinition/{DEFINITION}");
    environment.kubectl(&[&wait[..], &[&definition]].concat()).map(|_| ())
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
