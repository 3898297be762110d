//! Broker attributes: which exist, which may be set on the command line, and their values.

use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// May be set on the command line only by Flux itself.
    ReadOnly,
    /// May be set at start.
    Start,
    /// May be changed at run time.
    Runtime,
}

/// Every attribute of Flux 0.88 (flux-broker-attributes(7) and the broker's own table).
const KNOWN: &[(&str, Rule)] = &[
    ("rank", Rule::ReadOnly),
    ("size", Rule::ReadOnly),
    ("version", Rule::ReadOnly),
    ("rundir", Rule::Start),
    ("rundir-cleanup", Rule::Start),
    ("statedir", Rule::Start),
    ("statedir-cleanup", Rule::Start),
    ("security.owner", Rule::ReadOnly),
    ("local-uri", Rule::Start),
    ("parent-uri", Rule::ReadOnly),
    ("instance-level", Rule::ReadOnly),
    ("jobid", Rule::ReadOnly),
    ("jobid-path", Rule::ReadOnly),
    ("parent-kvs-namespace", Rule::ReadOnly),
    ("hostlist", Rule::Start),
    ("hostname", Rule::Start),
    ("broker.mapping", Rule::ReadOnly),
    ("broker.critical-ranks", Rule::Start),
    ("broker.boot-method", Rule::Start),
    ("broker.pid", Rule::ReadOnly),
    ("broker.quorum", Rule::Start),
    ("broker.quorum-warn", Rule::Start),
    ("broker.shutdown-warn", Rule::Start),
    ("broker.shutdown-timeout", Rule::Start),
    ("broker.cleanup-timeout", Rule::Start),
    ("broker.unload-builtins-timeout", Rule::Start),
    ("broker.rc1_path", Rule::Start),
    ("broker.rc3_path", Rule::Start),
    ("broker.rc2_none", Rule::Start),
    ("broker.rc2_pgrp", Rule::Start),
    ("broker.exit-restart", Rule::Runtime),
    ("broker.module-nopanic", Rule::Runtime),
    ("broker.starttime", Rule::ReadOnly),
    ("broker.sd-notify", Rule::Start),
    ("broker.sd-stop-timeout", Rule::Start),
    ("broker.exit-norestart", Rule::Start),
    ("broker.recovery-mode", Rule::Start),
    ("broker.uuid", Rule::ReadOnly),
    ("conf.shell_initrc", Rule::Runtime),
    ("conf.shell_pluginpath", Rule::Runtime),
    ("config.path", Rule::Start),
    ("tbon.topo", Rule::Start),
    ("tbon.descendants", Rule::ReadOnly),
    ("tbon.level", Rule::ReadOnly),
    ("tbon.maxlevel", Rule::ReadOnly),
    ("tbon.endpoint", Rule::ReadOnly),
    ("tbon.parent-endpoint", Rule::ReadOnly),
    ("tbon.zmqdebug", Rule::Start),
    ("tbon.zmq_io_threads", Rule::Start),
    ("tbon.child_rcvhwm", Rule::Start),
    ("tbon.prefertcp", Rule::Start),
    ("tbon.interface-hint", Rule::Runtime),
    ("tbon.torpid_min", Rule::Start),
    ("tbon.torpid_max", Rule::Start),
    ("tbon.tcp_user_timeout", Rule::Start),
    ("tbon.connect_timeout", Rule::Start),
    ("log-ring-size", Rule::Start),
    ("log-forward-level", Rule::Start),
    ("log-critical-level", Rule::Start),
    ("log-filename", Rule::Start),
    ("log-syslog-enable", Rule::Start),
    ("log-syslog-level", Rule::Start),
    ("log-stderr-mode", Rule::Start),
    ("log-stderr-level", Rule::Runtime),
    ("log-level", Rule::Start),
    ("content.backing-module", Rule::Start),
    ("content.hash", Rule::Start),
    ("content.dump", Rule::Runtime),
    ("content.restore", Rule::Runtime),
    ("cron.directory", Rule::Start),
    ("tbon.fanout", Rule::Start),
];

/// Attributes real Flux knows and whose effect the stand-in lacks.
const UNSUPPORTED: &[&str] = &[
    "broker.rc1_path",
    "broker.rc3_path",
    "broker.recovery-mode",
    "content.backing-module",
    "content.hash",
    "log-filename",
    "log-syslog-enable",
    "tbon.prefertcp",
];

fn rule(name: &str) -> Option<Rule> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, rule)| *rule)
}

/// Why an attribute cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AttributeError {
    /// No such attribute.
    #[error("{0}: unknown attribute")]
    Unknown(String),
    /// Only Flux itself sets it.
    #[error("{0}: attribute may not be set on the command line")]
    ReadOnly(String),
    /// Real Flux would take it.
    #[error("attribute {0}")]
    NotSimulated(String),
    /// It may not change any more.
    #[error("{0}: attribute may not be updated")]
    Fixed(String),
}

/// Attribute values; an attribute may exist without a value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes {
    values: BTreeMap<String, Option<String>>,
}

impl Attributes {
    /// Takes `NAME[=VALUE]` from the command line.
    pub(crate) fn set_from_command_line(&mut self, text: &str) -> Result<(), AttributeError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        match rule(name) {
            None => Err(AttributeError::Unknown(name.to_owned())),
            Some(Rule::ReadOnly) => Err(AttributeError::ReadOnly(name.to_owned())),
            Some(_) if UNSUPPORTED.contains(&name) => {
                Err(AttributeError::NotSimulated(name.to_owned()))
            }
            Some(_) => {
                self.values.insert(name.to_owned(), value);
                Ok(())
            }
        }
    }

    /// Changes an attribute at run time.
    pub(crate) fn update(
        &mut self,
        name: &str,
        value: &str,
        force: bool,
    ) -> Result<(), AttributeError> {
        match rule(name) {
            None => Err(AttributeError::Unknown(name.to_owned())),
            Some(Rule::Runtime) => {
                self.set(name, value);
                Ok(())
            }
            Some(_) if force => Err(AttributeError::NotSimulated(name.to_owned())),
            Some(_) => Err(AttributeError::Fixed(name.to_owned())),
        }
    }

    /// Sets a value, whatever the rules.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.values.insert(name.to_owned(), Some(value.into()));
    }

    /// Sets a value unless the attribute exists.
    pub(crate) fn set_default(&mut self, name: &str, value: impl Into<String>) {
        if !self.exists(name) {
            self.set(name, value);
        }
    }

    /// Drops an attribute.
    pub(crate) fn remove(&mut self, name: &str) {
        self.values.remove(name);
    }

    /// Whether it exists, with or without a value.
    pub(crate) fn exists(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Its value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(|value| value.as_deref())
    }

    /// All names and values.
    pub(crate) fn all(&self) -> &BTreeMap<String, Option<String>> {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_writable_attributes_are_taken() {
        let mut attributes = Attributes::default();
        assert_eq!(attributes.set_from_command_line("hostname=a"), Ok(()));
        assert_eq!(attributes.set_from_command_line("broker.rc2_none"), Ok(()));
        assert!(
            attributes.exists("broker.rc2_none") && attributes.get("broker.rc2_none").is_none()
        );
        let refused = |text: &str| {
            Attributes::default().set_from_command_line(text).expect_err("refused").to_string()
        };
        assert_eq!(refused("nope=1"), "nope: unknown attribute");
        assert_eq!(refused("rank=1"), "rank: attribute may not be set on the command line");
    }
}
