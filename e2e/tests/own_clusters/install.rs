//! Installs the operator by a kustomization and by the chart, for all namespaces and for one; all other clusters use the
//! manifests. Each case installs it, runs a MiniCluster under Pod Security `restricted`, upgrades to more options, and
//! uninstalls it; then nothing is left. On a cluster of its own, because the CRD comes and goes. Needs root.

use crate::prelude::*;
use e2e::cluster::ClusterChoice;
use e2e::kubernetes::{DownAtEnd, Options, go_programs};
use e2e::product::checkout;
use e2e::product::install::{Installation, NAME, NAMESPACE};
use e2e::wait::until;
use flux_api::images::OPERATOR_IMAGE;
use std::fs;
use std::time::Instant;

const DEFINITION: &str = "miniclusters.flux-framework.org";
const CRD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crd.yaml");
const USER_ROLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/user-roles.yaml");
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/chart");
const KUSTOMIZATION: &str = include_str!("kustomization.yaml");
/// The CRD of another operator.
const OTHER_CRD: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/own_clusters/another_definition.yaml");
/// The operator of Flux CD, which has the same name.
const ANOTHER_OPERATOR: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/own_clusters/another_flux_operator.yaml");
const EARLIER_ROLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/own_clusters/earlier_role.yaml");
/// A label of this operator, which that of Flux CD does not have.
const OWN: &str =
    "--selector=app.kubernetes.io/name=flux-operator,app.kubernetes.io/component=operator";
/// A MiniCluster that Pod Security `restricted` admits.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/non-root/minicluster.yaml");
/// The namespace of operators for one namespace.
const TEAM: &str = "team";
/// Another namespace that the chart's operator serves after an upgrade.
const OTHER_TEAM: &str = "other-team";
/// A namespace in which other operators serve MiniClusters.
const USERS: &str = "users";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Kustomization,
    Chart,
}

/// One way to install, for all namespaces or for one.
struct Case<'run> {
    environment: &'run Environment,
    installation: &'run Installation,
    helm: &'run Path,
    /// The directory of the manifests, which each case writes anew; two levels below the checkout.
    directory: &'run Path,
    /// Identities and versions of what is in [`ANOTHER_OPERATOR`].
    another: &'run str,
    way: Way,
    /// Whether the operator serves [`TEAM`] only, in which it is.
    only: bool,
}

#[test]
#[ignore = "needs root"]
fn every_installation_runs_a_minicluster_and_leaves_nothing() {
    let options = options("install", Network::default());
    let _down = DownAtEnd(options.clone());
    if let Err(error) = try_every_way(options) {
        panic!("{error:#}");
    }
}

fn try_every_way(options: Options) -> Result<()> {
    let helm = go_programs("helm", &options.cache)?.join("helm");
    let (environment, installation) = Environment::without_operator(&ClusterChoice::Own(options))?;
    let target_directory = checkout()?.join("target");
    fs::create_dir_all(&target_directory)?;
    let scratch = tempfile::tempdir_in(target_directory).context("making a directory")?;
    // The first case finds the definition of another operator, which it replaces, and a MiniCluster, which it runs.
    restricted_namespace(&environment, USERS)?;
    restricted_namespace(&environment, OTHER_TEAM)?;
    environment.kubectl(&["apply", "-f", OTHER_CRD])?;
    environment.await_definition()?;
    environment.kubectl(&["apply", "--namespace", USERS, "-f", EXAMPLE])?;
    environment.kubectl(&["apply", "-f", ANOTHER_OPERATOR])?;
    let another = another(&environment)?;
    let roles = "clusterroles,clusterrolebindings";
    environment.kubectl(&["apply", "-f", EARLIER_ROLE])?;
    environment.kubectl(&["delete", roles, OWN])?;
    let left = environment.kubectl(&["get", "--ignore-not-found", "-f", EARLIER_ROLE])?;
    ensure!(left.is_empty(), "the earlier role is left: {left}");
    for way in [Way::Kustomization, Way::Chart] {
        for only in [false, true] {
            let case = Case {
                environment: &environment,
                installation: &installation,
                helm: &helm,
                directory: scratch.path(),
                another: &another,
                way,
                only,
            };
            let what = format!("{way:?}, for one namespace: {only}");
            progress::step(&what, || case.try_it()).context(what)?;
        }
    }
    Ok(())
}

/// The objects of the operator of Flux CD, with versions that show whether anybody has changed them.
fn another(environment: &Environment) -> Result<String> {
    let each = "-ojsonpath={range .items[*]}{.metadata.uid} {.metadata.resourceVersion} {end}";
    environment.kubectl(&["get", "-f", ANOTHER_OPERATOR, each])
}

fn restricted_namespace(environment: &Environment, name: &str) -> Result<()> {
    environment.kubectl(&["create", "namespace", name])?;
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    environment.kubectl(&["label", "namespace", name, restricted]).map(drop)
}

impl Case<'_> {
    fn try_it(&self) -> Result<()> {
        self.prepare()?;
        self.install()?;
        self.run_example(self.users())?;
        if self.way == Way::Chart && !self.only {
            self.helm_waits()?;
        }
        self.upgrade()?;
        self.has_more()?;
        self.run_example(self.users())?;
        if self.only {
            self.has_few_rights()?;
        }
        if self.way == Way::Chart {
            self.chart_has_more()?;
        }
        if self.way == Way::Chart && self.only {
            self.everywhere_shares_the_roles()?;
        }
        self.uninstall()?;
        self.kubectl(&["get", "customresourcedefinition", DEFINITION])?;
        self.forget()
    }

    /// `kubectl`, by default in the namespace of the operator.
    fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.environment.kubectl(&[&["--namespace", self.namespace()], words].concat())
    }

    fn namespace(&self) -> &'static str {
        if self.only { TEAM } else { NAMESPACE }
    }

    /// Whether the operator's namespace is made before the operator.
    fn has_namespace(&self) -> bool {
        self.only || self.way == Way::Chart
    }

    /// Does what an administrator does before the installation. The chart for all namespaces has its own CRD.
    fn prepare(&self) -> Result<()> {
        if self.has_namespace() {
            restricted_namespace(self.environment, self.namespace())?;
        }
        if self.only || self.way != Way::Chart {
            self.apply("-f", CRD)?;
        }
        if self.only {
            self.apply("-f", USER_ROLES)?;
        }
        Ok(())
    }

    fn install(&self) -> Result<()> {
        match self.way {
            Way::Kustomization => self.kustomize(&[]),
            Way::Chart => self.helm("install", if self.only { &["--skip-crds"] } else { &[] }),
        }
    }

    /// Exchanges the operator for one with more options.
    fn upgrade(&self) -> Result<()> {
        if self.way == Way::Kustomization {
            return self.kustomize(&["dashboard", "network-policy", "pod-disruption-budget"]);
        }
        if !self.only {
            let shown = self.environment.output_of(self.helm, &["show", "crds", CHART])?;
            self.apply("-f", &self.write("shown.yaml", &shown)?)?;
        }
        let more = "replicas=2,podDisruptionBudget.enabled=true,networkPolicy.enabled=true,dashboard.enabled=true";
        let several = format!("watchNamespace=,watchNamespaces={{{TEAM},{OTHER_TEAM}}}");
        let more = if self.only { format!("{more},{several}") } else { more.to_owned() };
        self.helm("upgrade", &["--set", &more])
    }

    /// Installs or upgrades by a kustomization based on one of those in `deploy/`, and waits until the operator is ready.
    fn kustomize(&self, components: &[&str]) -> Result<()> {
        let Installation { operator_image, agent_image, view_image, .. } = self.installation;
        // A kustomization can name others by relative paths only.
        let components: Vec<_> =
            components.iter().map(|name| format!("../../deploy/components/{name}")).collect();
        let (released, _) = OPERATOR_IMAGE.rsplit_once(':').context("an image without a tag")?;
        let (name, tag) = operator_image.rsplit_once(':').context("an image without a tag")?;
        let replaced = [
            ("$NAMESPACE", self.namespace()),
            ("$BASE", if self.only { "../../deploy/one-namespace" } else { "../../deploy" }),
            ("$COMPONENTS", &components.join(", ")),
            ("$RELEASED", released),
            ("$OPERATOR_NAME", name),
            ("$OPERATOR_TAG", tag),
            ("$AGENT_IMAGE", agent_image),
            ("$VIEW_IMAGE", view_image),
        ];
        let kustomization = replaced
            .iter()
            .fold(KUSTOMIZATION.to_owned(), |text, (name, value)| text.replace(name, value));
        self.write("kustomization.yaml", &kustomization)?;
        self.apply("-k", &self.directory.to_string_lossy())?;
        self.kubectl(&["rollout", "status", "deployment", NAME, "--timeout=3m"]).map(drop)
    }

    /// Installs or upgrades the chart in the operator's namespace, and waits until everything is ready.
    fn helm(&self, word: &str, more: &[&str]) -> Result<()> {
        let Installation { operator_image, agent_image, view_image, .. } = self.installation;
        let values = json!({
            "watchNamespace": if self.only { TEAM } else { "" },
            "image": parts(operator_image),
            "agentImage": parts(agent_image),
            "viewImage": view_image,
        });
        let values = self.write("values.yaml", &values.to_string())?;
        let release = [word, NAME, CHART, "--values", &values, "--namespace", self.namespace()];
        let words = [&release[..], &["--wait", "--timeout=3m"], more].concat();
        self.environment.output_of(self.helm, &words).map(drop)
    }

    fn apply(&self, option: &str, path: &str) -> Result<()> {
        let words = ["apply", "--server-side", "--force-conflicts", option, path];
        self.environment.kubectl(&words)?;
        self.environment.await_definition()
    }

    /// Checks that the options of the upgrade are in force.
    fn has_more(&self) -> Result<()> {
        self.kubectl(&["get", "networkpolicy,poddisruptionbudget", NAME, "-oname"])?;
        self.kubectl(&["get", "configmap", "flux-operator-dashboard"])?;
        let replicas = self.kubectl(&["get", "deployment", NAME, "-ojsonpath={.spec.replicas}"])?;
        ensure!(replicas == "2", "{replicas} operators");
        Ok(())
    }

    /// Checks that an operator of one namespace can read nothing of others, and no Secret.
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
            // If the answer is no, kubectl fails.
            let words = ["auth", "can-i", verb, resource, "--namespace", namespace, &operator];
            let may = self.kubectl(&words).is_ok_and(|answer| answer.trim() == "yes");
            ensure!(may == expected, "{verb} {resource} in {namespace}: allowed is {may}");
        }
        Ok(())
    }

    /// Checks that Helm's test passes, and that the operator of one namespace now serves another one too.
    fn chart_has_more(&self) -> Result<()> {
        let test = ["test", NAME, "--namespace", self.namespace(), "--timeout=3m"];
        self.environment.output_of(self.helm, &test)?;
        if self.only { self.run_example(OTHER_TEAM) } else { Ok(()) }
    }

    /// Checks that Helm refuses an operator for all namespaces where [`USER_ROLES`] are applied, unless it leaves them alone.
    fn everywhere_shares_the_roles(&self) -> Result<()> {
        let words = ["install", NAME, CHART, "--namespace", NAMESPACE, "--dry-run=server"];
        let refused = self.environment.output_of(self.helm, &words);
        let named = |error: &anyhow::Error| {
            let text = format!("{error:#}");
            text.contains("invalid ownership metadata") && text.contains("flux-minicluster-")
        };
        ensure!(refused.as_ref().is_err_and(named), "Helm replaces the roles: {refused:?}");
        let words = [&words[..], &["--set", "rbac.userRoles=false"]].concat();
        self.environment.output_of(self.helm, &words).map(drop)
    }

    /// A namespace that the operator serves.
    fn users(&self) -> &'static str {
        if self.only { TEAM } else { USERS }
    }

    /// Runs a MiniCluster in this namespace.
    fn run_example(&self, namespace: &str) -> Result<()> {
        for words in [
            &["apply", "-f", EXAMPLE][..],
            &["wait", "minicluster/non-root", "--for=condition=Complete", "--timeout=3m"],
            &["delete", "-f", EXAMPLE],
        ] {
            self.kubectl(&[&["--namespace", namespace], words].concat())?;
        }
        Ok(())
    }

    /// Helm waits for the end of a MiniCluster in a chart, by kstatus, and fails soon after the run has.
    fn helm_waits(&self) -> Result<()> {
        let good = fs::read_to_string(EXAMPLE)?;
        for (command, succeeds) in [("\"true\"", true), ("\"false\"", false)] {
            self.write("Chart.yaml", "apiVersion: v2\nname: run\nversion: 0.1.0\n")?;
            fs::create_dir_all(self.directory.join("templates"))?;
            let lines = good.lines().map(|line| match line.split_once("command:") {
                Some((before, _)) => format!("{before}command: {command}"),
                None => line.to_owned(),
            });
            let minicluster = lines.collect::<Vec<_>>().join("\n");
            ensure!(minicluster.contains(command), "the example has no command");
            self.write("templates/minicluster.yaml", &minicluster)?;
            let began = Instant::now();
            let chart = self.directory.to_string_lossy();
            let words = ["install", "run", &chart, "--namespace", USERS, "--wait", "--timeout=5m"];
            let ended = self.environment.output_of(self.helm, &words);
            ensure!(ended.is_ok() == succeeds, "{command}: {ended:?}");
            ensure!(began.elapsed() < DEADLINE, "{command}: Helm has waited for the time-out");
            let line = "--for=jsonpath={.status.completionTime}";
            let wait = ["wait", "minicluster/non-root", line, "--timeout=1s"];
            self.kubectl(&[&["--namespace", USERS], &wait[..]].concat())?;
            let words = ["uninstall", "run", "--namespace", USERS, "--wait", "--timeout=3m"];
            self.environment.output_of(self.helm, &words)?;
        }
        fs::remove_file(self.directory.join("Chart.yaml"))?;
        fs::remove_dir_all(self.directory.join("templates")).map_err(Into::into)
    }

    /// Uninstalls the operator; the CRD stays.
    fn uninstall(&self) -> Result<()> {
        if self.way == Way::Kustomization {
            return self.delete("-k", &self.directory.to_string_lossy());
        }
        let words = ["uninstall", NAME, "--namespace", self.namespace(), "--wait", "--timeout=3m"];
        self.environment.output_of(self.helm, &words).map(drop)
    }

    /// Deletes the objects of `option` and `path`. Those in a namespace may be gone already, with the namespace.
    fn delete(&self, option: &str, path: &str) -> Result<()> {
        self.environment.kubectl(&["delete", "--ignore-not-found", option, path]).map(drop)
    }

    /// Deletes the objects that outlive an operator, and checks that nothing is left.
    fn forget(&self) -> Result<()> {
        if self.has_namespace() {
            // The operator renews its Lease until it has ended.
            self.kubectl(&["wait", "pods", "--for=delete", OWN, "--timeout=3m"])?;
            self.kubectl(&["delete", "lease", NAME])?;
        }
        if self.only {
            self.delete("-f", USER_ROLES)?;
        }
        self.delete("-f", CRD)?;
        self.await_nothing_left()?;
        let another = another(self.environment)?;
        ensure!(another == self.another, "of another operator: {} and now {another}", self.another);
        if self.has_namespace() {
            self.kubectl(&["delete", "namespace", self.namespace()])?;
        }
        Ok(())
    }

    /// Waits until no namespace of the cluster has anything of an operator.
    fn await_nothing_left(&self) -> Result<()> {
        until("nothing of the operator to be left", DEADLINE, || {
            // A kind that was listed a moment ago may be gone with its CRD.
            Ok(self.left().and_then(|left| if left.is_empty() { Ok(()) } else { bail!(left) }))
        })
    }

    fn left(&self) -> Result<String> {
        let kinds = self.kubectl(&["api-resources", "--verbs=list,delete", "-oname"])?;
        let kinds = kinds.split_whitespace().collect::<Vec<_>>().join(",");
        let lease = format!("--field-selector=metadata.name={NAME}");
        let definition = format!("--field-selector=metadata.name={DEFINITION}");
        let mut left = String::new();
        for what in [
            [kinds.as_str(), OWN],
            ["leases", &lease],
            ["secrets", "--selector=owner=helm"],
            ["customresourcedefinition", &definition],
        ] {
            let everywhere = ["get", "--all-namespaces", "--ignore-not-found", "-oname"];
            left += &self.environment.kubectl(&[&everywhere[..], &what].concat())?;
        }
        Ok(left)
    }

    fn write(&self, name: &str, content: &str) -> Result<String> {
        let path = self.directory.join(name);
        fs::write(&path, content).with_context(|| format!("writing {name}"))?;
        Ok(path.to_string_lossy().into_owned())
    }
}

/// The parts of an image's name, as in the chart's values.
fn parts(image: &str) -> Value {
    let (name, tag) = image.rsplit_once(':').unwrap_or((image, "latest"));
    let (registry, repository) = name.rsplit_once('/').unwrap_or(("docker.io/library", name));
    json!({ "registry": registry, "repository": repository, "tag": tag })
}
