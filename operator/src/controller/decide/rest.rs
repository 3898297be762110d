//! `flux.rest`: the token of the API. The agents have its fingerprint, users its Secret, and the operator keeps neither.

use crate::cluster::Cluster;
use crate::controller::build;
use flux_contract::token::fingerprint;
use flux_contract::{AgentConfig, ClusterName, Rest};
use flux_protocol::Redacted;
use k8s_openapi::api::core::v1::Secret;

/// How users reach the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) url: String,
    /// Name of the Secret with the token.
    pub(crate) secret: String,
}

/// How the API is reached of the instance that has `config`, if it serves one.
pub(super) fn reached(config: &AgentConfig) -> Option<Reached> {
    let (rest, cluster) = (config.rest.as_ref()?, &config.cluster);
    let (service, namespace) = (cluster.name.rest_service(), &cluster.namespace);
    let secret = secret_name(&cluster.name, rest);
    Some(Reached { url: format!("http://{service}.{namespace}.svc"), secret })
}

/// Writes into `config` the fingerprint that the agents had `before`, so that the Secret of it stays good; else that of
/// the new `token`, whose Secret this gives. `None` also where no API is asked for.
pub(super) fn secret(
    cluster: &Cluster,
    config: &mut AgentConfig,
    before: Option<Rest>,
    token: Option<&Redacted<String>>,
) -> Option<Redacted<Secret>> {
    let rest = config.rest.as_mut()?;
    if let Some(before) = before {
        rest.token_sha256 = before.token_sha256;
        return None;
    }
    let token = token?;
    rest.token_sha256 = fingerprint(token.expose());
    Some(build::rest_secret(cluster, &secret_name(&cluster.name, rest), token))
}

fn secret_name(name: &ClusterName, rest: &Rest) -> String {
    name.rest_secret(&rest.token_sha256)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::build::agent_config;
    use crate::controller::fixtures::cluster;
    use serde_json::json;

    #[test]
    fn a_token_is_made_once_and_only_its_secret_has_it() {
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
        assert_eq!(reached(&first), Some(Reached { url, secret: name }));
        let mut second = config();
        assert_eq!(secret(&cluster, &mut second, Some(rest), Some(&token("b"))), None);
        assert_eq!(second, first);
    }

    #[test]
    fn nothing_is_made_where_no_api_is_asked_for() {
        let cluster = cluster(&json!({}));
        let mut config = agent_config(&cluster, None);
        let before = Some(Rest { port: 1, token_sha256: "a".to_owned() });
        assert_eq!(secret(&cluster, &mut config, before, None), None);
        assert_eq!((config.rest.clone(), reached(&config)), (None, None));
    }
}
