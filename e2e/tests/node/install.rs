//! The ways to install the operator besides the files, which all other clusters have: a kustomization and the chart, for
//! all namespaces and for one. Each installs it, runs a MiniCluster under Pod Security `restricted`, exchanges it for
//! one with more options, and takes it away; then nothing is left. On a cluster of its own, because the definition of
//! MiniCluster comes and goes. Needs root.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    cluster::Target,
    environment::Environment,
    kubernetes::{Network, Options},
    product::{
        chart::Chart,
        checkout,
        install::{Installation, NAME, NAMESPACE},
    },
    progress::Progress,
    wait::{Look, until},
};
use flux_operator::images::OPERATOR_IMAGE;
use serde_json::{Value, json};

use super::{DEADLINE, on_a_cluster, options};

const DEFINITION: &str = "miniclusters.flux-framework.org";
/// The namespace of the operators that serve only theirs.
const TEAM: &str = "team";
/// A namespace in which other operators serve MiniClusters.
const USERS: &str = "users";

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
    Kustomization,
    Chart,
}

/// One way to install, for all namespaces or for one.
struct Case<'run> {
    environment: &'run Environment,
    chart: &'run Chart,
    installation: &'run Installation,
    /// Has manifests, which each case writes anew; two levels below the checkout.
    directory: &'run Path,
    way: Way,
    /// Whether the operator serves [`TEAM`] only, in which it is.
    only: bool,
}

#[test]
#[ignore = "needs root"]
fn every_way_to_install_it_runs_a_minicluster_and_leaves_nothing() {
    on_a_cluster(&options("install", Network::default()), try_every_way);
}

fn try_every_way(options: &Options, progress: &Progress) -> Result<()> {
    let chart = Chart::of_checkout(progress)?;
    let target = Target::Own(options.clone());
    let (environment, installation) = Environment::without_operator(&target, progress)?;
    let target_directory = checkout()?.join("target");
    fs::create_dir_all(&target_directory)?;
    let scratch = tempfile::tempdir_in(target_directory).context("making a directory")?;
    let case = |way, only| Case {
        environment: &environment,
        chart: &chart,
        installation: &installation,
        directory: scratch.path(),
        way,
        only,
    };
    case(Way::Kustomization, false).prepare_another_operators()?;
    for way in [Way::Kustomization, Way::Chart] {
        for only in [false, true] {
            let what = format!("{way:?}, for one namespace: {only}");
            progress.step(&what, || case(way, only).try_it()).context(what)?;
        }
    }
    Ok(())
}

impl Case<'_> {
    /// The first case finds the definition of another operator, which it replaces, and a MiniCluster, which it runs.
    fn prepare_another_operators(&self) -> Result<()> {
        self.write("hello.yaml", HELLO)?;
        self.write("theirs.yaml", DEFINITION_OF_ANOTHER)?;
        self.restricted_namespace(USERS)?;
        self.kubectl(&["apply", "-f", &self.path("theirs.yaml")])?;
        self.environment.await_definition()?;
        self.kubectl(&["apply", "--namespace", USERS, "-f", &self.path("hello.yaml")])?;
        Ok(())
    }

    fn try_it(&self) -> Result<()> {
        self.prepare()?;
        self.install()?;
        self.run_hello()?;
        self.upgrade()?;
        self.has_more()?;
        self.run_hello()?;
        if self.only {
            self.has_few_rights()?;
        }
        self.uninstall()?;
        self.kubectl(&["get", "customresourcedefinition", DEFINITION])?;
        self.forget()
    }

    fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.environment.kubectl(words)
    }

    /// `kubectl` in the namespace of the operator.
    fn beside(&self, words: &[&str]) -> Result<String> {
        self.kubectl(&[&["--namespace", self.namespace()], words].concat())
    }

    /// The namespace of the operator.
    fn namespace(&self) -> &'static str {
        if self.only { TEAM } else { NAMESPACE }
    }

    fn restricted_namespace(&self, name: &str) -> Result<()> {
        self.kubectl(&["create", "namespace", name])?;
        let restricted = "pod-security.kubernetes.io/enforce=restricted";
        self.kubectl(&["label", "namespace", name, restricted]).map(drop)
    }

    /// Whether the operator's namespace is made before the operator.
    fn has_namespace(&self) -> bool {
        self.only || self.way == Way::Chart
    }

    /// What an administrator does before. The chart for all namespaces has its own definition.
    fn prepare(&self) -> Result<()> {
        if self.has_namespace() {
            self.restricted_namespace(self.namespace())?;
        }
        if self.only || self.way != Way::Chart {
            self.apply(&["-f", &deploy("crd.yaml")?])?;
        }
        if self.only {
            self.apply(&["-f", &deploy("user-roles.yaml")?])?;
        }
        Ok(())
    }

    fn install(&self) -> Result<()> {
        if self.way == Way::Kustomization {
            return self.kustomize(&[]);
        }
        self.write("values.yaml", &self.values(false).to_string())?;
        self.helm("install", if self.only { &["--skip-crds"] } else { &[] })
    }

    /// Exchanges the operator for one with more options.
    fn upgrade(&self) -> Result<()> {
        if self.way == Way::Kustomization {
            return self.kustomize(&["network-policy", "pod-disruption-budget"]);
        }
        self.write("values.yaml", &self.values(true).to_string())?;
        if !self.only {
            let shown = ["show", "crds", &text(self.chart.directory())];
            let shown = self.environment.output_of(self.chart.helm(), &shown)?;
            self.write("shown.yaml", &shown)?;
            self.apply(&["-f", &self.path("shown.yaml")])?;
        }
        self.helm("upgrade", &[])
    }

    /// Values of the chart.
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

    /// Installs or upgrades by a kustomization that stands on one of those in `deploy/`, and waits until the operator is
    /// ready.
    fn kustomize(&self, components: &[&str]) -> Result<()> {
        let Installation { operator_image, agent_image, view_image, .. } = self.installation;
        // A kustomization names others by relative paths alone.
        let components: Vec<_> =
            components.iter().map(|name| format!("../../deploy/components/{name}")).collect();
        let base = if self.only { "../../deploy/one-namespace" } else { "../../deploy" };
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
            "resources": [base],
            "components": components,
            "images": [{ "name": released, "newName": name, "newTag": tag }],
            "patches": [{ "patch": patch.to_string(), "target": { "kind": "Deployment", "name": NAME } }],
        });
        self.write("kustomization.yaml", &kustomization.to_string())?;
        self.apply(&["-k", &self.path("")])?;
        self.beside(&["rollout", "status", "deployment", NAME, "--timeout=3m"]).map(drop)
    }

    fn apply(&self, what: &[&str]) -> Result<()> {
        let words = ["apply", "--server-side", "--force-conflicts"];
        self.kubectl(&[&words[..], what].concat())?;
        self.environment.await_definition()
    }

    /// The options of the upgrade are in force.
    fn has_more(&self) -> Result<()> {
        self.beside(&["get", "networkpolicy,poddisruptionbudget", NAME, "-oname"])?;
        let replicas = ["get", "deployment", NAME, "-ojsonpath={.spec.replicas}"];
        let replicas = self.beside(&replicas)?;
        ensure!(replicas == "2", "{replicas} operators");
        Ok(())
    }

    /// An operator of one namespace sees nothing of others, and no Secret.
    fn has_few_rights(&self) -> Result<()> {
        let operator = format!("--as=system:serviceaccount:{TEAM}:{NAME}");
        for (verb, resource, namespace, expected) in [
            ("create", "jobs.batch", TEAM, true),
            ("create", "secrets", TEAM, true),
            ("watch", DEFINITION, TEAM, true),
            ("get", "secrets", TEAM, false),
            ("list", "secrets", TEAM, false),
            ("create", "secrets", USERS, false),
            ("get", DEFINITION, USERS, false),
            ("list", "pods", USERS, false),
        ] {
            // Where the answer is no, kubectl fails.
            let words = ["auth", "can-i", verb, resource, "--namespace", namespace, &operator];
            let may = self.kubectl(&words).is_ok_and(|answer| answer.trim() == "yes");
            ensure!(may == expected, "{verb} {resource} in {namespace}: allowed is {may}");
        }
        Ok(())
    }

    /// A MiniCluster runs, in the namespace of the operator that serves it alone or in another one.
    fn run_hello(&self) -> Result<()> {
        let (file, namespace) = (self.path("hello.yaml"), if self.only { TEAM } else { USERS });
        for words in [
            &["apply", "-f", &file][..],
            &["wait", "minicluster/hello", "--for=condition=Complete", "--timeout=3m"],
            &["delete", "-f", &file],
        ] {
            self.kubectl(&[&["--namespace", namespace], words].concat())?;
        }
        Ok(())
    }

    /// Takes the operator away; the definition stays.
    fn uninstall(&self) -> Result<()> {
        if self.way == Way::Chart {
            let words =
                ["uninstall", NAME, "--namespace", self.namespace(), "--wait", "--timeout=3m"];
            return self.environment.output_of(self.chart.helm(), &words).map(drop);
        }
        self.delete("-k", &self.path(""))
    }

    /// Deletes what is applied by `option` and `path`. What is in a namespace goes with it, at any moment.
    fn delete(&self, option: &str, path: &str) -> Result<()> {
        self.kubectl(&["delete", "--ignore-not-found", option, path]).map(drop)
    }

    /// Takes away what outlives an operator; then nothing is left.
    fn forget(&self) -> Result<()> {
        if self.has_namespace() {
            // Until it has ended it renews its Lease.
            let pods = format!("--selector=app.kubernetes.io/name={NAME}");
            self.beside(&["wait", "pods", "--for=delete", &pods, "--timeout=3m"])?;
            self.beside(&["delete", "lease", NAME])?;
        }
        if self.only {
            self.delete("-f", &deploy("user-roles.yaml")?)?;
        }
        self.delete("-f", &deploy("crd.yaml")?)?;
        self.await_nothing_left()?;
        if self.has_namespace() {
            self.kubectl(&["delete", "namespace", self.namespace()])?;
        }
        Ok(())
    }

    /// Waits until the cluster has nothing of an operator, in whichever namespace.
    fn await_nothing_left(&self) -> Result<()> {
        let kinds = self.kubectl(&["api-resources", "--verbs=list,delete", "-oname"])?;
        let kinds = kinds.split_whitespace().collect::<Vec<_>>().join(",");
        let label = format!("--selector=app.kubernetes.io/name={NAME}");
        let lease = format!("--field-selector=metadata.name={NAME}");
        until("nothing of the operator to be left", DEADLINE, || {
            let mut left = String::new();
            for what in [
                &[kinds.as_str(), &label][..],
                &["leases", &lease],
                &["secrets", "--selector=owner=helm"],
                &[
                    "customresourcedefinition",
                    &format!("--field-selector=metadata.name={DEFINITION}"),
                ],
            ] {
                let everywhere = ["get", "--all-namespaces", "--ignore-not-found", "-oname"];
                left += &self.kubectl(&[&everywhere[..], what].concat())?;
            }
            Ok(if left.is_empty() { Look::Ready(()) } else { Look::NotYet(left) })
        })
    }

    /// Installs or upgrades the chart in the operator's namespace, and waits until everything is ready.
    fn helm(&self, word: &str, more: &[&str]) -> Result<()> {
        let (chart, values) = (text(self.chart.directory()), self.path("values.yaml"));
        let release = [word, NAME, &chart, "--values", &values, "--namespace", self.namespace()];
        let words = [&release[..], &["--wait", "--timeout=3m"], more].concat();
        self.environment.output_of(self.chart.helm(), &words).map(drop)
    }

    fn write(&self, name: &str, content: &str) -> Result<()> {
        fs::write(self.directory.join(name), content).with_context(|| format!("writing {name}"))
    }

    fn path(&self, name: &str) -> String {
        text(&self.directory.join(name))
    }
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

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
