//! Looking up names without libc's resolver, which a static binary cannot use.

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
    ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::Name;
use hickory_resolver::{ResolverBuilder, TokioResolver};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::time::timeout;

/// How long one name server has for one answer. The caller asks again anyway.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long all name servers together have, over UDP and TCP and for both kinds of address.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Names with as many dots are complete by the rule that Kubernetes writes into resolv.conf
/// (`ndots:5`); shorter ones may be meant relative to the search list. A pod may have another rule
/// (`dnsConfig`): one of more dots counts. One of fewer does not, as libc asks the search list for
/// every name that is not found otherwise (resolv.conf(5)).
const COMPLETE_DOTS: usize = 5;

/// Why a name has no address.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The system's configuration of name servers is missing or unusable.
    #[error("could not read the name servers from /etc/resolv.conf")]
    Configuration {
        /// What was wrong.
        #[source]
        cause: NetError,
    },
    /// The name servers know no address of that name.
    #[error("name {name} does not exist in DNS (yet)")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The name servers gave no answer in time.
    #[error("the name servers gave no answer for {name} within {} s", LOOKUP_TIMEOUT.as_secs())]
    NoAnswer {
        /// The name.
        name: String,
    },
    /// The name servers, or the way to them, failed.
    #[error("could not look up {name}")]
    Failed {
        /// The name.
        name: String,
        /// What was wrong.
        #[source]
        cause: NetError,
    },
}

/// A resolver that remembers nothing: what does not exist now may exist in a moment.
#[derive(Clone)]
pub struct Resolver {
    resolver: TokioResolver,
    complete_dots: usize,
}

impl Resolver {
    /// A resolver with the system's name servers, search list and hosts file.
    pub fn from_system() -> Result<Self, ResolveError> {
        let builder = TokioResolver::builder_tokio()
            .map_err(|cause| ResolveError::Configuration { cause })?;
        Self::build(builder)
    }

    /// A resolver that asks only the name server at `address`, with `search` as its search list and
    /// names of `ndots` dots complete.
    pub fn from_name_server(
        address: SocketAddr,
        search: &[&str],
        ndots: usize,
    ) -> Result<Self, ResolveError> {
        let (mut udp, mut tcp) = (ConnectionConfig::udp(), ConnectionConfig::tcp());
        udp.port = address.port();
        tcp.port = address.port();
        let server = NameServerConfig::new(address.ip(), true, vec![udp, tcp]);
        let search: Result<Vec<Name>, _> = search.iter().map(Name::from_ascii).collect();
        let search = search.map_err(|cause| ResolveError::Configuration { cause: cause.into() })?;
        let configuration = ResolverConfig::from_parts(None, search, vec![server]);
        let provider = TokioRuntimeProvider::default();
        let mut builder = TokioResolver::builder_with_config(configuration, provider);
        builder.options_mut().ndots = ndots;
        Self::build(builder)
    }

    fn build(mut builder: ResolverBuilder<TokioRuntimeProvider>) -> Result<Self, ResolveError> {
        set_options(builder.options_mut());
        let complete_dots = builder.options_mut().ndots.max(COMPLETE_DOTS);
        let resolver = builder.build().map_err(|cause| ResolveError::Configuration { cause })?;
        Ok(Self { resolver, complete_dots })
    }

    /// The addresses of `name`, first the IPv4 ones, then the IPv6 ones: which of them can be reached
    /// from here only a connection shows.
    ///
    /// The name is taken as absolute first: that costs two queries where the search list of a pod
    /// makes it eight. A name with fewer dots than the pod's `ndots` and no dot at its end is then
    /// looked for in the search list as well, whatever the first answer was: a name server that has
    /// nobody to ask about the world fails for `lead.team.svc`.
    pub async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        let absolute = format!("{}.", name.trim_end_matches('.'));
        match self.ask(&absolute).await {
            Err(_) if may_be_relative(name, self.complete_dots) => self.ask(name).await,
            result => result,
        }
    }

    async fn ask(&self, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let failed = |cause: NetError| {
            let name = name.to_owned();
            if cause.is_nx_domain() || cause.is_no_records_found() {
                ResolveError::Unknown { name }
            } else {
                ResolveError::Failed { name, cause }
            }
        };
        let found = timeout(LOOKUP_TIMEOUT, self.resolver.lookup_ip(name))
            .await
            .map_err(|_| ResolveError::NoAnswer { name: name.to_owned() })?;
        let addresses: Vec<IpAddr> = found.map_err(failed)?.iter().collect();
        if addresses.is_empty() {
            return Err(ResolveError::Unknown { name: name.to_owned() });
        }
        Ok(addresses)
    }
}

fn set_options(options: &mut ResolverOpts) {
    // With a cache, a name that does not exist stays so for the zone's negative TTL (RFC 2308).
    options.cache_size = 0;
    options.timeout = TIMEOUT;
    options.attempts = 1;
    options.use_hosts_file = ResolveHosts::Always;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
}

fn may_be_relative(name: &str, complete_dots: usize) -> bool {
    !name.ends_with('.') && name.matches('.').count() < complete_dots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_names_are_never_looked_for_in_the_search_list() {
        let relative = |name, ndots| may_be_relative(name, ndots);
        assert!(!relative("hello-0.hello.team.svc.cluster.local", 5));
        assert!(relative("hello-0.hello.team.svc.cluster.local", 6), "the pod's own rule");
        assert!(!relative("lead.", 5));
        assert!(relative("lead", 5) && relative("hello-0.hello.team.svc", 5));
    }

    #[test]
    fn nothing_is_remembered_and_nobody_is_waited_for_long() {
        let mut options = ResolverOpts::default();
        set_options(&mut options);
        assert_eq!((options.cache_size, options.attempts), (0, 1));
        assert_eq!(options.timeout, Duration::from_secs(1));
    }

    #[tokio::test]
    async fn an_address_needs_no_lookup() {
        let resolver = Resolver::from_name_server("127.0.0.1:9".parse().unwrap(), &[], 5).unwrap();
        let address: IpAddr = "fd00::7".parse().unwrap();
        assert_eq!(resolver.lookup("fd00::7").await.unwrap(), [address]);
    }
}
