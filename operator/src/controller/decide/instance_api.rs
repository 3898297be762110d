//! The API of an instance (`flux.rest`) and its token: agents get its fingerprint, users the Secret with it.

use flux_api::cluster::Cluster;
use flux_api::objects;
use flux_contract::token::fingerprint;
use flux_contract::{AgentConfig, ClusterName, Rest};
use flux_protocol::Redacted;
use k8s_openapi::api::core::v1::Secret;

/// Address of the API and name of its Secret, for the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiEndpoint {
    pub(crate) url: String,
    pub(crate) secret: String,
}

pub(super) fn endpoint(config: &AgentConfig) -> Option<ApiEndpoint> {
    let (rest, cluster) = (config.rest.as_ref()?, &config.cluster);
    let (service, namespace) = (cluster.name.rest_service(), &cluster.namespace);
    let secret = secret_name(&cluster.name, rest);
    Some(ApiEndpoint { url: format!("http://{service}.{namespace}.svc"), secret })
}

/// Writes the token's fingerprint into `config`: the `present` one, so that its Secret stays valid, else that of the
/// new `token`, whose Secret is returned. `None` also without `flux.rest`.
pub(super) fn secret(
    cluster: &Cluster,
    config: &mut AgentConfig,
    present: Option<Rest>,
    token: Option<&Redacted<String>>,
) -> Option<Redacted<Secret>> {
    let rest = config.rest.as_mut()?;
    if let Some(present) = present {
        rest.token_sha256 = present.token_sha256;
        return None;
    }
    let token = token?;
    rest.token_sha256 = fingerprint(token.expose());
    Some(objects::rest_secret(cluster, &secret_name(&cluster.name, rest), token))
}

fn secret_name(name: &ClusterName, rest: &Rest) -> String {
    name.rest_secret(&rest.token_sha256)
}
