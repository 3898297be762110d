//! `scale`: changes the number of pods.

use crate::connection::Connection;
use crate::minicluster::{MiniClusterRef, NamesArgument, each, objects, targets};
use crate::output::print;
use anyhow::{Context as _, Result};
use clap::Args;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct Scale {
    #[command(flatten)]
    names: NamesArgument,
    /// Number of pods
    #[arg(long, alias = "size", value_name = "NUMBER")]
    replicas: i32,
}

impl Scale {
    pub(crate) async fn execute(&self, connection: Connection) -> ExitCode {
        each(targets(&connection, &self.names.names), async |target| self.scale(&target).await)
            .await
    }

    async fn scale(&self, target: &MiniClusterRef) -> Result<()> {
        let before = target.object().await?.data["spec"]["size"].take();
        let patch = Patch::Merge(json!({ "spec": { "replicas": self.replicas } }));
        let api = objects(&target.connection, false);
        let scaled = api.patch_scale(&target.name, &PatchParams::default(), &patch).await;
        let change = format!("{} from {before} to {} pods", target.name, self.replicas);
        scaled.with_context(|| format!("scale {change}"))?;
        print(&format!("scaled {change}"));
        Ok(())
    }
}
