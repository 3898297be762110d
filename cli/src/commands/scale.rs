//! `scale`: the number of pods.

use crate::connection::Connection;
use crate::output::print;
use crate::target::{NameArgument, Target};
use anyhow::{Context as _, Result};
use clap::Args;
use flux_api::crd::MiniCluster;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::process::ExitCode;

/// `scale`.
#[derive(Debug, Args)]
pub(crate) struct Scale {
    #[command(flatten)]
    name: NameArgument,
    /// Number of pods
    #[arg(long, short, value_name = "NUMBER")]
    size: i32,
}

impl Scale {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let target = Target::new(connection, &self.name.name);
        let before = target.get().await?.spec.size;
        let patch = json!({ "spec": { "replicas": self.size } });
        let api = target.connection.api::<MiniCluster>();
        let scaled =
            api.patch_scale(&target.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        scaled.with_context(|| {
            format!("scale {} from {before} to {} pods", target.name, self.size)
        })?;
        print(&format!("{} has {} pods now, it had {before}", target.name, self.size));
        Ok(ExitCode::SUCCESS)
    }
}
