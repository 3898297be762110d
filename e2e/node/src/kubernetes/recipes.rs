//! What is built from Go modules: their versions, and what `go build` is given.

use super::version::KubernetesVersion;

/// The containerd version that is built, as in `go/containerd/2.3/go.mod`.
const CONTAINERD_VERSION: &str = "v2.3.7";
/// The newest containerd without image volumes, as in `go/containerd/2.0/go.mod`.
const OLD_CONTAINERD_VERSION: &str = "v2.0.14";
/// The `CoreDNS` version that is built, as in `go/coredns/go.mod`.
const COREDNS_VERSION: &str = "v1.14.7";
const PAUSE_VERSION: &str = "1";
/// The kwok version that is built, as in `go/kwok/go.mod`.
const KWOK_VERSION: &str = "v0.8.0";
/// The Helm version that is built, as in `go/helm/go.mod`.
const HELM_VERSION: &str = "v4.3.1";
/// The actionlint version that is built, as in `go/actionlint/go.mod`.
const ACTIONLINT_VERSION: &str = "v1.7.12";

/// The Kueue version that is built, as in `go/kueue/go.mod`.
pub const KUEUE_VERSION: &str = "v0.15.0";
/// The version of scheduler-plugins that is built, as in `go/scheduler-plugins/go.mod`.
pub const SCHEDULER_PLUGINS_VERSION: &str = "v0.34.7";

/// One `go build`.
pub(super) struct Recipe {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// How long it takes on two cores with an empty Go build cache.
    pub(super) usually: &'static str,
    pub(super) files: &'static [(&'static str, &'static str)],
    pub(super) flags: &'static [&'static str],
    pub(super) link: &'static str,
    pub(super) packages: &'static [&'static str],
    /// Directories of modules that are kept beside the programs: module, path within it, name.
    pub(super) directories: &'static [(&'static str, &'static str, &'static str)],
}

/// The control plane, the kubelet and etcd.
pub(super) const fn kubernetes(version: KubernetesVersion) -> Recipe {
    let source = version.source();
    Recipe {
        name: "kubernetes",
        version: source.version,
        usually: "7 min on 2 cores",
        files: source.files,
        flags: &[],
        link: source.link,
        packages: &[
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-proxy",
            "k8s.io/kubernetes/cmd/kube-scheduler",
            "k8s.io/kubernetes/cmd/kubectl",
            "k8s.io/kubernetes/cmd/kubelet",
            "./etcd",
        ],
        directories: &[],
    }
}

pub(super) const CONTAINERD: Recipe = Recipe {
    name: "containerd",
    version: CONTAINERD_VERSION,
    usually: "2 min on 2 cores",
    files: &[
        ("go.mod", include_str!("../../../go/containerd/2.3/go.mod")),
        ("go.sum", include_str!("../../../go/containerd/2.3/go.sum")),
        ("tools.go", include_str!("../../../go/containerd/tools.go")),
    ],
    flags: &["-tags=no_btrfs no_devmapper no_zfs"],
    link: "",
    packages: &[
        "github.com/containerd/containerd/v2/cmd/containerd",
        "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        "github.com/containerd/containerd/v2/cmd/ctr",
    ],
    directories: &[],
};

/// Needed only where a node is to have no image volumes.
pub(super) const OLD_CONTAINERD: Recipe = Recipe {
    version: OLD_CONTAINERD_VERSION,
    files: &[
        ("go.mod", include_str!("../../../go/containerd/2.0/go.mod")),
        ("go.sum", include_str!("../../../go/containerd/2.0/go.sum")),
        ("tools.go", include_str!("../../../go/containerd/tools.go")),
    ],
    ..CONTAINERD
};

pub(super) const COREDNS: Recipe = Recipe {
    name: "coredns",
    version: COREDNS_VERSION,
    usually: "2 min on 2 cores",
    files: &[
        ("go.mod", include_str!("../../../go/coredns/go.mod")),
        ("go.sum", include_str!("../../../go/coredns/go.sum")),
        ("main.go", include_str!("../../../go/coredns/main.go")),
    ],
    flags: &[],
    link: "",
    packages: &["."],
    directories: &[],
};

pub(super) const PAUSE: Recipe = Recipe {
    name: "pause",
    version: PAUSE_VERSION,
    usually: "10 s",
    files: &[
        ("go.mod", include_str!("../../../go/pause/go.mod")),
        ("main.go", include_str!("../../../go/pause/main.go")),
    ],
    flags: &[],
    link: "",
    packages: &["."],
    directories: &[],
};

/// Needed only where nodes are simulated.
pub(super) const KWOK: Recipe = Recipe {
    name: "kwok",
    version: KWOK_VERSION,
    usually: "2 min on 2 cores",
    files: &[
        ("go.mod", include_str!("../../../go/kwok/go.mod")),
        ("go.sum", include_str!("../../../go/kwok/go.sum")),
        ("tools.go", include_str!("../../../go/kwok/tools.go")),
    ],
    flags: &[],
    link: "",
    packages: &["sigs.k8s.io/kwok/cmd/kwok"],
    directories: &[],
};

/// Needed only where the operator's chart is looked at or installed.
pub(super) const HELM: Recipe = Recipe {
    name: "helm",
    version: HELM_VERSION,
    usually: "3 min on 2 cores",
    files: &[
        ("go.mod", include_str!("../../../go/helm/go.mod")),
        ("go.sum", include_str!("../../../go/helm/go.sum")),
        ("tools.go", include_str!("../../../go/helm/tools.go")),
    ],
    flags: &[],
    link: "",
    packages: &["helm.sh/helm/v4/cmd/helm"],
    directories: &[],
};

/// Needed only where MiniClusters wait in a queue.
pub(super) const KUEUE: Recipe = Recipe {
    name: "kueue",
    version: KUEUE_VERSION,
    usually: "3 min on 2 cores",
    files: &[
        ("go.mod", include_str!("../../../go/kueue/go.mod")),
        ("go.sum", include_str!("../../../go/kueue/go.sum")),
        ("tools.go", include_str!("../../../go/kueue/tools.go")),
    ],
    flags: &[],
    link: "",
    packages: &["sigs.k8s.io/kueue/cmd/kueue"],
    directories: &[("sigs.k8s.io/kueue", "charts/kueue", "chart")],
};

/// Needed only where pods get nodes together.
pub(super) const SCHEDULER_PLUGINS: Recipe = Recipe {
    name: "scheduler-plugins",
    version: SCHEDULER_PLUGINS_VERSION,
    usually: "3 min on 2 cores",
    files: &[
        ("go.mod", include_str!("../../../go/scheduler-plugins/go.mod")),
        ("go.sum", include_str!("../../../go/scheduler-plugins/go.sum")),
        ("main.go", include_str!("../../../go/scheduler-plugins/main.go")),
    ],
    flags: &[],
    link: "-X k8s.io/component-base/version.gitVersion=v1.34.2",
    packages: &["."],
    directories: &[("sigs.k8s.io/scheduler-plugins", "config/crd/bases", "definitions")],
};

/// No part of a cluster.
pub(super) const ACTIONLINT: Recipe = Recipe {
    name: "actionlint",
    version: ACTIONLINT_VERSION,
    usually: "30 s on 2 cores",
    files: &[
        ("go.mod", include_str!("../../../go/actionlint/go.mod")),
        ("go.sum", include_str!("../../../go/actionlint/go.sum")),
        ("tools.go", include_str!("../../../go/actionlint/tools.go")),
    ],
    flags: &[],
    link: "",
    packages: &["github.com/rhysd/actionlint/cmd/actionlint"],
    directories: &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_that_the_go_modules_require() {
        let requires = |recipe: &Recipe, module: &str| {
            let line = format!("{module} {}", recipe.version);
            let found = recipe.files[0]
                .1
                .lines()
                .any(|entry| entry.trim_start_matches("require ").trim() == line);
            assert!(found, "{} does not require {line}", recipe.name);
        };
        requires(&CONTAINERD, "github.com/containerd/containerd/v2");
        requires(&OLD_CONTAINERD, "github.com/containerd/containerd/v2");
        requires(&COREDNS, "github.com/coredns/coredns");
        requires(&KWOK, "sigs.k8s.io/kwok");
        requires(&HELM, "helm.sh/helm/v4");
        requires(&ACTIONLINT, "github.com/rhysd/actionlint");
        requires(&KUEUE, "sigs.k8s.io/kueue");
        requires(&SCHEDULER_PLUGINS, "sigs.k8s.io/scheduler-plugins");
    }
}
