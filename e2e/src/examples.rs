//! The examples: what a user would apply, each with its expectation, for people and tests.
//!
//! An example is a directory below `examples/` with a `README.md`, an `expect.toml` (see the module `expectation`) and a
//! `minicluster.yaml`, whose MiniCluster has the directory's name. Objects that the MiniCluster needs have file names
//! with a number; objects that a step applies later are in the directory `later`. So `kubectl apply` of an example's
//! directory starts it. An image `NAME-example:1` is in no registry: the `Dockerfile` of the example NAME makes it.

mod expectation;
pub mod run;
mod volumes;

use self::expectation::Step;
use crate::product::checkout;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

struct Example {
    name: String,
    directory: PathBuf,
    /// What is applied at the start, in the order of the files' names, which is that of `kubectl apply`.
    objects: Vec<Value>,
    /// The steps of its expectation, in order.
    steps: Vec<Step>,
}

impl Example {
    fn load(name: &str) -> Result<Self> {
        let directory = checkout()?.join("examples").join(name);
        let path = directory.join("expect.toml");
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let steps = expectation::parse(&text)
            .with_context(|| format!("reading what to expect in {}", path.display()))?;
        let objects: Result<_> = yaml_files(&directory)?.iter().map(|path| object(path)).collect();
        Ok(Self { name: name.to_owned(), directory, objects: objects?, steps })
    }

    /// The example whose `Dockerfile` makes its image, which is in no registry.
    fn maker_of_image(&self) -> Option<&str> {
        let image = self.objects.last()?["spec"]["containers"][0]["image"].as_str()?;
        image.strip_suffix("-example:1")
    }
}

/// Whether a step of the example expects this line in a log, or from a program.
pub fn expects(name: &str, line: &str) -> Result<bool> {
    let patterns = |step: Step| {
        if let Step::Prints(pattern) | Step::Output(pattern) = step {
            vec![pattern]
        } else if let Step::OutputExactly(patterns) = step {
            patterns
        } else {
            Vec::new()
        }
    };
    let mut patterns = Example::load(name)?.steps.into_iter().flat_map(patterns);
    Ok(patterns.any(|pattern| expectation::matches(&pattern, line)))
}

fn object(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("understanding {}", path.display()))
}

/// The names of all examples, sorted.
pub fn names() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for path in entries(&checkout()?.join("examples"))? {
        let name = file_name(&path);
        if path.is_dir() {
            names.push(name);
        } else {
            ensure!(name == "README.md", "{} is no example: a directory each", path.display());
        }
    }
    Ok(names)
}

/// What a directory holds, sorted.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = WalkDir::new(directory).min_depth(1).max_depth(1).sort_by_file_name();
    entries.into_iter().map(|entry| Ok(entry?.into_path())).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn yaml_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = entries(directory)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// `kubectl apply` of the directory of an example has to start it.
    #[test]
    fn every_example_is_complete_and_its_minicluster_is_applied_last() {
        for name in names().unwrap() {
            let example = Example::load(&name).unwrap();
            let (file, object) =
                (yaml_files(&example.directory).unwrap().pop(), example.objects.last());
            let hint = "give what has to be there first a number before its name";
            assert_eq!(file, Some(example.directory.join("minicluster.yaml")), "{name}: {hint}");
            assert_eq!(object.unwrap()["metadata"]["name"], name.as_str());
            let maker = example.maker_of_image().map(|it| example.directory.with_file_name(it));
            assert!(maker.is_none_or(|it| it.join("Dockerfile").is_file()), "{name}");
            // Each manifest in `later` has a step that applies it, and each such step has a manifest.
            let applied = |step: &Step| {
                if let Step::Apply(file) = step { Some(example.directory.join(file)) } else { None }
            };
            let steps = example.steps.iter().filter_map(applied);
            let later = example.directory.join("later");
            let later = if later.is_dir() { yaml_files(&later).unwrap() } else { Vec::new() };
            let (steps, later): (BTreeSet<_>, BTreeSet<_>) =
                (steps.collect(), later.into_iter().collect());
            assert_eq!(steps, later, "{name}");
        }
    }
}
