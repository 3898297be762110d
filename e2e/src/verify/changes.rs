//! Which checks a change can break: those that read a file that was another one when they last passed.

use crate::cache;
use crate::product::{checkout, printed, target};
use anyhow::Result;
use fs_err as fs;
use std::process::Command;

/// File of the build directory: a hash of the files that each check read when all checks passed.
const PASSED: &str = "verify-passed";

/// Files and directories that a check reads, with spaces between; `*/` stands for any directories.
pub(super) type Paths = &'static str;

pub(super) const CHART: Paths = "deploy/ docs/chart.md docs/operations.md e2e/go/helm-docs/ e2e/go/helm/ \
     e2e/kubernetes/src/kubernetes/version.rs e2e/src/product/chart.md.gotmpl e2e/src/product/chart.rs \
     e2e/src/product/chart.yaml e2e/src/product/install.rs";
/// The other ways to install, beside the manifests that every test uses. The operator's options and watches depend on
/// how it is installed.
pub(super) const INSTALL: Paths = "deploy/ e2e/src/product/install.rs e2e/tests/own_clusters/another_definition.yaml \
     e2e/tests/own_clusters/another_flux_operator.yaml e2e/tests/own_clusters/earlier_role.yaml \
     e2e/tests/own_clusters/install.rs e2e/tests/own_clusters/kustomization.yaml \
     operator/src/cli.rs operator/src/run.rs";
/// Packages whose tests take longest, and what these read.
pub(super) const TESTS: [(&str, Paths); 3] = [
    ("flux-agent", "Cargo.lock Cargo.toml agent/ crates/ e2e/stand-in/"),
    ("flux-api", "Cargo.lock Cargo.toml crates/ docs/ examples/"),
    ("flux-operator", "Cargo.lock Cargo.toml crates/ deploy/ docs/ examples/ operator/"),
];
/// The controller, and the simulated API server on which its model runs.
pub(super) const MODEL: Paths = "Cargo.lock crates/ operator/";
/// What goes on while a control plane or a container fails: operator, agent, and the clusters on which they run.
pub(super) const FAULTS: Paths = "Cargo.lock agent/ crates/ deploy/ e2e/kubernetes/ e2e/src/ e2e/stand-in/ \
     e2e/tests/own_clusters/ operator/ rest/";
/// How clusters of this machine start and end.
pub(super) const CLUSTERS: Paths = "e2e/kubernetes/ e2e/src/commands.rs e2e/src/interruption.rs";
pub(super) const DASHBOARD: Paths = "deploy/chart/files/ e2e/go/dashboard/ e2e/src/verify/tools.rs";
pub(super) const ALERTS: Paths = "deploy/chart/files/ e2e/src/verify/tools.rs operator/tests/monitoring.rs \
     operator/tests/monitoring/";
pub(super) const KSTATUS: Paths =
    "crates/api/ e2e/go/kstatus/ e2e/src/verify/tools.rs operator/src/";
pub(super) const WORKFLOWS: Paths = ".github/ e2e/go/actionlint/ e2e/src/verify/tools.rs";
/// The HTTP API of an instance, and its page.
pub(super) const INSTANCE_API: Paths =
    "crates/contract/ crates/flux/ crates/server/ e2e/src/verify/tools.rs rest/";
/// How the images that are shipped are built, and how large programs and images may be.
pub(super) const IMAGES: Paths = ".dockerignore Cargo.lock Cargo.toml */Cargo.toml Dockerfile.agent Dockerfile.operator \
     agent/tests/budgets.rs docker/ e2e/kubernetes/src/images/ e2e/src/product/dockerfiles.rs \
     e2e/src/verify/images.rs operator/tests/footprint.rs operator/tests/footprint/ \
     rust-toolchain.toml";

const ALL: [Paths; 14] = [
    TESTS[0].1,
    TESTS[1].1,
    TESTS[2].1,
    CHART,
    INSTALL,
    MODEL,
    FAULTS,
    CLUSTERS,
    DASHBOARD,
    ALERTS,
    KSTATUS,
    WORKFLOWS,
    INSTANCE_API,
    IMAGES,
];

/// The hashes of the last run in this checkout whose checks passed. A fresh clone has none.
#[derive(Default)]
pub(super) struct Passed(String);

impl Passed {
    pub(super) fn of_checkout() -> Result<Self> {
        Ok(Self(fs::read_to_string(target()?.join(PASSED)).unwrap_or_default()))
    }

    /// The hashes of the files as they are now.
    pub(super) fn now() -> Result<Self> {
        let keys: Vec<_> = ALL.into_iter().map(key_of).collect::<Result<_>>()?;
        Ok(Self(keys.join("\n") + "\n"))
    }

    /// Records that every check has passed with these files.
    pub(super) fn record(&self) -> Result<()> {
        Ok(fs::write(target()?.join(PASSED), &self.0)?)
    }

    /// Whether a check that reads `read` has passed with the files as they are now.
    pub(super) fn covers(&self, read: Paths) -> bool {
        key_of(read).is_ok_and(|key| self.0.lines().any(|passed| passed == key))
    }
}

/// A name that differs whenever one of the files that a check reads does.
pub(super) fn key_of(read: Paths) -> Result<String> {
    // The checkout may belong to another user.
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "ls-files", "--cached", "--others", "-z"]);
    let listed = printed(git.arg("--exclude-standard").current_dir(checkout()?))?;
    let root = checkout()?;
    let paths = listed.split_terminator('\0').filter(|path| is_read(read, path));
    let files = paths.filter(|path| root.join(path).is_file());
    let files = files.map(|path| Ok((path, fs::read(root.join(path))?)));
    let files = files.collect::<Result<Vec<_>>>()?;
    let inputs: Vec<_> = files.iter().map(|(path, content)| (*path, content.as_slice())).collect();
    Ok(cache::key("files", "1", &inputs))
}

fn is_read(read: Paths, path: &str) -> bool {
    read.split(' ').any(|pattern| match pattern.strip_prefix('*') {
        Some(end) => path.ends_with(end),
        None => path.starts_with(pattern),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_runs_when_its_files_have_changed() {
        for (path, read, runs) in [
            ("deploy/chart/values.yaml", CHART, true),
            ("docs/install.md", CHART, false),
            ("Cargo.toml", IMAGES, true),
            ("cli/Cargo.toml", IMAGES, true),
            ("cli/src/main.rs", IMAGES, false),
            ("Dockerfile.agent", IMAGES, true),
            ("e2e/src/verify/tools.rs", WORKFLOWS, true),
            ("e2e/src/verify/tools.rs", IMAGES, false),
        ] {
            assert_eq!(is_read(read, path), runs, "{path}");
        }
        let passed = Passed(key_of(CHART).unwrap() + "\n" + &key_of(ALERTS).unwrap());
        assert!(passed.covers(CHART) && passed.covers(ALERTS));
        assert!(!passed.covers(WORKFLOWS) && !Passed::default().covers(CHART));
    }

    #[test]
    fn each_path_that_a_check_reads_exists() {
        for path in ALL.join(" ").split(' ').filter(|it| !it.starts_with('*')) {
            assert!(checkout().unwrap().join(path).exists(), "{path}");
        }
    }
}
