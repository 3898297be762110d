//! The options of kubectl that change the address of a cluster and the user for one command.

use anyhow::{Context as _, Result};
use clap::Args;
use http::Uri;
use kube::Config;
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Access {
    /// Cluster of the kubeconfig
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// User of the kubeconfig
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    pub user: Option<String>,
    /// Address of the API server
    #[arg(long, global = true, hide_short_help = true, value_name = "URL")]
    pub server: Option<Uri>,
    /// Bearer token
    #[arg(long, global = true, hide_short_help = true)]
    token: Option<String>,
    /// Certificate of the authority that the server's certificate comes from
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    /// Certificate of the user
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    client_certificate: Option<String>,
    /// Key of the user's certificate
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    client_key: Option<String>,
    /// Accept any certificate of the server: anyone on the way can then read and change everything
    #[arg(long, global = true, hide_short_help = true, num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_name = "BOOL")]
    insecure_skip_tls_verify: Option<bool>,
    /// Name in the server's certificate [default: the host of the address]
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// User to act as
    #[arg(long = "as", global = true, hide_short_help = true, value_name = "USER")]
    as_user: Option<String>,
    /// Group to act as
    #[arg(long, global = true, hide_short_help = true, value_name = "GROUP")]
    as_group: Vec<String>,
    /// Uid to act as
    #[arg(long, global = true, hide_short_help = true, value_name = "UID")]
    as_uid: Option<String>,
}

impl Access {
    pub(crate) fn apply(&self, config: &mut Config) -> Result<()> {
        if let Some(token) = &self.token {
            let token = json!({ "token": token });
            config.auth_info = serde_json::from_value(token).context("use --token")?;
        }
        if let Some(server) = &self.server {
            config.cluster_url = server.clone();
        }
        let is_insecure = self.insecure_skip_tls_verify;
        config.accept_invalid_certs = is_insecure.unwrap_or(config.accept_invalid_certs);
        set(&mut config.root_cert_file, self.certificate_authority.as_ref());
        set(&mut config.tls_server_name, self.tls_server_name.as_ref());
        let user = &mut config.auth_info;
        user.client_certificate_data.take_if(|_| self.client_certificate.is_some());
        set(&mut user.client_certificate, self.client_certificate.as_ref());
        user.client_key_data.take_if(|_| self.client_key.is_some());
        set(&mut user.client_key, self.client_key.as_ref());
        set(&mut user.impersonate, self.as_user.as_ref());
        set(&mut user.impersonate_uid, self.as_uid.as_ref());
        let groups = Some(&self.as_group).filter(|groups| !groups.is_empty());
        set(&mut user.impersonate_groups, groups);
        Ok(())
    }
}

/// Puts `given` in the place of the value of the kubeconfig.
fn set<T: Clone>(value: &mut Option<T>, given: Option<&T>) {
    if given.is_some() {
        *value = given.cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        access: Access,
    }

    #[test]
    fn options_take_the_place_of_the_kubeconfig() {
        let words = "flux --server https://a:1 --token=t --as=u --as-group=g --as-group=h --as-uid=7 \
                     --client-key=k --client-certificate=c --insecure-skip-tls-verify=true \
                     --tls-server-name=n --certificate-authority=ca";
        let mut config = Config::new(Uri::from_static("http://old"));
        Line::parse_from(words.split_whitespace()).access.apply(&mut config).unwrap();
        let user = json!({
            "token": "t", "as": "u", "as-groups": ["g", "h"], "as-uid": "7",
            "client-certificate": "c", "client-key": "k",
        });
        assert_eq!(json!(config.auth_info), user);
        assert_eq!(config.cluster_url, "https://a:1");
        assert_eq!(
            (config.accept_invalid_certs, config.tls_server_name.as_deref()),
            (true, Some("n"))
        );
        assert_eq!(config.root_cert_file, Some("ca".into()));
    }
}
