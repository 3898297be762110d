//! `scale`, `suspend` and `resume`: the number of pods, `spec.suspend`, and the annotation that resumes an idle MiniCluster.

use super::status::summary;
use super::wait::{Goal, end};
use crate::prelude::*;
use flux_contract::labels::RESUME;
use kube::api::{Patch, PatchParams};

const SUSPEND: &str = "spec.suspend";

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
        self.names.each(&connection, async |target| self.scale(&target).await).await
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

pub(crate) async fn suspend(connection: &Connection, names: &NamesArgument) -> ExitCode {
    let suspend = async |target: MiniClusterRef| {
        target.patch(SUSPEND, json!({ "spec": { "suspend": true } })).await?;
        print(&format!("suspended {}; its pods are being deleted", target.name));
        Ok(())
    };
    names.each(connection, suspend).await
}

pub(crate) async fn resume(connection: &Connection, names: &NamesArgument) -> ExitCode {
    let resume = async |target: MiniClusterRef| {
        target.patch(SUSPEND, resumption()).await?;
        print(&format!("resumed {}; its pods are being created", target.name));
        Ok(())
    };
    names.each(connection, resume).await
}

fn resumption() -> Value {
    let annotations = json!({ RESUME: Timestamp::now().to_string() });
    json!({ "metadata": { "annotations": annotations }, "spec": { "suspend": false } })
}

pub(crate) async fn resume_idle(target: &MiniClusterRef) -> Result<()> {
    if !is_idle(&target.get().await?) {
        return Ok(());
    }
    print_stderr(&format!("{} is idle: resuming it", target.name));
    target.patch(SUSPEND, resumption()).await?;
    let ready = target.until(|cluster| end(target, &Goal::Ready, cluster));
    let (cluster, is_ready) = ready.await?;
    if !is_ready {
        bail!("{}", summary(&cluster));
    }
    Ok(())
}

/// Whether the autoscaler has deleted the pods, or is deleting them, because no job needs them.
fn is_idle(cluster: &MiniCluster) -> bool {
    let autoscale = cluster.spec.autoscale.as_ref();
    let may_be_idle = autoscale.is_some_and(|it| it.min_size == 0) && !cluster.spec.suspend;
    may_be_idle && matches!(cluster.state(), Some(State::Suspended | State::Ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_idle_miniclusters_are_resumed_by_a_submission() {
        for (min_size, suspend, state, expected) in [
            (0, false, "Suspended", true),
            (0, false, "Ending", true),
            (0, false, "Running", false),
            (0, true, "Suspended", false),
            (1, false, "Suspended", false),
        ] {
            let spec = json!({
                "containers": [], "suspend": suspend,
                "autoscale": { "minSize": min_size, "maxSize": 2 },
            });
            let mut cluster = MiniCluster::new("idle", serde_json::from_value(spec).unwrap());
            cluster.status = serde_json::from_value(json!({ "state": state })).unwrap();
            assert_eq!(is_idle(&cluster), expected, "{min_size} {suspend} {state}");
        }
    }
}
