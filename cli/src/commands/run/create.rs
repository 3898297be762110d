//! Creates the MiniCluster of a run.

use super::specification::Made;
use crate::connection::Connection;
use crate::error::line;
use crate::minicluster::objects;
use crate::retry::{is_refusal, repeated};
use anyhow::{Context as _, Result, bail, ensure};
use flux_api::crd::served::{DOCUMENT_PATH, lacking_fields, message};
use http::Request;
use kube::api::PostParams;
use serde_json::Value;

/// How often a creation is tried whose answer does not come.
const ATTEMPTS: u32 = 3;

/// Creates the MiniCluster and returns it as it is stored; with `dry_run` the API server only checks it.
pub(super) async fn create(connection: &Connection, made: &Made, dry_run: bool) -> Result<Value> {
    let api = objects(connection, false);
    let object = serde_json::from_value(made.object.clone()).context("make the MiniCluster")?;
    let parameters = PostParams { dry_run, ..PostParams::default() };
    let name = made.name();
    let creating = || format!("create the MiniCluster {name}");
    let mut attempts = 0;
    let create = async || {
        attempts += 1;
        let created = match api.create(&parameters, &object).await {
            // A name with a random suffix is taken because an earlier attempt without an answer has created it.
            Err(kube::Error::Api(status))
                if status.code == 409 && attempts > 1 && made.has_random_name =>
            {
                api.get(name).await
            }
            created => created,
        };
        created.with_context(creating)
    };
    let created = match repeated(ATTEMPTS, "trying again", create).await {
        Err(error) if attempts > 1 && is_refusal(&error) => bail!(
            "{}: look with `kubectl flux status {name}` whether an earlier attempt, to which no answer came, has created it",
            line(&error)
        ),
        created => created?,
    };
    serde_json::to_value(created).context("read the MiniCluster")
}

/// Fails if the cluster's CRD lacks the fields of the status that show the end of a run. An API server that does not
/// publish its schemas is accepted.
pub(super) async fn check_crd(connection: &Connection) -> Result<()> {
    let request = Request::get(DOCUMENT_PATH).body(Vec::new()).context("make a request")?;
    let served: Value = connection.client.request(request).await.unwrap_or_default();
    let lacking = lacking_fields(&served);
    let is_needed = |field: &String| ["status.state", "status.exitCode"].contains(&field.as_str());
    ensure!(!lacking.iter().any(is_needed), "{}", message(&lacking));
    Ok(())
}
