//! Asks the cluster's DNS one question, to see whether it answers.

use super::network::Network;
use anyhow::{Context as _, Result};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_millis(500);

/// Asks for the API server's Service; the calling thread must be in the node's network.
pub(crate) fn ask(network: &Network) -> Result<()> {
    let server = network.addresses().dns.parse().context("reading the DNS's address")?;
    let config = ResolverConfig::from_name_servers(vec![NameServerConfig::udp(server)]);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    builder.options_mut().timeout = TIMEOUT;
    builder.options_mut().attempts = 0;
    let name = format!("{}.", network.api_name());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting a runtime")?;
    let answer = runtime.block_on(async { builder.build()?.lookup_ip(&name).await });
    answer.with_context(|| format!("asking the DNS at {server} for {name}"))?;
    Ok(())
}
