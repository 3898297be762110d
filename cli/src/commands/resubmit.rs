//! `resubmit`: creates a new MiniCluster with the specification of another, or runs the same one again.

use crate::minicluster::new_name;
use crate::prelude::*;
use crate::random_name::random_name;
use flux_contract::labels::RESUME;
use kube::api::{DynamicObject, ObjectMeta, PostParams};

#[derive(Debug, Args)]
pub(crate) struct Resubmit {
    #[command(flatten)]
    old: NameArgument,
    /// Name of the new MiniCluster [default: that of the old one with another random suffix]
    #[arg(long = "name", id = "new", value_name = "NAME", value_parser = new_name)]
    name: Option<String>,
    /// Run NAME itself again once it has finished, by another spec.runId; its pods are deleted
    #[arg(long, conflicts_with = "new")]
    in_place: bool,
}

impl Resubmit {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let old = self.old.target(connection.clone());
        if self.in_place {
            return run_again(&old).await;
        }
        let found = old.object().await?;
        let name = match &self.name {
            Some(name) => name.clone(),
            None => random_name(&old.name, &mut getrandom::u32)?,
        };
        let mut metadata = ObjectMeta {
            name: Some(name.clone()),
            labels: found.metadata.labels,
            annotations: found.metadata.annotations,
            ..ObjectMeta::default()
        };
        if let Some(annotations) = &mut metadata.annotations {
            annotations
                .retain(|key, _| !key.ends_with("last-applied-configuration") && key != RESUME);
        }
        let mut spec = found.data["spec"].clone();
        spec.as_object_mut().and_then(|spec| spec.remove("suspend"));
        let new = DynamicObject { types: found.types, metadata, data: json!({ "spec": spec }) };
        let api = objects(&connection, false);
        let created = api.create(&PostParams::default(), &new).await;
        created.with_context(|| format!("create the MiniCluster {name}"))?;
        print(&MiniClusterRef::new(connection, &name).full_name());
        Ok(())
    }
}

async fn run_again(target: &MiniClusterRef) -> Result<()> {
    let run_id = random_name("run", &mut getrandom::u32)?;
    target.patch("spec.runId", json!({ "spec": { "runId": run_id } })).await?;
    print(&target.full_name());
    Ok(())
}
