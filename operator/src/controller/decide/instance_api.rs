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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::cluster;
    use flux_api::objects::agent_config;
    use serde_json::json;

    #[test]
    fn a_token_is_created_once_and_only_in_its_secret() {
        let cluster = cluster(&json!({ "flux": { "rest": {} } }));
        let config = || agent_config(&cluster, None);
        let token = |text: &str| Redacted::new(text.to_owned());
        let mut first = config();
        let made = secret(&cluster, &mut first, None, Some(&token("a"))).unwrap();
        let data = made.expose().string_data.as_ref().unwrap();
        assert_eq!(data["token"], "a");
        let rest = first.rest.clone().unwrap();
        assert_eq!(rest.token_sha256, fingerprint("a"));
        let name = format!("hello-rest-{}", &fingerprint("a")[..10]);
        assert_eq!(made.expose().metadata.name, Some(name.clone()));
        let url = "http://hello-rest.apps.svc".to_owned();
        assert_eq!(endpoint(&first), Some(ApiEndpoint { url, secret: name }));
        let mut second = config();
        assert_eq!(secret(&cluster, &mut second, Some(rest), Some(&token("b"))), None);
        assert_eq!(second, first);
    }

    #[test]
    fn no_token_is_created_without_an_api() {
        let cluster = cluster(&json!({}));
        let mut config = agent_config(&cluster, None);
        let present = Some(Rest { port: 1, token_sha256: "a".to_owned() });
        assert_eq!(secret(&cluster, &mut config, present, None), None);
        assert_eq!((config.rest.clone(), endpoint(&config)), (None, None));
    }
}
