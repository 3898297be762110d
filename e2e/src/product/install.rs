//! Installs the operator from `deploy/`, as a user would, and waits until it serves.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
    runtime::wait::{await_condition, conditions},
};

use super::checkout;

/// Namespace of the operator in `deploy/`.
pub const NAMESPACE: &str = "flux-operator-system";
/// Name of the operator's Deployment in `deploy/`.
pub const DEPLOYMENT: &str = "flux-operator";

const FIELD_MANAGER: &str = "flux-e2e";
/// The operator's argument that names the image of its agents.
const AGENT_IMAGE: &str = "--agent-image=";
/// Marks the pods with the images' digests, so that a new build of the same tag is rolled out.
const DIGEST_ANNOTATION: &str = "flux-e2e/images";

/// Applies `deploy/` with the given default view image and waits until the operator is available.
///
/// `digest` stands for the images' content.
pub async fn install(client: &Client, view_image: Option<&str>, digest: &str) -> Result<()> {
    for file in ["crd.yaml", "operator.yaml"] {
        let path = checkout()?.join("deploy").join(file);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading the manifests {}", path.display()))?;
        for mut object in documents(&text).with_context(|| format!("parsing {file}"))? {
            if is_operator(&object) {
                adapt(&mut object, view_image, digest);
            }
            apply(client, &object).await?;
        }
    }
    await_operator(client).await
}

/// The documents of a YAML stream.
fn documents(text: &str) -> Result<Vec<DynamicObject>> {
    text.split("\n---")
        .map(|document| document.trim_start_matches("---"))
        .filter(|document| {
            document.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'))
        })
        .map(|document| Ok(serde_saphyr::from_str(document)?))
        .collect()
}

fn is_operator(object: &DynamicObject) -> bool {
    let kind = object.types.as_ref().map(|types| types.kind.as_str());
    kind == Some("Deployment") && object.name_any() == DEPLOYMENT
}

/// Sets what differs between installations: the default view image, and the digest annotation.
fn adapt(deployment: &mut DynamicObject, view_image: Option<&str>, digest: &str) {
    let template = &mut deployment.data["spec"]["template"];
    template["metadata"]["annotations"][DIGEST_ANNOTATION] = digest.into();
    let Some(image) = view_image else { return };
    let arguments = &mut template["spec"]["containers"][0]["args"];
    let mut kept: Vec<serde_json::Value> = arguments.as_array().cloned().unwrap_or_default();
    kept.retain(|argument| !argument.as_str().is_some_and(|text| text.starts_with("--view-image")));
    kept.push(format!("--view-image={image}").into());
    *arguments = kept.into();
}

async fn apply(client: &Client, object: &DynamicObject) -> Result<()> {
    let types = object.types.as_ref().context("a manifest without a kind")?;
    let kind = GroupVersionKind::try_from(types).context("reading the kind of a manifest")?;
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let parameters = PatchParams::apply(FIELD_MANAGER).force().validation_strict();
    let name = object.name_any();
    api.patch(&name, &parameters, &Patch::Apply(object))
        .await
        .with_context(|| format!("applying {} {name}", types.kind))?;
    if types.kind == "CustomResourceDefinition" {
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let established = await_condition(definitions, &name, conditions::is_crd_established());
        tokio::time::timeout(Duration::from_secs(30), established)
            .await
            .with_context(|| format!("waiting for {name} to be established"))?
            .with_context(|| format!("watching {name}"))?;
    }
    Ok(())
}

/// Gives the installed operator another image for its agents, as another release would have, waits
/// until such an operator is available, and returns the image that it had.
pub async fn set_agent_image(client: &Client, image: &str) -> Result<String> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let mut deployment =
        deployments.get(DEPLOYMENT).await.context("reading the operator's Deployment")?;
    let template = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
    let container = template.and_then(|pod| pod.containers.first_mut());
    let mut arguments = container.into_iter().flat_map(|it| it.args.iter_mut().flatten());
    let argument = arguments.find(|argument| argument.starts_with(AGENT_IMAGE));
    let argument = argument.context("the operator has no argument --agent-image")?;
    let former = std::mem::replace(argument, format!("{AGENT_IMAGE}{image}"));
    deployments
        .replace(DEPLOYMENT, &PostParams::default(), &deployment)
        .await
        .context("replacing the operator's Deployment")?;
    await_operator(client).await?;
    Ok(former.trim_start_matches(AGENT_IMAGE).to_owned())
}

/// Waits until the newest operator is available, and no older one is left.
async fn await_operator(client: &Client) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let rolled_out = |deployment: Option<&Deployment>| deployment.is_some_and(is_rolled_out);
    let waiting = await_condition(deployments, DEPLOYMENT, rolled_out);
    tokio::time::timeout(Duration::from_mins(2), waiting)
        .await
        .context("waiting two minutes for the operator to be available")?
        .context("watching the operator's Deployment")?;
    Ok(())
}

fn is_rolled_out(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    status.observed_generation == deployment.metadata.generation
        && status.updated_replicas == Some(wanted)
        && status.available_replicas == Some(wanted)
        && status.replicas == Some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_split_and_comments_alone_are_none() {
        let text = "# generated\n---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n---\napiVersion: v1\nkind: B\nmetadata: {name: b}\n";
        let kinds: Vec<String> =
            documents(text).unwrap().into_iter().map(|object| object.types.unwrap().kind).collect();
        assert_eq!(kinds, ["A", "B"]);
    }

    #[test]
    fn the_view_image_replaces_the_one_of_the_manifest() {
        let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: flux-operator}\nspec: {template: {metadata: {annotations: {}}, spec: {containers: [{args: [run, --view-image=old]}]}}}";
        let mut object = documents(text).unwrap().remove(0);
        adapt(&mut object, Some("new"), "digest");
        let template = &object.data["spec"]["template"];
        assert_eq!(
            template["spec"]["containers"][0]["args"],
            serde_json::json!(["run", "--view-image=new"])
        );
        assert_eq!(template["metadata"]["annotations"][DIGEST_ANNOTATION], "digest");
    }
}
