//! The workers that wait: `flux-agent wait lead`, a process each.

use std::{
    fs::{self, Permissions},
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result};
use flux_contract::{AGENT_CONFIG_PATH, CURVE_MOUNT, CURVE_SECRET_KEY, CurveCertificate};
use flux_operator::{
    cli::defaults,
    cluster::validate::validate,
    controller::build::agent_config,
    crd::{Install, MiniCluster},
    images::VIEW_IMAGE,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::{process::Command, task::JoinSet};

/// Name of the MiniCluster whose workers they are.
const NAME: &str = "waiting";
/// Nobody else is in the network.
const SECRET: [u8; 32] = [7; 32];
/// Longest wait of an agent, in seconds.
const TIMEOUT: &str = "600";

/// What the pods of one MiniCluster find: their configuration and their certificate.
pub(super) struct Pods {
    count: u32,
    directory: TempDir,
    certificate: CurveCertificate,
}

impl Pods {
    /// `count` workers, whose lead is at the loopback address.
    pub(super) fn new(count: u32) -> Result<Self> {
        let minicluster: MiniCluster = serde_json::from_value(json!({
            "apiVersion": "flux-framework.org/v1alpha2",
            "kind": "MiniCluster",
            "metadata": {"name": NAME, "namespace": "bench"},
            "spec": {"size": count + 1, "containers": [{"image": "ubuntu:24.04", "command": "true"}]},
        }))
        .context("describing a MiniCluster")?;
        let defaults = defaults(VIEW_IMAGE.to_owned(), None, Install::default());
        let cluster = validate(&minicluster, &defaults).context("validating a MiniCluster")?;
        let config = agent_config(&cluster, Some(Ipv4Addr::LOCALHOST.into())).to_toml()?;
        let certificate = CurveCertificate::new(NAME, SECRET)?;
        let directory = tempfile::tempdir().context("making a directory for the pods")?;
        let root = directory.path();
        write(&below(root, AGENT_CONFIG_PATH), &config)?;
        let path = below(root, CURVE_MOUNT).join(CURVE_SECRET_KEY);
        write(&path, certificate.to_text().expose())?;
        Ok(Self { count, directory, certificate })
    }

    /// The certificate of all brokers.
    pub(super) const fn certificate(&self) -> &CurveCertificate {
        &self.certificate
    }

    /// Starts all of them; each says in the end whether it was let in.
    pub(super) fn start(&self, agent: &Path) -> Result<JoinSet<Result<bool>>> {
        let mut agents = JoinSet::new();
        for index in 1..=self.count {
            let mut child = Command::new(agent)
                .args(["wait", "lead", "--timeout", TIMEOUT, "--hostname"])
                .arg(format!("{NAME}-{index}"))
                .arg("--root")
                .arg(self.directory.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .with_context(|| format!("starting {}", agent.display()))?;
            agents.spawn(async move {
                let ended = child.wait().await.context("waiting for an agent")?;
                Ok(ended.success())
            });
        }
        Ok(agents)
    }
}

fn below(root: &Path, path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    }
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o600)))
        .with_context(|| format!("writing {}", path.display()))
}
