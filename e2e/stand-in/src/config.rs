//! Broker configuration. Tables in which Flux refuses unknown keys are read as strictly here; keys that
//! only real Flux understands are unknown as well.

use crate::output::{Failure, strerror};
use crate::resources;
use flux_protocol::Hostlist;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Value;

#[derive(Deserialize)]
pub(crate) struct Config {
    #[serde(default)]
    pub(crate) access: Access,
    #[serde(default)]
    pub(crate) bootstrap: Bootstrap,
    #[serde(default)]
    pub(crate) exec: Exec,
    #[serde(default)]
    pub(crate) resource: resources::Table,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// flux-config-access(5).
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Access {
    /// Other users may connect as guests, of whom there are none here.
    #[serde(rename = "allow-guest-user")]
    _allow_guest_user: bool,
    pub(crate) allow_root_owner: bool,
}

/// flux-config-exec(5).
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Exec {
    pub(crate) kill_timeout: Option<String>,
}

/// Who the brokers are, in rank order, and how they reach each other: flux-config-bootstrap(5).
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Bootstrap {
    /// All that a hostlist names, until [`Bootstrap::expand`] makes one of each.
    pub(crate) hosts: Vec<Host>,
    pub(crate) curve_cert: Option<String>,
    default_port: Option<u16>,
    default_bind: Option<String>,
    default_connect: Option<String>,
    pub(crate) enable_ipv6: bool,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    #[serde(rename = "host")]
    pub(crate) name: String,
    /// What it listens on when it has children.
    pub(crate) bind: Option<String>,
    /// What its children connect to.
    pub(crate) connect: Option<String>,
}

/// Tables of real Flux that would change the behaviour here. Other tables are ignored.
const NOT_SIMULATED: [&str; 7] =
    ["modules", "fake-resources", "heartbeat", "policy", "queues", "systemd", "tbon"];

/// The configuration at `path`: a file, or a directory with one `*.toml`.
pub(crate) fn load(path: &str) -> Result<Config, Failure> {
    let fault = |error: std::io::Error| {
        Failure::new(format!("broker: Config file error: {path}: {}", strerror(&error)))
    };
    let mut files = vec![PathBuf::from(path)];
    if std::fs::metadata(path).map_err(fault)?.is_dir() {
        let entries = std::fs::read_dir(path).map_err(fault)?;
        files = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|suffix| suffix == "toml"));
    }
    let [file] = files.as_slice() else {
        return Err(Failure::not_simulated(&format!("more or less than one file in {path}")));
    };
    let text = std::fs::read_to_string(file).map_err(fault)?;
    let config: Config = toml::from_str(&text).map_err(|error| {
        Failure::new(format!("broker: Config file error: {}: {error}", file.display()))
    })?;
    let table = NOT_SIMULATED.into_iter().find(|table| config.others.contains_key(*table));
    let discovery = config.resource.path.is_empty().then_some("resource without a path");
    match table.or(discovery) {
        Some(what) => Err(Failure::not_simulated(&format!("configuration of {what}"))),
        None => Ok(config),
    }
}

impl Bootstrap {
    /// Expands the table for the broker named `hostname`. The error is what makes Flux refuse it.
    pub(crate) fn expand(mut self, hostname: &str) -> Result<Self, String> {
        let hosts = self.hosts.iter().map(|entry| {
            let names = Hostlist::parse(&entry.name)
                .map_err(|_| "host key is not a valid RFC 29 hostlist".to_owned())?;
            Ok(names.hosts().map(|name| Host { name, ..entry.clone() }).collect::<Vec<_>>())
        });
        self.hosts = hosts.collect::<Result<Vec<_>, String>>()?.concat();
        if self.hosts.is_empty() {
            self.hosts.push(Host { name: hostname.to_owned(), bind: None, connect: None });
        }
        if !self.hosts.iter().any(|host| host.name == hostname) {
            return Err(format!("{hostname} not found in hosts"));
        }
        if self.hosts.len() > 1 && self.curve_cert.is_none() {
            return Err("curve_cert must be defined for size > 1".to_owned());
        }
        for host in &mut self.hosts {
            let uri = |given: &Option<String>, default: &Option<String>| {
                let Some(template) = given.as_ref().or(default.as_ref()) else { return Ok(None) };
                let port = self.default_port.map_or_else(|| "-1".to_owned(), |it| it.to_string());
                let uri = template.replace("%h", &host.name).replace("%p", &port);
                let fault = format!("host {}: {uri} is no tcp URI with a port", host.name);
                host_and_port(&uri).map(|_| Some(uri.clone())).ok_or(fault)
            };
            let bind = uri(&host.bind, &self.default_bind)?;
            host.connect = uri(&host.connect, &self.default_connect)?;
            host.bind = bind;
        }
        Ok(self)
    }
}

/// Host and port of a `tcp://` URI; the port is a number.
pub(crate) fn host_and_port(uri: &str) -> Option<(&str, u16)> {
    let (host, port) = uri.strip_prefix("tcp://")?.rsplit_once(':')?;
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port: u16 = digits.then(|| port.parse().ok()).flatten()?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    (port > 0 && !host.is_empty()).then_some((host, port))
}
