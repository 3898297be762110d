//! The versions of Kubernetes that the harness builds, on which the operator is tested.

use clap::ValueEnum;
use std::fmt;

/// A minor version of Kubernetes, of which one patch is built. The order is that of the releases.
///
/// Each has a directory of its name below `e2e/go/kubernetes/`, with a `go.mod`, a `go.sum` and links to the sources,
/// which are the same for all; so `go mod tidy` works in each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum KubernetesVersion {
    /// The oldest that is supported.
    #[value(name = "1.33")]
    V1_33,
    /// Where image volumes are stable.
    #[value(name = "1.36")]
    V1_36,
    /// The newest.
    #[default]
    #[value(name = "1.37")]
    V1_37,
}

impl KubernetesVersion {
    /// All of them, the oldest first.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// The version with its patch, as the API server reports it.
    pub const fn full(self) -> &'static str {
        match self {
            Self::V1_33 => "v1.33.13",
            Self::V1_36 => "v1.36.3",
            Self::V1_37 => "v1.37.2",
        }
    }

    /// The directory below `e2e/go` that it is built from.
    pub(super) fn source(self) -> String {
        format!("kubernetes/{self}")
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = self.full().trim_start_matches('v');
        formatter.write_str(full.rsplit_once('.').map_or(full, |(minor, _)| minor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With staging modules of another patch Go would build another version.
    #[test]
    fn modules_are_those_of_the_version() {
        for version in KubernetesVersion::all() {
            let full = version.full();
            let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../go");
            let path = format!("{directory}/{}/go.mod", version.source());
            let module = std::fs::read_to_string(path).unwrap();
            assert!(module.contains(&format!("\tk8s.io/kubernetes {full}\n")), "{version}");
            let staging = full.replacen("v1.", "v0.", 1);
            let replaced: Vec<_> =
                module.lines().filter_map(|line| line.split_once(" => ")).collect();
            assert!(replaced.len() > 25, "{version}: {replaced:?}");
            for (old, new) in replaced {
                assert_eq!(new, format!("{} {staging}", old.trim()), "{version}");
            }
        }
    }
}
