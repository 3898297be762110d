//! The `[bootstrap]` table: who the brokers are, in rank order, and how they reach each other.

use std::collections::BTreeMap;

use flux_contract::Hostlist;
use serde_json::{Map, Value};

use super::unpack::{Kind, object, strict, text};

/// Longest `bind` or `connect` URI after substitution, in bytes.
const LONGEST_URI: usize = 2048;

/// One broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// Name the broker must have.
    pub(crate) name: String,
    /// What it listens on when it has children.
    pub(crate) bind: Option<String>,
    /// What its children connect to.
    pub(crate) connect: Option<String>,
    /// Name of its parent, where one is given.
    pub(crate) parent: Option<String>,
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

const TABLE: &[(&str, Kind)] = &[
    ("hosts", Kind::Any),
    ("curve_cert", Kind::Text),
    ("default_port", Kind::Integer),
    ("default_bind", Kind::Text),
    ("default_connect", Kind::Text),
    ("enable_ipv6", Kind::Boolean),
];

const ENTRY: &[(&str, Kind)] =
    &[("host", Kind::Text), ("bind", Kind::Text), ("connect", Kind::Text), ("parent", Kind::Text)];

/// Reads the table for the broker named `hostname`; `None` where there is none.
///
/// The error is Flux's text after `Config file error [bootstrap]: `.
pub(crate) fn parse(config: &Value, hostname: &str) -> Result<Option<Bootstrap>, String> {
    let Some(table) = config.get("bootstrap") else { return Ok(None) };
    let table = object(table)?;
    strict(table, TABLE)?;
    let port = table.get("default_port").and_then(Value::as_i64).unwrap_or(-1);
    if port != -1 && !(0..=65535).contains(&port) {
        return Err("default_port must be in the range of 0-65535".to_owned());
    }
    let defaults = Defaults {
        port,
        bind: text(table, "default_bind"),
        connect: text(table, "default_connect"),
    };
    let hosts = parse_hosts(table.get("hosts"), &defaults, hostname)?;
    let certificate = text(table, "curve_cert").map(str::to_owned);
    if hosts.len() > 1 && certificate.is_none() {
        return Err("curve_cert must be defined for size > 1".to_owned());
    }
    let ipv6 = table.get("enable_ipv6").and_then(Value::as_bool).unwrap_or(false);
    Ok(Some(Bootstrap { hosts, certificate, ipv6 }))
}

struct Defaults<'a> {
    port: i64,
    bind: Option<&'a str>,
    connect: Option<&'a str>,
}

fn parse_hosts(
    hosts: Option<&Value>,
    defaults: &Defaults<'_>,
    hostname: &str,
) -> Result<Vec<Host>, String> {
    let entries = match hosts {
        None => &Vec::new(),
        Some(value) => value.as_array().ok_or("must be array type")?,
    };
    if entries.is_empty() {
        let name = hostname.to_owned();
        return Ok(vec![Host { name, bind: None, connect: None, parent: None }]);
    }
    let (order, merged) = merge_entries(entries)?;
    let mut parsed = Vec::new();
    for (index, name) in order.iter().enumerate() {
        let host = parse_entry(name, &merged, defaults)
            .map_err(|error| format!("invalid hosts[{index}]: {error}"))?;
        parsed.push(host);
    }
    if !merged.contains_key(hostname) {
        return Err(format!("{hostname} not found in hosts"));
    }
    Ok(parsed)
}

type Entries = BTreeMap<String, Map<String, Value>>;

/// Expands the host lists; a host named again only gains the keys it does not have yet.
fn merge_entries(entries: &[Value]) -> Result<(Vec<String>, Entries), String> {
    let mut order = Vec::new();
    let mut merged = Entries::new();
    for (index, entry) in entries.iter().enumerate() {
        let fault = |error: &str| format!("invalid hosts[{index}]: {error}");
        let table = object(entry).map_err(|error| fault(&error))?;
        let names = match table.get("host") {
            None => return Err(fault("Object item not found: host")),
            Some(Value::String(names)) => names,
            Some(_) => {
                let error = super::unpack::kinds(table, ENTRY).err().unwrap_or_default();
                return Err(fault(&error));
            }
        };
        let names =
            Hostlist::parse(names).map_err(|_| fault("host key is not a valid RFC 29 hostlist"))?;
        for name in names.hosts() {
            let known = merged.entry(name.clone()).or_insert_with(|| {
                order.push(name.clone());
                Map::new()
            });
            for (key, value) in table {
                known.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    Ok((order, merged))
}

fn parse_entry(name: &str, all: &Entries, defaults: &Defaults<'_>) -> Result<Host, String> {
    let table = all.get(name).ok_or("host vanished")?;
    strict(table, ENTRY)?;
    let parent = text(table, "parent");
    match parent {
        Some(parent) if parent == name => return Err("parent key refers to self".to_owned()),
        Some(parent) if !all.contains_key(parent) => {
            return Err("parent key refers to unknown host".to_owned());
        }
        _ => {}
    }
    check_domain_name(name).map_err(|error| format!("{name} {error}"))?;
    let uri = |key: &str, default: Option<&str>| -> Result<Option<String>, String> {
        let Some(template) = text(table, key).or(default) else { return Ok(None) };
        let uri = substitute(template, name, defaults.port);
        if uri.len() > LONGEST_URI {
            return Err(format!("{key} key is too long"));
        }
        check_uri(&uri).map_err(|error| format!("{key} key {uri} {error}"))?;
        Ok(Some(uri))
    };
    Ok(Host {
        name: name.to_owned(),
        bind: uri("bind", defaults.bind)?,
        connect: uri("connect", defaults.connect)?,
        parent: parent.map(str::to_owned),
    })
}

/// RFC 1035 as Flux checks it: letters, digits and inner dashes.
fn check_domain_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > 253 {
        return Err("domain must be 1-253 characters".to_owned());
    }
    for label in name.split('.').filter(|label| !label.is_empty()) {
        if label.len() > 63 {
            return Err("must be 1-63 characters".to_owned());
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err("domain label must not start or end with '-'".to_owned());
        }
        if let Some(bad) = label.bytes().find(|b| !b.is_ascii_alphanumeric() && *b != b'-') {
            let shown = char::from(bad);
            return Err(format!("domain label contains invalid character '{shown}' ({bad:#x})"));
        }
    }
    Ok(())
}

fn substitute(template: &str, host: &str, port: i64) -> String {
    let mut uri = String::new();
    let mut letters = template.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            uri.push(letter);
            continue;
        }
        match letters.next() {
            Some('h') => uri.push_str(host),
            Some('p') => uri.push_str(&port.to_string()),
            Some('%') => uri.push('%'),
            Some(other) => uri.extend(['%', other]),
            None => {}
        }
    }
    uri
}

fn check_uri(uri: &str) -> Result<(), String> {
    if !uri.contains("://") {
        return Err("has no URI scheme".to_owned());
    }
    if uri.contains(":*") {
        return Err("contains 0MQ port wildcard".to_owned());
    }
    if let Some(path) = uri.strip_prefix("ipc://") {
        return match path.len() {
            0 => Err("socket path is empty".to_owned()),
            1..=108 => Ok(()),
            _ => Err("socket path must not exceed 108 bytes".to_owned()),
        };
    }
    match uri.strip_prefix("tcp://") {
        Some("") => Err("address is empty".to_owned()),
        Some(_) => Ok(()),
        None => Err("URI scheme must be tcp or ipc".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(table: &Value) -> String {
        parse(&json!({ "bootstrap": table }), "a0").expect_err("refused")
    }

    #[test]
    fn hosts_expand_in_order_and_repeats_add_keys() {
        let config = json!({"bootstrap": {
            "curve_cert": "/c", "default_port": 8050,
            "default_bind": "tcp://*:%p", "default_connect": "tcp://%h:%p%%",
            "hosts": [{"host": "a[0-2]"}, {"host": "a1", "parent": "a0"}],
        }});
        let parsed = parse(&config, "a2").expect("valid").expect("present");
        assert_eq!(parsed.names(), ["a0", "a1", "a2"]);
        assert_eq!(parsed.hosts[1].parent.as_deref(), Some("a0"));
        assert_eq!(parsed.hosts[1].bind.as_deref(), Some("tcp://*:8050"));
        assert_eq!(parsed.hosts[2].connect.as_deref(), Some("tcp://a2:8050%"));
    }

    #[test]
    fn faults_have_the_text_of_real_flux() {
        let hosts = |entry: Value| json!({ "hosts": [entry], "curve_cert": "/c" });
        let cases = [
            (json!({"nope": 1}), "1 object item(s) left unpacked: nope"),
            (json!({"hosts": "a"}), "must be array type"),
            (json!({"curve_cert": 1}), "Expected string, got integer"),
            (json!({"default_port": 70000}), "default_port must be in the range of 0-65535"),
            (json!({"hosts": [{"host": "a[0-1]"}]}), "curve_cert must be defined for size > 1"),
            (hosts(json!({"host": "b"})), "a0 not found in hosts"),
            (
                hosts(json!({"host": "a0", "x": 1})),
                "invalid hosts[0]: 1 object item(s) left unpacked: x",
            ),
            (
                hosts(json!({"host": "a_0"})),
                "invalid hosts[0]: a_0 domain label contains invalid character '_' (0x5f)",
            ),
            (
                hosts(json!({"host": "a0", "bind": "tcp://*:*"})),
                "invalid hosts[0]: bind key tcp://*:* contains 0MQ port wildcard",
            ),
            (
                hosts(json!({"host": "a0", "parent": "a0"})),
                "invalid hosts[0]: parent key refers to self",
            ),
            (
                hosts(json!({"host": "a0", "connect": "udp://x:1"})),
                "invalid hosts[0]: connect key udp://x:1 URI scheme must be tcp or ipc",
            ),
            (hosts(json!({})), "invalid hosts[0]: Object item not found: host"),
            (
                hosts(json!({"host": "a[0"})),
                "invalid hosts[0]: host key is not a valid RFC 29 hostlist",
            ),
        ];
        for (table, expected) in cases {
            assert_eq!(fault(&table), expected);
        }
    }

    #[test]
    fn no_hosts_means_a_singleton() {
        let parsed = parse(&json!({"bootstrap": {}}), "me").expect("valid").expect("present");
        assert_eq!(parsed.names(), ["me"]);
        assert_eq!(parse(&json!({}), "me").expect("valid"), None);
    }
}
