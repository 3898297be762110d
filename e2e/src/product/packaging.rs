//! What installs the operator, on disk and as what it says: tools that write the same objects down in other
//! ways are compared by the objects.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use flux_operator::manifests::{Format, Installation};
use serde_json::Value;

/// Writes the files of a format below `directory`, as `flux-operator manifests` does.
pub fn write(format: Format, installation: &Installation, directory: &Path) -> Result<()> {
    for (name, text) in format.files(installation)? {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The texts of the files for `kubectl apply -f`, one after the other.
pub fn plain(installation: &Installation) -> Result<String> {
    let files = Format::Plain.files(installation)?;
    Ok(files.into_iter().map(|(_, text)| text).collect())
}

/// Fails where the YAML of `found` has other objects than that of `expected`, in whatever order.
pub fn same_objects(expected: &str, found: &str) -> Result<()> {
    let (expected, found) = (objects(expected)?, objects(found)?);
    let names = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<Vec<_>>();
    ensure!(
        names(&expected) == names(&found),
        "expected the objects {:#?}\nfound {:#?}",
        names(&expected),
        names(&found)
    );
    for (name, object) in &expected {
        let other = &found[name];
        ensure!(object == other, "{name}: expected\n{object:#}\nfound\n{other:#}");
    }
    Ok(())
}

/// The objects of a text by kind, namespace and name.
fn objects(text: &str) -> Result<BTreeMap<String, Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("reading YAML")?;
    let mut objects = BTreeMap::new();
    for object in documents.into_iter().filter(|document| !document.is_null()) {
        let metadata = &object["metadata"];
        let name = format!("{} {}/{}", object["kind"], metadata["namespace"], metadata["name"]);
        ensure!(!objects.contains_key(&name), "{name} is there twice");
        objects.insert(name, with_whole_numbers(object));
    }
    Ok(objects)
}

/// The same with `1` for `1.0`: JSON has one kind of number, and kustomize writes them in its own way.
fn with_whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|it| it.fract() == 0.0).map(|it| format!("{it:.0}"));
            let whole = whole.and_then(|it| it.parse::<i64>().ok());
            whole.map_or(Value::Number(number), Value::from)
        }
        Value::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, it)| (name, with_whole_numbers(it))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "kind: A\nmetadata: {name: a}\nspec: {x: '1'}\n";
    const OTHER: &str = "kind: B\nmetadata: {name: a, namespace: n}\n";

    #[test]
    fn order_and_style_make_no_difference() {
        let (expected, found) = (format!("{ONE}---\n{OTHER}"), format!("---\n{OTHER}---\n{ONE}"));
        same_objects(&expected, &found.replace("'1'", "\"1\"")).unwrap();
        same_objects(&ONE.replace("'1'", "[1.0, 0.5]"), &ONE.replace("'1'", "[1, 0.5]")).unwrap();
    }

    #[test]
    fn what_differs_is_named() {
        let failed = |found: &str| same_objects(ONE, found).unwrap_err().to_string();
        assert!(failed(&ONE.replace("'1'", "1")).contains("\"A\" null/\"a\": expected"));
        assert!(failed(OTHER).contains("expected the objects"));
        assert!(failed(&format!("{ONE}---\n{ONE}")).contains("there twice"));
    }

    #[test]
    fn a_chart_is_written_as_directories() {
        let directory = tempfile::tempdir().unwrap();
        write(Format::Helm, &Installation::default(), directory.path()).unwrap();
        assert!(directory.path().join("templates/operator.yaml").is_file());
        assert!(plain(&Installation::default()).unwrap().contains("kind: Deployment"));
    }
}
