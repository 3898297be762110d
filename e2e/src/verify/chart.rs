//! The chart, as helm reads it: what is rendered from it is fresh, each value has its effect, and wrong values are
//! refused.

use anyhow::{Context as _, Result, ensure};
use fs_err as fs;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{product::chart::Chart, progress::Progress};

/// Values that are none, as `--set` takes them.
const WRONG: [&str; 7] = [
    "watchNamespace=Not_A_Name",
    "install=Sometimes",
    "image.digest=latest",
    "registry=https://registry.example/",
    "concurrency=0",
    "nosuchvalue=1",
    // One operator cannot be kept while its node is drained.
    "podDisruptionBudget.enabled=true",
];

/// Values, and what one of the objects has then.
#[derive(Deserialize)]
struct Case {
    values: Value,
    kind: String,
    pointer: String,
    value: Value,
}

/// Checks the chart and what is rendered from it.
pub(super) fn check(progress: &Progress) -> Result<()> {
    let chart = Chart::of_checkout(progress)?;
    chart.lint()?;
    chart.each_rendered(|path, expected| {
        let fresh = fs::read_to_string(path).is_ok_and(|text| text == expected);
        let path = path.display();
        ensure!(fresh, "{path} is not what deploy/chart says: run `cargo e2e manifests`");
        Ok(())
    })?;
    let cases = include_str!("chart.yaml").replace("$VERSION", env!("CARGO_PKG_VERSION"));
    let cases: Vec<Case> = serde_saphyr::from_str(&cases).context("reading the cases")?;
    for Case { values, kind, pointer, value } in cases {
        let objects = objects(&chart, &values).with_context(|| format!("with {values}"))?;
        let found = objects.iter().find(|object| object["kind"] == kind);
        let found = found.and_then(|object| object.pointer(&pointer));
        ensure!(
            found == Some(&value),
            "with {values}, the {kind} has {found:?} at {pointer}, and not {value}"
        );
    }
    serves_one_namespace(&chart)?;
    for wrong in WRONG {
        let refused = chart.render("team", &["--set", wrong]);
        ensure!(refused.is_err(), "the chart takes the value {wrong}");
    }
    Ok(())
}

/// The objects of the chart with these values, in the namespace `team`.
fn objects(chart: &Chart, values: &Value) -> Result<Vec<Value>> {
    let file = tempfile::NamedTempFile::new().context("making a file for values")?;
    fs::write(file.path(), values.to_string())?;
    let text = chart.render("team", &["--values", &file.path().to_string_lossy()])?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).context("reading YAML")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// An operator for a single namespace has nothing outside of namespaces, and may be in another one than it serves.
fn serves_one_namespace(chart: &Chart) -> Result<()> {
    for object in objects(chart, &json!({ "watchNamespace": "work" }))? {
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
