//! The `[resource]` table: what the brokers have, and how that is verified.

use std::collections::BTreeSet;

use nix::errno::Errno;
use serde_json::{Map, Value};

use super::unpack::{Kind, object, strict, text};
use crate::failure::strerror;
use crate::resources::{self, Nodes, Verify};
use crate::text::{duration, idset};

/// The table, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceConfig {
    /// Configured nodes; none means they are discovered.
    pub(crate) nodes: Option<Nodes>,
    /// How cores are verified.
    pub(crate) verify: Verify,
    /// Ranks that are never scheduled.
    pub(crate) excluded: BTreeSet<u32>,
}

const TABLE: &[(&str, Kind)] = &[
    ("path", Kind::Text),
    ("scheduling", Kind::Text),
    ("config", Kind::Any),
    ("verify", Kind::Any),
    ("exclude", Kind::Text),
    ("norestrict", Kind::Boolean),
    ("noverify", Kind::Boolean),
    ("no-update-watch", Kind::Boolean),
    ("rediscover", Kind::Boolean),
    ("journal-max", Kind::Integer),
    ("history", Kind::Text),
];

/// Why the module does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Flux's text.
    pub(crate) text: String,
    /// The error number it leaves to whoever loads the module.
    pub(crate) errno: Errno,
}

impl Refusal {
    fn new(errno: Errno, text: impl Into<String>) -> Self {
        Self { text: cut(text.into()), errno }
    }

    fn invalid(text: impl Into<String>) -> Self {
        Self::new(Errno::EINVAL, text)
    }

    /// Flux 0.88 says so whatever is wrong with the resources themselves.
    fn resources(text: impl Into<String>) -> Self {
        Self::new(Errno::ENOENT, text)
    }
}

/// Reads the table for the brokers named `hosts`.
///
/// # Errors
/// Whatever makes the resource module of Flux 0.88 refuse to start.
pub(crate) fn parse(config: &Value, hosts: &[String]) -> Result<ResourceConfig, Refusal> {
    let none =
        ResourceConfig { nodes: None, verify: Verify::AllowExtra, excluded: BTreeSet::new() };
    let Some(table) = config.get("resource") else { return Ok(none) };
    let fault = |error: String| {
        Refusal::invalid(format!("error parsing [resource] configuration: {error}"))
    };
    let table = object(table).map_err(fault)?;
    strict(table, TABLE).map_err(fault)?;
    let flag = |key: &str| table.get(key).and_then(Value::as_bool).unwrap_or(false);
    let found = configured(table)?;
    if text(table, "scheduling").is_some() && found.is_none() {
        let need = "resource.path or [resource.config]";
        return Err(Refusal::resources(format!("resource.scheduling requires {need}")));
    }
    if text(table, "history").is_some_and(|history| duration::parse(history).is_none()) {
        return Err(Refusal::invalid("invalid history time"));
    }
    let nodes = match found {
        None => None,
        Some(found) if config.get("bootstrap").is_some() => {
            let ranked = resources::rerank(&found, hosts);
            Some(ranked.map_err(|error| Refusal::invalid(format!("error reranking R: {error}")))?)
        }
        Some(found) => Some((0..).zip(found).collect()),
    };
    let verify = if flag("noverify") {
        Verify::Ignore
    } else {
        verify(table.get("verify")).map_err(Refusal::invalid)?
    };
    let excluded = exclude(text(table, "exclude"), hosts)
        .map_err(|error| Refusal::new(Errno::ECONNRESET, error))?;
    Ok(ResourceConfig { nodes, verify, excluded })
}

fn configured(table: &Map<String, Value>) -> Result<Option<Vec<resources::Node>>, Refusal> {
    match (table.get("config"), text(table, "path")) {
        (Some(entries), _) => resources::from_config(entries)
            .map(Some)
            .map_err(|error| format!("error parsing [resource.config] array: {error}")),
        // Every rank opens the file, though all but the leader have the leader's configuration.
        (None, Some(path)) => read(path).map(Some),
        (None, None) => Ok(None),
    }
    .map_err(Refusal::resources)
}

fn read(path: &str) -> Result<Vec<resources::Node>, String> {
    let content = std::fs::read_to_string(path).map_err(|error| {
        let reason = strerror(&error);
        format!("{}: unable to open {path}: {reason} on line -1", shortened(path))
    })?;
    let value: Value = serde_json::from_str(&content)
        .map_err(|error| format!("<stream>: {error} on line {}", error.line()))?;
    resources::from_json(&value).map_err(|error| format!("error parsing R: {error}"))
}

/// An error text as Flux keeps it: 159 bytes, and a `+` in place of what does not fit.
fn cut(text: String) -> String {
    const LONGEST: usize = 159;
    if text.len() <= LONGEST {
        return text;
    }
    format!("{}+", String::from_utf8_lossy(&text.as_bytes()[..LONGEST - 1]))
}

/// A path as the JSON library of Flux keeps it: 79 bytes, of a longer one the end.
fn shortened(path: &str) -> String {
    const LONGEST: usize = 79;
    if path.len() <= LONGEST {
        return path.to_owned();
    }
    let tail = path.len() - (LONGEST - 3);
    format!("...{}", String::from_utf8_lossy(&path.as_bytes()[tail..]))
}

fn verify(value: Option<&Value>) -> Result<Verify, String> {
    let unknown = |name: &str| format!("invalid verify mode '{name}'");
    match value {
        None | Some(Value::Bool(false)) => Ok(Verify::AllowExtra),
        Some(Value::Bool(true)) => Ok(Verify::Strict),
        Some(Value::Object(table)) => {
            let known = ["default", "hostname", "core", "gpu"].map(|key| (key, Kind::Text));
            strict(table, &known).map_err(|error| format!("resource.verify: {error}"))?;
            for mode in table.values().filter_map(Value::as_str) {
                Verify::from_name(mode).ok_or_else(|| unknown(mode))?;
            }
            let mode = text(table, "core").or_else(|| text(table, "default"));
            Ok(mode.and_then(Verify::from_name).unwrap_or(Verify::Strict))
        }
        Some(_) => Err("verify must be a table or boolean".to_owned()),
    }
}

fn exclude(text: Option<&str>, hosts: &[String]) -> Result<BTreeSet<u32>, String> {
    let Some(text) = text else { return Ok(BTreeSet::new()) };
    if let Some(ids) = idset::decode(text) {
        let fits = |id: &u32| usize::try_from(*id).is_ok_and(|id| id < hosts.len());
        return ids
            .iter()
            .all(fits)
            .then_some(ids)
            .ok_or_else(|| format!("exclude set {text} is out of range: Success"));
    }
    let fault = || format!("invalid exclude targets: {text}");
    let names = flux_contract::Hostlist::parse(text).map_err(|_| fault())?;
    let rank = |name: &String| (0..).zip(hosts).find(|(_, host)| *host == name);
    names.hosts().map(|name| rank(&name).map(|(rank, _)| rank).ok_or_else(fault)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hosts() -> Vec<String> {
        vec!["a0".to_owned(), "a1".to_owned()]
    }

    #[test]
    fn configured_hosts_must_be_the_bootstrap_hosts() {
        let config = json!({
            "bootstrap": {},
            "resource": {"config": [{"hosts": "a[0-3]", "cores": "0"}]},
        });
        let error = parse(&config, &hosts()).expect_err("refused");
        assert_eq!(
            error.text,
            "error reranking R: Number of hosts (2) is less than node count (4)"
        );
    }

    #[test]
    fn the_table_is_strict() {
        let error = parse(&json!({"resource": {"nope": 1}}), &hosts()).expect_err("refused");
        assert!(error.text.ends_with("1 object item(s) left unpacked: nope"));
        let entry = json!([{"hosts": "a0", "cores": "0", "nope": 1}]);
        let error = parse(&json!({"resource": {"config": entry}}), &hosts()).expect_err("refused");
        assert!(error.text.ends_with("config[0]: 1 object item(s) left unpacked: nope"));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named_with_its_reason() {
        let refusal = |path: &str| {
            parse(&json!({"resource": {"path": path}}), &hosts()).expect_err("refused")
        };
        let error = refusal("/nowhere/R");
        let reason = "No such file or directory on line -1";
        assert_eq!(error.text, format!("/nowhere/R: unable to open /nowhere/R: {reason}"));
        assert_eq!(error.errno, Errno::ENOENT);
        let long = refusal(&format!("/nowhere/{}", "a".repeat(88)));
        let (tail, head) = ("a".repeat(76), "a".repeat(53));
        assert_eq!(long.text, format!("...{tail}: unable to open /nowhere/{head}+"));
    }

    #[test]
    fn verification_and_exclusion_are_read() {
        let config = json!({"resource": {"noverify": true, "exclude": "a1"}});
        let parsed = parse(&config, &hosts()).expect("valid");
        assert_eq!(parsed.verify, Verify::Ignore);
        assert_eq!(parsed.excluded, BTreeSet::from([1]));
        let strict = parse(&json!({"resource": {"verify": {}}}), &hosts()).expect("valid");
        assert_eq!(strict.verify, Verify::Strict);
    }
}
