//! `suspend` and `resume`: `spec.suspend`.

use crate::connection::Connection;
use crate::output::print;
use crate::target::{NameArgument, Target};
use anyhow::{Context as _, Result};
use clap::Args;
use flux_operator::crd::MiniCluster;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::process::ExitCode;

/// `suspend`.
#[derive(Debug, Args)]
pub(crate) struct Suspend {
    #[command(flatten)]
    name: NameArgument,
}

/// `resume`.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    name: NameArgument,
}

impl Suspend {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        set(connection, &self.name, true, "is being suspended: its pods go").await
    }
}

impl Resume {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        set(connection, &self.name, false, "is being resumed").await
    }
}

async fn set(
    connection: Connection,
    name: &NameArgument,
    suspend: bool,
    done: &str,
) -> Result<ExitCode> {
    let target = Target::new(connection, &name.name);
    target.get().await?;
    let patch = json!({ "spec": { "suspend": suspend } });
    let api = target.connection.api::<MiniCluster>();
    let patched = api.patch(&target.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    patched.with_context(|| format!("set spec.suspend of {} to {suspend}", target.name))?;
    print(&format!("{} {done}", target.name));
    Ok(ExitCode::SUCCESS)
}
