//! Looking up names without libc's resolver, which a static binary cannot use.

use anyhow::{Context as _, Result, anyhow, ensure};
use hickory_resolver::config::{LookupIpStrategy, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::lookup_ip::LookupIp;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use hickory_resolver::{Hosts, ResolverBuilder, TokioResolver};
use serde::Serialize;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{Instant, timeout};

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

/// What one name server says of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(crate) server: String,
    pub(crate) milliseconds: u128,
    /// The complete name that it knows.
    pub(crate) name: Option<String>,
    pub(crate) addresses: Vec<IpAddr>,
    /// Why it has no addresses.
    pub(crate) error: Option<String>,
}

/// What all say of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resolution {
    pub(crate) name: String,
    pub(crate) search: Vec<String>,
    /// What `/etc/hosts` says.
    pub(crate) hosts: Vec<IpAddr>,
    /// In the order of `/etc/resolv.conf`.
    pub(crate) servers: Vec<Answer>,
}

impl Resolution {
    pub(crate) fn is_known(&self) -> bool {
        !self.hosts.is_empty() || self.servers.iter().any(|server| server.error.is_none())
    }
}

/// Asks each name server of the system for `name`, one after the other, with the system's search list.
pub(crate) async fn resolution(name: &str) -> Result<Resolution> {
    let (config, options) = read_system_conf().context(CONFIGURATION)?;
    let hosts = Hosts::from_system().context("could not read /etc/hosts")?;
    resolution_by(config, &options, &hosts, name).await
}

async fn resolution_by(
    config: ResolverConfig,
    options: &ResolverOpts,
    hosts: &Hosts,
    name: &str,
) -> Result<Resolution> {
    let asked = Name::from_utf8(name).with_context(|| format!("{name} is no name"))?;
    let (domain, search, servers) = config.into_parts();
    let mut found = Resolution {
        name: name.to_owned(),
        search: search.iter().map(Name::to_utf8).collect(),
        hosts: in_hosts(hosts, &asked),
        servers: Vec::new(),
    };
    for server in servers {
        let address = server.ip.to_string();
        let alone = ResolverConfig::from_parts(domain.clone(), search.clone(), vec![server]);
        found.servers.push(answer(address, alone, options, name).await);
    }
    Ok(found)
}

fn in_hosts(hosts: &Hosts, name: &Name) -> Vec<IpAddr> {
    let of = |type_| hosts.lookup_static_host(&Query::query(name.clone(), type_));
    let found = [RecordType::A, RecordType::AAAA].into_iter().filter_map(of);
    found.flat_map(|lookup| LookupIp::from(lookup).iter().collect::<Vec<_>>()).collect()
}

async fn answer(
    server: String,
    config: ResolverConfig,
    options: &ResolverOpts,
    name: &str,
) -> Answer {
    let began = Instant::now();
    let provider = TokioRuntimeProvider::default();
    let mut builder = TokioResolver::builder_with_config(config, provider);
    *builder.options_mut() = options.clone();
    let own = builder.options_mut();
    own.use_hosts_file = ResolveHosts::Never;
    own.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    (own.timeout, own.attempts) = (TIMEOUT, 1);
    let asked = async { builder.build()?.lookup_ip(name).await };
    let found = match timeout(LOOKUP_TIMEOUT, asked).await {
        Ok(Ok(found)) => Ok((found.query().name().to_utf8(), found.iter().collect())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", LOOKUP_TIMEOUT.as_secs())),
    };
    let milliseconds = began.elapsed().as_millis();
    match found {
        Ok((name, addresses)) => {
            Answer { server, milliseconds, name: Some(name), addresses, error: None }
        }
        Err(error) => {
            let (name, addresses) = (None, Vec::new());
            Answer { server, milliseconds, name, addresses, error: Some(error) }
        }
    }
}

fn may_be_relative(name: &str, complete_dots: usize) -> bool {
    !name.ends_with('.') && name.matches('.').count() < complete_dots
}

#[cfg(test)]
mod tests;
