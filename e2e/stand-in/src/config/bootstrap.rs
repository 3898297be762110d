//! The `[bootstrap]` table: who the brokers are, in rank order, and how they reach each other.

use flux_contract::Hostlist;
use serde::{Deserialize, Serialize};

use crate::overlay::endpoint;

/// flux-config-bootstrap(5).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Table {
    hosts: Vec<Host>,
    curve_cert: Option<String>,
    default_port: Option<u16>,
    default_bind: Option<String>,
    default_connect: Option<String>,
    enable_ipv6: bool,
}

/// One broker; in the table, all that its hostlist names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    /// Name the broker must have.
    #[serde(rename = "host")]
    pub(crate) name: String,
    /// What it listens on when it has children.
    pub(crate) bind: Option<String>,
    /// What its children connect to.
    pub(crate) connect: Option<String>,
}

/// The table, expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bootstrap {
    /// Brokers; the index is the rank.
    pub(crate) hosts: Vec<Host>,
    /// Path of the CURVE certificate.
    pub(crate) certificate: Option<String>,
    /// Whether sockets are IPv6.
    pub(crate) ipv6: bool,
}

impl Bootstrap {
    /// Names in rank order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.name.clone()).collect()
    }
}

impl Table {
    /// Expands the table for the broker named `hostname`.
    ///
    /// # Errors
    /// What makes Flux refuse it.
    pub(crate) fn expand(&self, hostname: &str) -> Result<Bootstrap, String> {
        let mut hosts = self.hosts()?;
        if hosts.is_empty() {
            hosts.push(Host { name: hostname.to_owned(), bind: None, connect: None });
        }
        if !hosts.iter().any(|host| host.name == hostname) {
            return Err(format!("{hostname} not found in hosts"));
        }
        if hosts.len() > 1 && self.curve_cert.is_none() {
            return Err("curve_cert must be defined for size > 1".to_owned());
        }
        for host in &mut hosts {
            self.complete(host).map_err(|error| format!("host {}: {error}", host.name))?;
        }
        let (certificate, ipv6) = (self.curve_cert.clone(), self.enable_ipv6);
        Ok(Bootstrap { hosts, certificate, ipv6 })
    }

    /// The hosts as they are listed; one named again only gains what it does not have yet.
    fn hosts(&self) -> Result<Vec<Host>, String> {
        let mut hosts: Vec<Host> = Vec::new();
        for entry in &self.hosts {
            let names = Hostlist::parse(&entry.name)
                .map_err(|_| "host key is not a valid RFC 29 hostlist".to_owned())?;
            for name in names.hosts() {
                let (bind, connect) = (entry.bind.clone(), entry.connect.clone());
                if let Some(known) = hosts.iter_mut().find(|host| host.name == name) {
                    known.bind = known.bind.take().or(bind);
                    known.connect = known.connect.take().or(connect);
                } else {
                    hosts.push(Host { name, bind, connect });
                }
            }
        }
        Ok(hosts)
    }

    /// Checks the name, and fills in the addresses.
    fn complete(&self, host: &mut Host) -> Result<(), String> {
        let is_label = |label: &str| {
            let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            (1..=63).contains(&label.len())
                && plain
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if !host.name.split('.').all(is_label) {
            return Err("is no domain name".to_owned());
        }
        let port = self.default_port.map_or_else(|| "-1".to_owned(), |port| port.to_string());
        let uri = |given: &Option<String>, default: &Option<String>| {
            let Some(template) = given.as_ref().or(default.as_ref()) else { return Ok(None) };
            let uri = template.replace("%h", &host.name).replace("%p", &port);
            match endpoint::host_and_port(&uri) {
                Some(_) => Ok(Some(uri)),
                None => Err(format!("{uri} is no tcp URI with a port")),
            }
        };
        let (bind, connect) =
            (uri(&host.bind, &self.default_bind)?, uri(&host.connect, &self.default_connect)?);
        (host.bind, host.connect) = (bind, connect);
        Ok(())
    }
}
