//! Looking up names without libc's resolver, which a static binary cannot use.

use crate::lead::dns::{DnsError, addresses};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use resolv_conf::Config;
use serde::Serialize;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long all name servers together have, for all names that a name may stand for.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Names with as many dots are complete by the rule that Kubernetes writes into resolv.conf (`ndots:5`). A pod's own
/// rule (`dnsConfig`) counts if it has more. One of fewer does not, as libc asks the search list for every name that
/// is not found otherwise (resolv.conf(5)).
const COMPLETE_DOTS: usize = 5;

/// Port of name servers.
const PORT: u16 = 53;

/// The addresses of `name`, by the system's name servers, search list and hosts file as they are now: nothing is
/// remembered, because what does not exist now may exist in a moment.
pub(crate) async fn lookup(name: &str) -> Result<Vec<IpAddr>> {
    Resolver::of_system()?.lookup(name).await
}

/// The configuration of the system.
#[derive(Debug, Clone)]
struct Resolver {
    servers: Vec<SocketAddr>,
    search: Vec<String>,
    /// Names with as many dots are complete before the search list is asked.
    dots: usize,
    /// The text of hosts(5).
    hosts: String,
}

impl Resolver {
    fn of_system() -> Result<Self> {
        let failed = "could not read the name servers from /etc/resolv.conf";
        let (config, _) = Config::parse_with_errors(&fs::read("/etc/resolv.conf").context(failed)?);
        let servers = config.nameservers.iter().map(|ip| SocketAddr::new(ip.into(), PORT));
        let search = config.get_last_search_or_domain().filter(|domain| *domain != "--");
        Ok(Self {
            servers: servers.collect(),
            search: search.cloned().collect(),
            dots: config.ndots as usize,
            hosts: fs::read_to_string("/etc/hosts").unwrap_or_default(),
        })
    }

    /// The addresses of `name`, first the IPv4 ones, then the IPv6 ones: only a connection shows which can be reached.
    ///
    /// The name is taken as absolute first: that costs two questions where the search list of a pod makes it eight. One
    /// that may be relative is then looked for in the search list, whatever the first answer was: a name server that
    /// cannot ask others about the world fails for `lead.team.svc`.
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>> {
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        let in_hosts = self.in_hosts(name);
        if !in_hosts.is_empty() {
            return Ok(in_hosts);
        }
        ensure!(!self.servers.is_empty(), "there is no name server in /etc/resolv.conf");
        let absolute = complete(name);
        match self.ask(&absolute, std::slice::from_ref(&absolute)).await {
            Err(_) if may_be_relative(name, self.dots.max(COMPLETE_DOTS)) => {
                self.ask(name, &self.candidates(name)).await
            }
            result => result,
        }
    }

    /// The addresses of the first of `candidates` that has any. An error names `name`.
    async fn ask(&self, name: &str, candidates: &[String]) -> Result<Vec<IpAddr>> {
        let found = timeout(LOOKUP_TIMEOUT, self.first(candidates)).await.map_err(|_| {
            let seconds = LOOKUP_TIMEOUT.as_secs();
            anyhow!("the name servers gave no answer for {name} within {seconds} s")
        })?;
        match found {
            Ok((_, addresses)) => Ok(addresses),
            Err(DnsError::NotFound) => bail!("name {name} does not exist in DNS (yet)"),
            Err(cause) => Err(cause).with_context(|| format!("could not look up {name}")),
        }
    }

    /// The first of `candidates` that has addresses, and these. A server that fails is asked last from then on.
    async fn first(&self, candidates: &[String]) -> Result<(String, Vec<IpAddr>), DnsError> {
        let (mut servers, mut last) = (self.servers.clone(), DnsError::NotFound);
        for name in candidates {
            for _ in 0..servers.len() {
                match addresses(servers[0], name).await {
                    Ok(found) => return Ok((name.clone(), found)),
                    Err(error) => last = error,
                }
                if matches!(last, DnsError::NotFound) {
                    break;
                }
                servers.rotate_left(1);
            }
        }
        Err(last)
    }

    /// The complete names that `name` may stand for, in the order of resolv.conf(5).
    fn candidates(&self, name: &str) -> Vec<String> {
        let absolute = complete(name);
        if name.ends_with('.') {
            return vec![absolute];
        }
        let mut names: Vec<_> =
            self.search.iter().map(|domain| complete(&format!("{name}.{domain}"))).collect();
        let at = if name.matches('.').count() >= self.dots { 0 } else { names.len() };
        names.insert(at, absolute);
        names
    }

    fn in_hosts(&self, name: &str) -> Vec<IpAddr> {
        let name = name.trim_end_matches('.');
        let address = |line: &str| {
            let mut words = line.split('#').next()?.split_whitespace();
            let address: IpAddr = words.next()?.parse().ok()?;
            words.any(|known| known.eq_ignore_ascii_case(name)).then_some(address)
        };
        let mut found: Vec<_> = self.hosts.lines().filter_map(address).collect();
        found.sort_by_key(IpAddr::is_ipv6);
        found
    }

    /// The answers of each name server alone.
    async fn resolution(&self, name: &str) -> Resolution {
        let mut found = Resolution {
            name: name.to_owned(),
            search: self.search.iter().map(|domain| complete(domain)).collect(),
            hosts: self.in_hosts(name),
            servers: Vec::new(),
        };
        let candidates = self.candidates(name);
        for server in &self.servers {
            let alone = Self { servers: vec![*server], ..self.clone() };
            found.servers.push(alone.answer(server.ip(), &candidates).await);
        }
        found
    }

    async fn answer(&self, server: IpAddr, candidates: &[String]) -> Answer {
        let began = Instant::now();
        let found = timeout(LOOKUP_TIMEOUT, self.first(candidates)).await;
        let (name, addresses, error) = match found {
            Ok(Ok((name, addresses))) => (Some(name), addresses, None),
            Ok(Err(error)) => (None, Vec::new(), Some(format!("{:#}", anyhow!(error)))),
            Err(_) => {
                let seconds = LOOKUP_TIMEOUT.as_secs();
                (None, Vec::new(), Some(format!("no answer within {seconds} s")))
            }
        };
        let milliseconds = began.elapsed().as_millis();
        Answer { server: server.to_string(), milliseconds, name, addresses, error }
    }
}

/// The complete name, as DNS has it.
fn complete(name: &str) -> String {
    format!("{}.", name.trim_end_matches('.'))
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
    Ok(Resolver::of_system()?.resolution(name).await)
}

fn may_be_relative(name: &str, complete_dots: usize) -> bool {
    !name.ends_with('.') && name.matches('.').count() < complete_dots
}

#[cfg(test)]
mod tests;
