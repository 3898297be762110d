//! Which checks a change can break, by the paths of the files that it changes.

use crate::cache;
use crate::product::{checkout, printed, target};
use anyhow::{Context as _, Result};
use fs_err as fs;
use std::process::Command;

/// The branch that changes are for, here or as it was fetched last.
const MAIN: [&str; 2] = ["origin/main", "main"];

/// File of the build directory: the last commit whose checks passed.
const PASSED: &str = "verify-passed";

/// Files and directories that a check reads; `*/` stands for any directories.
pub(super) type Paths = &'static [&'static str];

pub(super) const CHART: Paths = &[
    "deploy/",
    "e2e/go/helm/",
    "e2e/kubernetes/src/kubernetes/version.rs",
    "e2e/src/product/chart.rs",
    "e2e/src/product/chart.yaml",
    "e2e/src/product/install.rs",
];
/// The other ways to install, beside the manifests that every test uses. The operator's options and watches depend on
/// how it is installed.
pub(super) const INSTALL: Paths = &[
    "deploy/",
    "e2e/src/product/install.rs",
    "e2e/tests/own_clusters/another_definition.yaml",
    "e2e/tests/own_clusters/another_flux_operator.yaml",
    "e2e/tests/own_clusters/earlier_role.yaml",
    "e2e/tests/own_clusters/install.rs",
    "e2e/tests/own_clusters/kustomization.yaml",
    "operator/src/cli.rs",
    "operator/src/run.rs",
];
/// How clusters of this machine start and end.
pub(super) const CLUSTERS: Paths =
    &["e2e/kubernetes/", "e2e/src/commands.rs", "e2e/src/interruption.rs"];
pub(super) const DASHBOARD: Paths =
    &["deploy/chart/files/", "e2e/go/dashboard/", "e2e/src/verify/tools.rs"];
pub(super) const ALERTS: Paths = &[
    "deploy/chart/files/",
    "e2e/src/verify/tools.rs",
    "operator/tests/monitoring.rs",
    "operator/tests/monitoring/",
];
pub(super) const KSTATUS: Paths =
    &["crates/api/", "e2e/go/kstatus/", "e2e/src/verify/tools.rs", "operator/src/"];
pub(super) const WORKFLOWS: Paths = &[".github/", "e2e/go/actionlint/", "e2e/src/verify/tools.rs"];
/// The HTTP API of an instance, and its page.
pub(super) const INSTANCE_API: Paths =
    &["crates/contract/", "crates/flux/", "crates/server/", "e2e/src/verify/tools.rs", "rest/"];
/// How the images that are shipped are built, and how large programs and images may be.
pub(super) const IMAGES: Paths = &[
    ".dockerignore",
    "Cargo.lock",
    "Cargo.toml",
    "*/Cargo.toml",
    "Dockerfile.agent",
    "Dockerfile.operator",
    "agent/tests/budgets.rs",
    "docker/",
    "e2e/kubernetes/src/images/",
    "e2e/src/product/dockerfiles.rs",
    "e2e/src/verify/images.rs",
    "operator/tests/footprint.rs",
    "operator/tests/footprint/",
    "rust-toolchain.toml",
];

/// How the checkout differs from a commit whose checks have been run.
#[derive(Debug)]
pub(super) enum Changes {
    /// The checkout is compared with no commit, for this reason: every check runs.
    NotCompared(String),
    /// These files have changed since this commit.
    Since { commit: String, paths: Vec<String> },
}

impl Changes {
    /// Compares the checkout, with what is not committed, with the last commit in its history whose checks passed here,
    /// else with the commit where its branch has left `main`. A fresh clone of `main` has neither.
    pub(super) fn of_checkout() -> Self {
        let compared = base().and_then(|commit| Ok(Self::Since { paths: paths(&commit)?, commit }));
        compared.unwrap_or_else(|error| Self::NotCompared(format!("{error:#}")))
    }

    /// Describes what the checkout is compared with.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::NotCompared(reason) => format!("every check runs: {reason}"),
            Self::Since { commit, paths } => {
                format!("{} files have changed since {commit}", paths.len())
            }
        }
    }

    /// Why a check that reads `read` cannot fail because of the changes; nothing where it can.
    pub(super) fn obstacle(&self, read: Paths) -> Option<String> {
        let Self::Since { commit, paths } = self else { return None };
        let concerns = |path: &String| read.iter().any(|pattern| matches(pattern, path));
        (!paths.iter().any(concerns))
            .then(|| format!("no file that it reads has changed since {commit}; `--all` runs it"))
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => path.ends_with(end),
        None => path.starts_with(pattern),
    }
}

/// Records that every check of this commit has passed, unless the checkout differs from it.
pub(super) fn record_pass() -> Result<()> {
    if git(&["status", "--porcelain"])?.is_empty() {
        fs::write(target()?.join(PASSED), git(&["rev-parse", "HEAD"])?)?;
    }
    Ok(())
}

/// The commit to compare with.
fn base() -> Result<String> {
    let short = |commit: &str| git(&["rev-parse", "--short", "--verify", commit]);
    let passed = fs::read_to_string(target()?.join(PASSED)).ok();
    let in_history =
        |commit: &String| git(&["merge-base", "--is-ancestor", commit, "HEAD"]).is_ok();
    let passed = passed.map(|commit| commit.trim().to_owned());
    if let Some(passed) = passed.filter(in_history) {
        return short(&passed);
    }
    let head = git(&["rev-parse", "HEAD"])?;
    let left = MAIN.iter().find_map(|main| git(&["merge-base", "HEAD", main]).ok());
    let left = left.filter(|commit| *commit != head);
    short(&left.context(
        "there is neither a commit whose checks passed here, nor another branch to compare with",
    )?)
}

/// A name that differs whenever one of the files that a check reads does.
pub(super) fn key_of(read: Paths) -> Result<String> {
    let listed = git(&["ls-files", "--cached", "--others", "--exclude-standard", "-z"])?;
    let paths = listed.split('\0').filter(|path| read.iter().any(|it| matches(it, path)));
    let files = paths.map(|path| Ok((path, fs::read(checkout()?.join(path))?)));
    let files = files.collect::<Result<Vec<_>>>()?;
    let inputs: Vec<_> = files.iter().map(|(path, content)| (*path, content.as_slice())).collect();
    Ok(cache::key("files", "1", &inputs))
}

/// The files that differ from `commit`, and those that git does not know.
fn paths(commit: &str) -> Result<Vec<String>> {
    let changed = git(&["diff", "--name-only", "--no-renames", "-z", commit])?;
    let new = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let paths = changed.split('\0').chain(new.split('\0'));
    Ok(paths.filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// What git prints about this checkout, which may belong to another user.
fn git(arguments: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*"]).args(arguments).current_dir(checkout()?);
    Ok(printed(&mut git)?.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_runs_when_its_files_have_changed() {
        let since = |paths: &[&str]| Changes::Since {
            commit: "1234567".to_owned(),
            paths: paths.iter().map(|&path| path.to_owned()).collect(),
        };
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
            assert_eq!(since(&["README.md", path]).obstacle(read).is_none(), runs, "{path}");
        }
        assert!(since(&[]).obstacle(ALERTS).unwrap().contains("since 1234567"));
        assert_eq!(Changes::NotCompared("no git".to_owned()).obstacle(ALERTS), None);
    }

    #[test]
    fn each_path_that_a_check_reads_exists() {
        let of_clusters = [CLUSTERS, INSTALL, IMAGES];
        let all = [CHART, DASHBOARD, ALERTS, KSTATUS, WORKFLOWS, INSTANCE_API];
        for path in [of_clusters.concat(), all.concat()]
            .concat()
            .into_iter()
            .filter(|it| !it.starts_with('*'))
        {
            assert!(checkout().unwrap().join(path).exists(), "{path}");
        }
    }
}
