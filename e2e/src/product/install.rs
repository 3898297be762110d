//! Installs the operator as a user would, and waits until it serves.

use anyhow::{Context as _, Result};
use flux_operator::manifests::{self, Installation, NAME, NAMESPACE};

use crate::{cluster::Cluster, programs};

/// Applies the manifests of this installation and waits until the newest operator is available, and no older
/// one is left.
pub fn install(cluster: &Cluster, installation: &Installation) -> Result<()> {
    for (file, text) in manifests::files(installation)? {
        let words = ["apply", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-"];
        programs::run_with_input(&mut cluster.kubectl(words), text.as_bytes())
            .with_context(|| format!("applying {file}"))?;
    }
    let words = ["rollout", "status", "deployment", NAME, "--namespace", NAMESPACE, "--timeout=2m"];
    programs::run(&mut cluster.kubectl(words)).context("waiting for the operator")?;
    Ok(())
}
