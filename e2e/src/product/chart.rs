//! Checks the chart in `deploy/chart` with helm, and renders the files in `deploy/` for users without helm.

use super::install::{NAME, NAMESPACE};
use super::{checkout, printed};
use crate::cache::Cache;
use crate::kubernetes::{KubernetesVersion, go_programs};
use anyhow::{Context as _, Result, ensure};
use fs_err as fs;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const DIRECTORY: &str = "deploy/chart";

/// First line of a rendered file.
const HEADER: &str = "# Rendered from deploy/chart by `cargo e2e manifests`: change the chart.\n";

/// The rendered files below `deploy/`, with the arguments of `helm template`.
const RENDERED: [(&str, &[&str]); 8] = [
    ("operator.yaml", &["--set=createNamespace=true"]),
    ("one-namespace/operator.yaml", &["--set=watchNamespace=flux-operator-system"]),
    ("user-roles.yaml", &["--show-only=templates/user-roles.yaml"]),
    (
        "components/alerts/alerts.yaml",
        &["--show-only=templates/prometheus-rule.yaml", "--set=prometheusRule.enabled=true"],
    ),
    (
        "components/dashboard/dashboard.yaml",
        &["--show-only=templates/dashboard.yaml", "--set=dashboard.enabled=true"],
    ),
    (
        "components/network-policy/network-policy.yaml",
        &["--show-only=templates/network-policy.yaml", "--set=networkPolicy.enabled=true"],
    ),
    (
        "components/pod-disruption-budget/pod-disruption-budget.yaml",
        &[
            "--show-only=templates/pod-disruption-budget.yaml",
            "--set=podDisruptionBudget.enabled=true,replicas=2",
        ],
    ),
    (
        "components/service-monitor/service-monitor.yaml",
        &["--show-only=templates/service-monitor.yaml", "--set=serviceMonitor.enabled=true"],
    ),
];

/// Values that the chart must refuse, as `--set` takes them.
const WRONG: [&str; 22] = [
    "fullnameOverride=Not_A_Name",
    "watchNamespace=Not_A_Name",
    "install=Sometimes",
    "image.digest=latest",
    "registry=https://registry.example/",
    "concurrency=0",
    "nosuchvalue=1",
    "metrics.secure=maybe",
    "watchNamespace=a,watchNamespaces={b}",
    "watchNamespaces={a,a}",
    "updateStrategy.type=Now",
    // Reconciles take as long to end.
    "terminationGracePeriodSeconds=20",
    "livenessProbe.httpGet.path=other",
    "prometheusRule.alerts.NoSuchAlert.enabled=false",
    "prometheusRule.alerts.FluxOperatorStuck.threshold=1",
    // Each operator would act.
    "leaderElection.enabled=false,replicas=2",
    "metrics.secure=false,metrics.certificateSecret=given",
    "metrics.enabled=false,serviceMonitor.enabled=true",
    "metrics.port=0",
    "healthPort=8080",
    "namespaceOverride=Not_A_Name",
    // With one replica the budget would block the drain of its node.
    "podDisruptionBudget.enabled=true",
];

/// Values of the chart, and a field that one of the objects must have with them; null: it must have none.
#[derive(Deserialize)]
struct Case {
    values: Value,
    kind: String,
    /// Absent where the first object of the kind is meant.
    name: Option<String>,
    pointer: String,
    value: Value,
}

/// The page of the values.
const PAGE: &str = "docs/chart.md";

/// Writes [`PAGE`] and the rendered files.
pub(crate) fn write_rendered() -> Result<()> {
    fs::write(checkout()?.join(PAGE), page()?)?;
    let helm = go_programs("helm", &Cache::locate()?)?.join("helm");
    each_rendered(&helm, |path, text| Ok(fs::write(path, text)?))
}

pub(crate) fn check() -> Result<()> {
    let helm = go_programs("helm", &Cache::locate()?)?.join("helm");
    run(&helm, &["lint", DIRECTORY, "--strict"]).context("checking the chart")?;
    let is_fresh = |path: &Path, expected: String| {
        let fresh = fs::read_to_string(path).is_ok_and(|text| text == expected);
        let path = path.display();
        ensure!(fresh, "{path} differs from deploy/chart: run `cargo e2e manifests`");
        Ok(())
    };
    is_fresh(&checkout()?.join(PAGE), page()?)?;
    each_rendered(&helm, is_fresh)?;
    let cases = include_str!("chart.yaml").replace("$VERSION", env!("CARGO_PKG_VERSION"));
    let cases: Vec<Case> = serde_saphyr::from_str(&cases).context("reading the cases")?;
    for Case { values, kind, name, pointer, value } in cases {
        let objects = objects(&helm, &values).with_context(|| format!("with {values}"))?;
        let is_meant = |object: &&Value| {
            let own = &object["metadata"]["name"];
            object["kind"] == kind && name.as_ref().is_none_or(|name| own == name)
        };
        let found = objects.iter().find(is_meant).and_then(|object| object.pointer(&pointer));
        let found = found.unwrap_or(&Value::Null);
        ensure!(
            *found == value,
            "with {values}, the {kind} has {found} at {pointer}, and not {value}"
        );
    }
    serves_one_namespace(&helm)?;
    holds_files_as_they_are(&helm)?;
    for wrong in WRONG {
        let refused = render(&helm, "team", &["--set", wrong]);
        ensure!(refused.is_err(), "the chart takes the value {wrong}");
    }
    Ok(())
}

/// The page of the values, made of their comments.
fn page() -> Result<String> {
    let program = go_programs("helm-docs", &Cache::locate()?)?.join("helm-docs");
    let mut command = Command::new(program);
    command.args(["--dry-run", "--sort-values-order=file", "--log-level=warning"]);
    command.arg("--template-files=../../e2e/src/product/chart.md.gotmpl");
    let page = printed(command.current_dir(checkout()?.join(DIRECTORY)))?;
    let unexplained = page.lines().find(|line| line.ends_with("|  |"));
    ensure!(
        unexplained.is_none(),
        "a value without a comment that begins with `# --`: {unexplained:?}"
    );
    Ok(page)
}

/// Does `work` with the path and the text of each rendered file.
fn each_rendered(helm: &Path, work: impl Fn(&Path, String) -> Result<()>) -> Result<()> {
    let deploy = checkout()?.join("deploy");
    RENDERED.into_iter().try_for_each(|(name, arguments)| {
        let arguments = [&["--skip-tests"], arguments].concat();
        let text = render(helm, NAMESPACE, &arguments).with_context(|| name.to_owned())?;
        work(&deploy.join(name), format!("{HEADER}{text}"))
    })
}

/// What `helm template` prints with these arguments, for an operator in `namespace`.
fn render(helm: &Path, namespace: &str, arguments: &[&str]) -> Result<String> {
    let words = ["template", NAME, DIRECTORY, "--namespace", namespace];
    run(helm, &[&words[..], arguments].concat())
}

/// What helm prints, for the first release of the oldest Kubernetes that is tested.
fn run(helm: &Path, words: &[&str]) -> Result<String> {
    let oldest = format!("--kube-version={}.0", KubernetesVersion::all()[0]);
    printed(Command::new(helm).args(words).arg(oldest).current_dir(checkout()?))
}

/// The objects of the chart with these values, in the namespace `team`.
fn objects(helm: &Path, values: &Value) -> Result<Vec<Value>> {
    let text = render(helm, "team", &["--set-json", &values.to_string()])?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).context("reading YAML")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// Checks that helm copies the files of alerts and dashboard: it could take their `{{` for templates. Each alert also
/// gets the address of its section of the page.
fn holds_files_as_they_are(helm: &Path) -> Result<()> {
    let directory = checkout()?.join(DIRECTORY).join("files");
    let read = |name: &str| -> Result<Value> {
        serde_saphyr::from_str(&fs::read_to_string(directory.join(name))?).context(name.to_owned())
    };
    let values = json!({ "prometheusRule": { "enabled": true }, "dashboard": { "enabled": true } });
    let all = objects(helm, &values)?;
    let of_kind = |kind: &str| all.iter().find(|object| object["kind"] == kind);
    let rules = of_kind("PrometheusRule").map(|rule| &rule["spec"]);
    let mut rules = rules.context("there is no PrometheusRule")?.clone();
    let page = fs::read_to_string(checkout()?.join("docs/operations.md"))?;
    for rule in rules["groups"][0]["rules"].as_array_mut().context("there are no alerts")? {
        let name = rule["alert"].as_str().unwrap_or_default().to_owned();
        let runbook = rule["annotations"].as_object_mut().and_then(|it| it.remove("runbook_url"));
        let anchor = format!("/docs/operations.md#{}", name.to_lowercase());
        let leads_there =
            runbook.as_ref().and_then(Value::as_str).is_some_and(|it| it.ends_with(&anchor));
        ensure!(leads_there && page.contains(&format!("\n### {name}\n")), "{name}: {runbook:?}");
    }
    ensure!(rules == read("rules.yaml")?, "the PrometheusRule is {rules}");
    let dashboard = of_kind("ConfigMap").and_then(|map| map["data"]["flux-operator.json"].as_str());
    let dashboard: Value = serde_json::from_str(dashboard.context("there is no dashboard")?)?;
    ensure!(dashboard == read("dashboard.json")?, "the ConfigMap has {dashboard}");
    Ok(())
}

/// Checks that an operator for one namespace has no cluster-wide object, and may be in another namespace.
fn serves_one_namespace(helm: &Path) -> Result<()> {
    for object in objects(helm, &json!({ "watchNamespace": "work" }))? {
        let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
        let serves = (kind == "Role" || kind == "RoleBinding") && name == "flux-operator";
        let place = if serves { "work" } else { "team" };
        ensure!(object["metadata"]["namespace"] == place, "{kind} {name} is not in {place}");
        if kind == "RoleBinding" {
            ensure!(object["subjects"][0]["namespace"] == "team", "{name} is for another operator");
        }
    }
    Ok(())
}
