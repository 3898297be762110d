//! Looking up names without libc's resolver, which a static binary cannot use.

use anyhow::{Context as _, Result, anyhow, ensure};
use hickory_resolver::config::{LookupIpStrategy, ResolveHosts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{ResolverBuilder, TokioResolver};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;

/// How long one name server has for one answer. The caller asks again anyway.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long all name servers together have, over UDP and TCP and for both kinds of address.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Names with as many dots are complete by the rule that Kubernetes writes into resolv.conf (`ndots:5`). A pod's own
/// rule (`dnsConfig`) counts if it has more. One of fewer does not, as libc asks the search list for every name that
/// is not found otherwise (resolv.conf(5)).
const COMPLETE_DOTS: usize = 5;

/// Comes before what failed where the system's own configuration is of no use.
const CONFIGURATION: &str = "could not read the name servers from /etc/resolv.conf";

/// The addresses of `name`, by the system's name servers, search list and hosts file as they are now: nothing is
/// remembered, because what does not exist now may exist in a moment.
pub(crate) async fn lookup(name: &str) -> Result<Vec<IpAddr>> {
    let builder = TokioResolver::builder_tokio().context(CONFIGURATION)?;
    lookup_by(builder, name).await
}

/// The addresses of `name`, first the IPv4 ones, then the IPv6 ones: which can be reached only a connection shows.
///
/// The name is taken as absolute first: that costs two queries where the search list of a pod makes it eight. One that
/// may be relative is then looked for in the search list, whatever the first answer was: a name server that has nobody
/// to ask about the world fails for `lead.team.svc`.
async fn lookup_by(
    mut builder: ResolverBuilder<TokioRuntimeProvider>,
    name: &str,
) -> Result<Vec<IpAddr>> {
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    let options = builder.options_mut();
    options.timeout = TIMEOUT;
    options.attempts = 1;
    options.use_hosts_file = ResolveHosts::Always;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    let complete_dots = options.ndots.max(COMPLETE_DOTS);
    let resolver = builder.build().context(CONFIGURATION)?;
    let absolute = format!("{}.", name.trim_end_matches('.'));
    match ask(&resolver, &absolute).await {
        Err(_) if may_be_relative(name, complete_dots) => ask(&resolver, name).await,
        result => result,
    }
}

async fn ask(resolver: &TokioResolver, name: &str) -> Result<Vec<IpAddr>> {
    let found = timeout(LOOKUP_TIMEOUT, resolver.lookup_ip(name)).await.map_err(|_| {
        let seconds = LOOKUP_TIMEOUT.as_secs();
        anyhow!("the name servers gave no answer for {name} within {seconds} s")
    })?;
    let addresses: Vec<_> = match found {
        Ok(found) => found.iter().collect(),
        Err(cause) if cause.is_nx_domain() || cause.is_no_records_found() => Vec::new(),
        Err(cause) => return Err(cause).with_context(|| format!("could not look up {name}")),
    };
    ensure!(!addresses.is_empty(), "name {name} does not exist in DNS (yet)");
    Ok(addresses)
}

fn may_be_relative(name: &str, complete_dots: usize) -> bool {
    !name.ends_with('.') && name.matches('.').count() < complete_dots
}

#[cfg(test)]
mod tests;
