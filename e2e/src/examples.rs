//! The examples: what a user would apply, each with its expectation, which people and tests read alike.
//!
//! An example is a directory below `examples/` with a `README.md`, an `expect.txt` (the module
//! [`expectation`] has the words), and a `minicluster.yaml`, whose MiniCluster has the directory's name.
//! What has to be there first has a number before its name, and what is applied later, when the expectation
//! says so, is in the directory `later`: so `kubectl apply` of an example's directory starts it right. An
//! example whose image is in no registry has a `Dockerfile`.

pub mod expectation;
pub mod run;
mod volumes;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use self::expectation::{Expectation, Step};
use crate::product::checkout;

/// The file with an example's MiniCluster.
const MINICLUSTER: &str = "minicluster.yaml";
/// The file with what an example has to show.
const EXPECTATION: &str = "expect.txt";
/// The file that an example's image is made from, if it has one of its own.
const DOCKERFILE: &str = "Dockerfile";
/// The directory with what is applied later.
const LATER: &str = "later";

/// One example, as its directory has it.
#[derive(Debug, Clone)]
pub struct Example {
    /// Name of its directory.
    pub name: String,
    /// The directory.
    pub directory: PathBuf,
    /// The manifests to apply at the start, in order; the last is the MiniCluster's.
    pub manifests: Vec<PathBuf>,
    /// What it has to show.
    pub expectation: Expectation,
}

impl Example {
    /// Reads the example of that name.
    pub fn load(name: &str) -> Result<Self> {
        let directory = root()?.join(name);
        let path = directory.join(EXPECTATION);
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let expectation = Expectation::parse(&text)
            .with_context(|| format!("reading what to expect in {}", path.display()))?;
        let manifests = manifests(&directory, &expectation)?;
        Ok(Self { name: name.to_owned(), directory, manifests, expectation })
    }

    /// Whether its image is made from a `Dockerfile` beside it, and is in no registry.
    fn has_own_image(&self) -> bool {
        self.directory.join(DOCKERFILE).is_file()
    }
}

/// A manifest of one object, in which a MiniCluster says how agent and view come into its pods.
fn with_method(manifest: &str, method: &str) -> Result<String> {
    let mut object: Value = serde_saphyr::from_str(manifest)?;
    if object["kind"] == "MiniCluster" {
        object["spec"]["flux"]["container"]["install"] = method.into();
    }
    Ok(object.to_string())
}

/// The names of all examples, sorted.
pub fn names() -> Result<Vec<String>> {
    let root = root()?;
    let mut names = Vec::new();
    for path in entries(&root)? {
        let name = file_name(&path);
        if path.is_dir() {
            names.push(name);
        } else {
            ensure!(name == "README.md", "{} is no example: a directory each", path.display());
        }
    }
    Ok(names)
}

fn root() -> Result<PathBuf> {
    Ok(checkout()?.join("examples"))
}

/// What a directory holds, sorted.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let reading = || format!("listing {}", directory.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).with_context(reading)? {
        paths.push(entry.with_context(reading)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The manifests that are applied at the start, in the order of their names, which is that of `kubectl apply`;
/// the MiniCluster is the last. Each of those that are applied later has a step, and each such step its manifest.
fn manifests(directory: &Path, expectation: &Expectation) -> Result<Vec<PathBuf>> {
    let minicluster = directory.join(MINICLUSTER);
    ensure!(minicluster.is_file(), "there is no {}", minicluster.display());
    let paths = yaml_files(directory)?;
    ensure!(
        paths.last() == Some(&minicluster),
        "{} is not applied last: give what has to be there first a number before its name",
        minicluster.display()
    );
    let later = directory.join(LATER);
    let later = if later.is_dir() { yaml_files(&later)? } else { Vec::new() };
    let steps: BTreeSet<PathBuf> =
        expectation.steps.iter().filter_map(applied).map(|file| directory.join(file)).collect();
    let later: BTreeSet<PathBuf> = later.into_iter().collect();
    ensure!(steps == later, "the steps apply {steps:?}, and in {LATER} there is {later:?}");
    Ok(paths)
}

fn applied(step: &Step) -> Option<&String> {
    if let Step::Apply(file) = step { Some(file) } else { None }
}

fn yaml_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = entries(directory)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_says_what_to_expect_of_it() {
        let mut faults = Vec::new();
        for name in names().unwrap() {
            if let Err(error) = Example::load(&name) {
                faults.push(format!("{name}: {error:#}"));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn every_example_can_say_how_agent_and_view_come_into_its_pods() {
        for name in names().unwrap() {
            for path in Example::load(&name).unwrap().manifests {
                let text = fs::read_to_string(&path).unwrap();
                let changed: Value =
                    serde_json::from_str(&with_method(&text, "Copy").unwrap()).unwrap();
                let mut expected: Value = serde_saphyr::from_str(&text).unwrap();
                if file_name(&path) == MINICLUSTER {
                    expected["spec"]["flux"]["container"]["install"] = "Copy".into();
                }
                assert_eq!(changed, expected, "{}", path.display());
            }
        }
    }

    #[test]
    fn a_minicluster_has_the_name_of_its_directory() {
        for name in names().unwrap() {
            let path = root().unwrap().join(&name).join(MINICLUSTER);
            let text = fs::read_to_string(path).unwrap();
            let object: Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(object["metadata"]["name"], name.as_str());
        }
    }

    #[test]
    fn the_minicluster_is_applied_last_and_what_has_a_step_is_not() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join(LATER)).unwrap();
        for name in ["2-z.yaml", "minicluster.yaml", "1-a.yaml", "later/second.yaml", "README.md"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let with_steps = |files: &[&str]| Expectation {
            steps: files.iter().map(|file| Step::Apply((*file).to_owned())).collect(),
        };
        let names: Vec<String> = manifests(directory.path(), &with_steps(&["later/second.yaml"]))
            .unwrap()
            .iter()
            .map(|path| file_name(path))
            .collect();
        assert_eq!(names, ["1-a.yaml", "2-z.yaml", "minicluster.yaml"]);
        for wrong in [&[][..], &["1-a.yaml"], &["later/second.yaml", "later/third.yaml"]] {
            assert!(manifests(directory.path(), &with_steps(wrong)).is_err(), "{wrong:?}");
        }
        fs::write(directory.path().join("secret.yaml"), "").unwrap();
        let refused = manifests(directory.path(), &with_steps(&["later/second.yaml"])).unwrap_err();
        assert!(refused.to_string().contains("is not applied last"), "{refused}");
    }
}
