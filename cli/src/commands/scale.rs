//! `scale`: changes the number of pods.

use crate::connection::Connection;
use crate::minicluster::NameArgument;
use crate::output::print;
use anyhow::{Context as _, Result};
use clap::Args;
use flux_api::crd::MiniCluster;
use kube::api::{Patch, PatchParams};
use serde_json::json;

#[derive(Debug, Args)]
pub(crate) struct Scale {
    #[command(flatten)]
    name: NameArgument,
    /// Number of pods
    #[arg(long, short, value_name = "NUMBER")]
    size: i32,
}

impl Scale {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let target = self.name.target(connection);
        let before = target.get().await?.spec.size;
        let patch = Patch::Merge(json!({ "spec": { "replicas": self.size } }));
        let api = target.connection.api::<MiniCluster>();
        let scaled = api.patch_scale(&target.name, &PatchParams::default(), &patch).await;
        let change = format!("{} from {before} to {} pods", target.name, self.size);
        scaled.with_context(|| format!("scale {change}"))?;
        print(&format!("scaled {change}"));
        Ok(())
    }
}
