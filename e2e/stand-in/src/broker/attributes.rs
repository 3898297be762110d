//! Broker attributes: which may be set on the command line, and their values.

use std::collections::BTreeMap;

use crate::failure::Failure;

/// May be set at start (flux-broker-attributes(7)). Flux knows many more.
const SETTABLE: &str = "broker.cleanup-timeout broker.quorum broker.rc2_none broker.shutdown-timeout \
    content.dump content.restore cron.directory hostname local-uri log-stderr-level log-stderr-mode rundir \
    statedir tbon.connect_timeout tbon.topo tbon.zmqdebug";

/// Set by Flux itself only.
const READ_ONLY: &str = "broker.pid hostlist instance-level rank security.owner size";

/// Attribute values; an attribute may exist without a value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes(BTreeMap<String, String>);

impl Attributes {
    /// Takes `NAME[=VALUE]` from the command line.
    pub(crate) fn set_from_command_line(&mut self, text: &str) -> Result<(), Failure> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let is_of = |list: &str| list.split_whitespace().any(|known| known == name);
        if is_of(READ_ONLY) {
            let text = format!("broker: {name}: attribute may not be set on the command line");
            return Err(Failure::new(text));
        }
        if !is_of(SETTABLE) {
            return Err(Failure::not_simulated(&format!("attribute {name}")));
        }
        self.set(name, value);
        Ok(())
    }

    /// Sets a value, whatever the rules.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Whether it exists, with or without a value.
    pub(crate) fn exists(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Its value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
