//! `delete`: deletes MiniClusters with all objects that they own.

use crate::completion::names;
use crate::connection::Connection;
use crate::minicluster::MiniClusterRef;
use crate::output::{print, print_stderr};
use anyhow::{Context as _, Result};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use flux_api::crd::MiniCluster;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Names of the MiniClusters
    #[arg(required_unless_present = "all", value_name = "NAME")]
    #[arg(add = ArgValueCompleter::new(names))]
    names: Vec<String>,
    /// Delete all MiniClusters of the namespace
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Do not wait until their pods are gone
    #[arg(long)]
    no_wait: bool,
}

impl Delete {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let mut names = self.names.clone();
        if self.all {
            let list = connection.api::<MiniCluster>().list_metadata(&ListParams::default()).await;
            names.extend(list.context("list MiniClusters")?.iter().map(ResourceExt::name_any));
        }
        let mut failed = false;
        for name in &names {
            let target = MiniClusterRef::new(connection.clone(), name);
            if let Err(error) = delete(&target, !self.no_wait).await {
                print_stderr(&format!("kubectl flux: {error:#}"));
                failed = true;
            }
        }
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

async fn delete(target: &MiniClusterRef, wait: bool) -> Result<()> {
    let uid = target.get().await?.uid().unwrap_or_default();
    begin_deletion(target).await?;
    if wait {
        wait_until_gone(target, Some(&uid)).await?;
    }
    let done = if wait { "deleted" } else { "deleting" };
    print(&format!("{done} {}", target.name));
    Ok(())
}

/// Deletes the MiniCluster, which exists until its pods are gone.
pub(crate) async fn begin_deletion(target: &MiniClusterRef) -> Result<()> {
    let api = target.connection.api::<MiniCluster>();
    match api.delete(&target.name, &DeleteParams::foreground()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        deleted => {
            deleted.map(drop).with_context(|| format!("delete the MiniCluster {}", target.name))
        }
    }
}

/// Waits until the MiniCluster, or the one with this uid, is gone.
pub(crate) async fn wait_until_gone(target: &MiniClusterRef, uid: Option<&str>) -> Result<()> {
    let is_same = |cluster: MiniCluster| uid.is_none() || cluster.uid().as_deref() == uid;
    target.until(|cluster| Ok((!cluster.is_some_and(is_same)).then_some(()))).await
}
