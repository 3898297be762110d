//! The API of an instance (`flux.rest`) and its tokens: agents get their fingerprints, users the Secret with them.
//!
//! The Secret of earlier tokens stays until the MiniCluster is deleted: the operator has no right to delete Secrets.

use flux_api::cluster::Cluster;
use flux_api::objects::{self, RestTokens};
use flux_contract::token::fingerprint;
use flux_contract::{AgentConfig, ClusterName, Rest};
use flux_protocol::Redacted;
use k8s_openapi::api::core::v1::Secret;

/// Address of the API and name of its Secret, for the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiEndpoint {
    pub(crate) url: String,
    pub(crate) secret: String,
    /// Whether the Secret also has a token that reads only.
    pub(crate) has_read_only_token: bool,
}

pub(super) fn endpoint(config: &AgentConfig) -> Option<ApiEndpoint> {
    let (rest, cluster) = (config.rest.as_ref()?, &config.cluster);
    let (service, namespace) = (cluster.name.rest_service(), &cluster.namespace);
    let scheme = if rest.tls { "https" } else { "http" };
    Some(ApiEndpoint {
        url: format!("{scheme}://{service}.{namespace}.svc"),
        secret: secret_name(&cluster.name, rest),
        has_read_only_token: may_rotate(rest),
    })
}

/// Whether the agents of a run read the fingerprints again. Those of a release without tokens that read only do not.
pub(super) const fn may_rotate(running: &Rest) -> bool {
    running.read_only_token_sha256.is_some()
}

/// Writes the fingerprints of tokens into `config`: the `present` ones, so that their Secret stays valid, unless they are
/// to be replaced; else those of the new `tokens`, whose Secret is returned. `None` also without `flux.rest`.
pub(super) fn secret(
    cluster: &Cluster,
    config: &mut AgentConfig,
    present: Option<Rest>,
    tokens: Option<&RestTokens>,
) -> Option<Redacted<Secret>> {
    let rest = config.rest.as_mut()?;
    let wanted = cluster.flux.rest.as_ref().and_then(|rest| rest.rotation.clone());
    if let Some(present) = present {
        *rest = Rest { port: rest.port, tls: rest.tls, ..present };
        if rest.rotation == wanted || !may_rotate(rest) {
            return None;
        }
    }
    let tokens = tokens?;
    rest.token_sha256 = fingerprint(tokens.full.expose());
    rest.read_only_token_sha256 = Some(fingerprint(tokens.read_only.expose()));
    rest.rotation = wanted;
    Some(objects::rest_secret(cluster, &secret_name(&cluster.name, rest), tokens))
}

fn secret_name(name: &ClusterName, rest: &Rest) -> String {
    name.rest_secret(&rest.token_sha256)
}
