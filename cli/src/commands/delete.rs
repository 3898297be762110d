//! `delete`: deletes MiniClusters with all objects that they own.

use super::validate::checker;
use crate::completion::names;
use crate::duration::duration;
use crate::minicluster::{each, name, targets};
use crate::output::DryRun;
use crate::prelude::*;
use anyhow::anyhow;
use clap::ValueHint;
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;
use futures::{StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::core::DynamicObject;
use std::io::stdin;
use std::path::{Path, PathBuf};
use tokio::time::timeout;

const AT_ONCE: usize = 64;

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Names of the MiniClusters; `@last` is the newest
    #[arg(value_name = "NAME", value_parser = name, add = ArgValueCompleter::new(names))]
    #[arg(required_unless_present_any = ["all", "selector", "completed", "older", "file"])]
    #[arg(conflicts_with_all = ["all", "selector", "completed", "older", "file"])]
    names: Vec<String>,
    /// Delete all MiniClusters of the namespace
    #[arg(long)]
    all: bool,
    /// Delete those with these labels, as `kubectl delete -l` does
    #[arg(long, short = 'l', value_parser = NonEmptyStringValueParser::new())]
    selector: Option<String>,
    /// Delete those whose run has ended
    #[arg(long)]
    completed: bool,
    /// Delete those that were created longer ago than this: `12h`, `7d`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    older: Option<Duration>,
    /// Delete the MiniClusters in this file, or - for standard input
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["all", "selector", "completed", "older"])]
    file: Option<PathBuf>,
    /// A MiniCluster that does not exist is no failure
    #[arg(long)]
    ignore_not_found: bool,
    /// Whether to wait until their pods are gone
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true")]
    #[arg(num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    wait: bool,
    #[arg(long, hide = true)]
    no_wait: bool,
    /// Longest time to wait [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Only print what would be deleted; with `server`, if the API server accepts it
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    #[arg(value_enum, value_name = "WHERE")]
    dry_run: Option<DryRun>,
    /// Print only names
    #[arg(long, short, value_parser = ["name"], value_name = "FORMAT")]
    output: Option<String>,
}

impl Delete {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let limit = self.timeout.unwrap_or(Duration::MAX);
        let deleted = timeout(limit, self.delete(&connection)).await;
        deleted.with_context(|| format!("not all are deleted after {limit:?}"))?
    }

    async fn delete(&self, connection: &Connection) -> Result<ExitCode> {
        let targets = self.targets(connection).await?;
        if targets.is_empty() {
            let namespace = &connection.namespace;
            print_stderr(&format!("no MiniClusters to delete in the namespace {namespace}"));
        }
        let uids = stream::iter(&targets).map(|target| self.request(target)).buffered(AT_ONCE);
        let uids: Vec<_> = uids.collect().await;
        let ended = each(targets.iter().zip(uids).collect(), async |(target, uid)| match uid {
            Ok(Some(uid)) => self.end(target, uid).await,
            Ok(None) if self.ignore_not_found => Ok(()),
            Ok(None) => Err(target.absent()),
            Err(error) => Err(error),
        });
        Ok(ended.await)
    }

    async fn targets(&self, connection: &Connection) -> Result<Vec<MiniClusterRef>> {
        if let Some(file) = &self.file {
            return in_file(connection, file);
        }
        let mut names = self.names.clone();
        if names.is_empty() {
            names = self.selected(connection).await.context("list MiniClusters")?;
        }
        Ok(targets(connection, &names))
    }

    async fn selected(&self, connection: &Connection) -> kube::Result<Vec<String>> {
        let parameters = ListParams::default().labels(self.selector.as_deref().unwrap_or_default());
        let api = objects(connection, false);
        let mut found: Vec<ObjectMeta> = if self.completed {
            let all = api.list(&parameters).await?.into_iter();
            all.filter(has_ended).map(|it| it.metadata).collect()
        } else {
            api.list_metadata(&parameters).await?.into_iter().map(|it| it.metadata).collect()
        };
        if let Some(age) = self.older {
            let limit = Timestamp::now().checked_sub(age).unwrap_or(Timestamp::MIN);
            found.retain(|it| it.creation_timestamp.as_ref().is_some_and(|at| at.0 < limit));
        }
        Ok(found.into_iter().filter_map(|it| it.name).collect())
    }

    async fn request(&self, target: &MiniClusterRef) -> Result<Option<String>> {
        if self.dry_run != Some(DryRun::Client) {
            return target.delete(self.dry_run.is_some()).await;
        }
        let found = objects(&target.connection, false).get_metadata_opt(&target.name).await?;
        Ok(found.map(|found| found.metadata.uid.unwrap_or_default()))
    }

    async fn end(&self, target: &MiniClusterRef, uid: String) -> Result<()> {
        let name = target.full_name();
        let mut done =
            if self.dry_run.is_some() { "deleted (dry run)" } else { "is being deleted" };
        if self.dry_run.is_none() && self.wait && !self.no_wait {
            target.until_gone(Some(uid)).await?;
            done = "deleted";
        }
        print(&if self.output.is_some() { name } else { format!("{name} {done}") });
        Ok(())
    }
}

/// Whether the run of this MiniCluster has ended. A newer operator may have fields that no type here has.
fn has_ended(object: &DynamicObject) -> bool {
    ["Complete", "Failed"].iter().any(|end| object.data["status"]["state"] == **end)
}

fn in_file(connection: &Connection, file: &Path) -> Result<Vec<MiniClusterRef>> {
    let documents = checker().documents_of(file, &mut stdin())?;
    let documents = documents.map_err(|found| anyhow!("{}", found.faults[0]))?;
    let values = documents.into_iter().map(|document| document.value);
    let clusters = values.filter(|it| it["kind"] == "MiniCluster").map(|document| {
        let text = |field: &str| document["metadata"][field].as_str();
        let name = name(text("name").unwrap_or_default()).map_err(|error| anyhow!(error))?;
        let mut connection = connection.clone();
        if let Some(namespace) = text("namespace") {
            let is_other = connection.has_namespace && connection.namespace != namespace;
            ensure!(
                !is_other,
                "{name} is in the namespace {namespace}: use --namespace {namespace}"
            );
            namespace.clone_into(&mut connection.namespace);
        }
        Ok(MiniClusterRef::new(connection, &name))
    });
    clusters.collect()
}
