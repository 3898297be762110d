//! An operator for one namespace: what a tenant can install, and what it may do.

use crate::{DEADLINE, kubectl, trial};
use anyhow::{Context as _, Result, bail, ensure};
use e2e::{
    product::install::{Installation, NAME, NAMESPACE},
    trial::Trial,
};
use flux_operator::images::{AGENT_IMAGE, VIEW_IMAGE};
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    core::v1::Pod,
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, LogParams, Patch, PatchParams, PostParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use tokio::time::timeout;

#[test]
#[ignore = "needs a cluster"]
fn an_operator_with_roles_alone_sees_its_namespace_and_no_secret() {
    trial("namespaced", &[], async |trial| {
        let image = "-ojsonpath={.spec.template.spec.containers[0].image}";
        let installed = ["get", "deployment", NAME, "--namespace", NAMESPACE];
        let installation = Installation {
            operator_image: kubectl(&[&installed[..], &[image]].concat())?,
            agent_image: AGENT_IMAGE.to_owned(),
            view_image: VIEW_IMAGE.to_owned(),
            install: None,
        };
        let manifests = installation.in_namespace(trial.namespace())?;
        for document in manifests.split("---\n").skip(1) {
            apply(trial, document).await?;
        }
        let operator = ["rollout", "status", "deployment", NAME, "--timeout=3m"];
        kubectl(&[&operator[..], &["--namespace", trial.namespace()]].concat())?;
        await_watches(trial).await?;
        let here = trial.namespace();
        for (verb, group, resource, namespace, expected) in [
            ("create", "batch", "jobs", here, true),
            ("create", "", "secrets", here, true),
            ("watch", "flux-framework.org", "miniclusters", here, true),
            ("get", "", "secrets", here, false),
            ("list", "", "secrets", here, false),
            ("create", "", "secrets", "default", false),
            ("get", "flux-framework.org", "miniclusters", "default", false),
            ("list", "", "pods", "default", false),
        ] {
            let allowed = may(trial, verb, group, resource, namespace).await?;
            ensure!(allowed == expected, "{verb} {resource} in {namespace}: allowed is {allowed}");
        }
        Ok(())
    });
}

/// Applies an object that is in the trial's namespace: an object of any other place is refused.
async fn apply(trial: &Trial, document: &str) -> Result<()> {
    let object: DynamicObject = serde_saphyr::from_str(document)?;
    let types = object.types.as_ref().context("a manifest without a kind")?;
    let name = object.name_any();
    ensure!(
        object.namespace().as_deref() == Some(trial.namespace()),
        "{} {name} is outside the namespace",
        types.kind
    );
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    let api: Api<DynamicObject> =
        Api::namespaced_with(trial.client().clone(), trial.namespace(), &resource);
    let parameters = PatchParams::apply("flux-e2e").force().validation_strict();
    let applied = api.patch(&name, &parameters, &Patch::Apply(&object)).await;
    applied.map(|_| ()).with_context(|| format!("applying {} {name}", types.kind))
}

/// Waits until the operator says that its watch of `MiniClusters` has been answered.
async fn await_watches(trial: &Trial) -> Result<()> {
    let pods = trial.api::<Pod>();
    let pod = pods.list(&ListParams::default()).await?.items.pop().context("there is no pod")?;
    let follow = LogParams { follow: true, ..LogParams::default() };
    let mut lines = pods.log_stream(&pod.name_any(), &follow).await?.lines();
    let known = async {
        while let Some(line) = lines.try_next().await? {
            if line.contains("all MiniClusters are known") {
                return Ok(());
            }
        }
        bail!("the operator has ended")
    };
    timeout(DEADLINE, known).await.context("waiting for the operator to know all MiniClusters")?
}

/// Whether the operator of the trial's namespace may do that.
async fn may(
    trial: &Trial,
    verb: &str,
    group: &str,
    resource: &str,
    namespace: &str,
) -> Result<bool> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{}:{}", trial.namespace(), NAME)),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let api: Api<SubjectAccessReview> = Api::all(trial.client().clone());
    let answer = api.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
