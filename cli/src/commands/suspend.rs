//! `suspend` and `resume`: `spec.suspend`, and the annotation that starts a MiniCluster again which no job needed.

use super::status::summary;
use super::wait::{Goal, until};
use crate::connection::Connection;
use crate::output::{complain, print};
use crate::target::{NameArgument, Target};
use anyhow::{Context as _, Result, bail};
use flux_api::crd::{MiniCluster, State};
use flux_contract::labels::RESUME;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::process::ExitCode;

/// `suspend`.
pub(crate) async fn suspend(connection: Connection, name: &NameArgument) -> Result<ExitCode> {
    let target = Target::new(connection, &name.name);
    set(&target, &json!({ "spec": { "suspend": true } })).await?;
    print(&format!("{} is being suspended: its pods go", target.name));
    Ok(ExitCode::SUCCESS)
}

/// `resume`.
pub(crate) async fn resume(connection: Connection, name: &NameArgument) -> Result<ExitCode> {
    let target = Target::new(connection, &name.name);
    set(&target, &resumption()).await?;
    print(&format!("{} is being resumed", target.name));
    Ok(ExitCode::SUCCESS)
}

async fn set(target: &Target, patch: &Value) -> Result<()> {
    target.get().await?;
    let api = target.connection.api::<MiniCluster>();
    let patched = api.patch(&target.name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map(drop).with_context(|| format!("change spec.suspend of {}", target.name))
}

/// What resumes a MiniCluster, be it suspended by its specification or because no job needed it.
fn resumption() -> Value {
    let annotations = json!({ RESUME: Timestamp::now().to_string() });
    json!({ "metadata": { "annotations": annotations }, "spec": { "suspend": false } })
}

/// Resumes the MiniCluster if no job needed it, and waits until it is ready.
pub(crate) async fn resume_idle(target: &Target) -> Result<()> {
    if !rests(&target.get().await?) {
        return Ok(());
    }
    complain(&format!("{} is being resumed: it rests, as no job needed it", target.name));
    set(target, &resumption()).await?;
    let (cluster, is_ready) = until(target, Goal::Ready).await?;
    if !is_ready {
        bail!("{}", summary(&cluster));
    }
    Ok(())
}

/// Whether the pods have gone, or are going, because no job needed them.
fn rests(cluster: &MiniCluster) -> bool {
    let autoscale = cluster.spec.autoscale.as_ref();
    let may_rest = autoscale.is_some_and(|it| it.min_size == 0) && !cluster.spec.suspend;
    let state = cluster.status.as_ref().and_then(|status| status.state);
    may_rest && matches!(state, Some(State::Suspended | State::Ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_rests_is_resumed_by_a_submission_and_who_was_suspended_is_not() {
        for (least, suspend, state, expected) in [
            (0, false, "Suspended", true),
            (0, false, "Ending", true),
            (0, false, "Running", false),
            (0, true, "Suspended", false),
            (1, false, "Suspended", false),
        ] {
            let spec = json!({
                "containers": [], "suspend": suspend,
                "autoscale": { "minSize": least, "maxSize": 2 },
            });
            let mut cluster = MiniCluster::new("rest", serde_json::from_value(spec).unwrap());
            cluster.status = serde_json::from_value(json!({ "state": state })).unwrap();
            assert_eq!(rests(&cluster), expected, "{least} {suspend} {state}");
        }
    }
}
