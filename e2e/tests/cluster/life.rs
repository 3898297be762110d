//! What goes with a namespace.

use anyhow::Context as _;
use e2e::trial::Trial;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt as _,
    runtime::wait::{await_condition, conditions},
};

use crate::{DEADLINE, run, trial};

#[test]
#[ignore = "needs a cluster"]
fn a_namespace_goes_with_the_minicluster_that_runs_in_it() {
    trial("around", &[], async |trial| {
        let inside = Trial::begin(trial.client(), "inside", &[]).await?;
        run(&inside, "inside", "size: 2, interactive: true", "").await?.ready().await?;
        let namespaces: Api<Namespace> = Api::all(trial.client().clone());
        let namespace = inside.namespace().to_owned();
        let uid = namespaces.get(&namespace).await?.uid().unwrap_or_default();
        inside.clean().await?;
        let gone = await_condition(namespaces, &namespace, conditions::is_deleted(&uid));
        tokio::time::timeout(DEADLINE, gone).await.context("waiting for the namespace to go")??;
        Ok(())
    });
}
