//! The other tables: which are strict, and what is wrong with them.

use nix::errno::Errno;
use serde_json::Value;

use super::unpack::{Kind, kinds, object, strict, text};
use crate::text::duration;

/// `[access]`: who may talk to the broker's socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// Other users may connect as guests.
    pub(crate) guests: bool,
    /// Root acts as the owner.
    pub(crate) root_is_owner: bool,
}

/// Reads `[access]`; the error is Flux's text.
pub(crate) fn access(config: &Value) -> Result<Access, String> {
    let Some(table) = config.get("access") else { return Ok(Access::default()) };
    let known = [
        ("allow-guest-user", Kind::Boolean),
        ("allow-root-owner", Kind::Boolean),
        ("private-mode", Kind::Boolean),
        ("roles", Kind::Any),
    ];
    let fault = |error| format!("error parsing [access] configuration: {error}");
    let table = object(table).map_err(fault)?;
    strict(table, &known).map_err(fault)?;
    let flag = |key: &str| table.get(key).and_then(Value::as_bool).unwrap_or(false);
    Ok(Access { guests: flag("allow-guest-user"), root_is_owner: flag("allow-root-owner") })
}

/// Checks the known keys of `[tbon]`, a lenient table; the error is Flux's text.
pub(crate) fn tbon(config: &Value) -> Result<(), String> {
    let Some(table) = config.get("tbon") else { return Ok(()) };
    let fault = |error| format!("Config file error [tbon]: {error}");
    let table = object(table).map_err(fault)?;
    let durations = ["torpid_min", "torpid_max", "tcp_user_timeout", "connect_timeout"];
    let mut known = vec![
        ("topo", Kind::Text),
        ("interface-hint", Kind::Text),
        ("zmqdebug", Kind::Integer),
        ("zmq_io_threads", Kind::Integer),
        ("child_rcvhwm", Kind::Integer),
    ];
    known.extend(durations.map(|key| (key, Kind::Text)));
    kinds(table, &known).map_err(fault)?;
    for key in durations {
        if text(table, key).is_some_and(|value| duration::parse(value).is_none()) {
            return Err(format!("Config file error parsing tbon.{key}"));
        }
    }
    Ok(())
}

/// One module's complaint about the configuration during rc1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// Module that complains.
    pub(crate) module: &'static str,
    /// What it says.
    pub(crate) text: String,
    /// The error number it leaves to whoever loads it.
    pub(crate) errno: Errno,
}

impl Complaint {
    pub(crate) fn new(module: &'static str, text: impl Into<String>) -> Self {
        Self { module, text: text.into(), errno: Errno::EINVAL }
    }
}

/// Checks the tables that rc1's modules read, apart from `[resource]`.
pub(crate) fn modules(config: &Value) -> Result<(), Complaint> {
    lenient(config)?;
    let known = [("period", Kind::Text), ("timeout", Kind::Text), ("warn_thresh", Kind::Integer)];
    if let Some(table) = config.get("heartbeat") {
        object(table).and_then(|found| strict(found, &known)).map_err(|error| {
            let text = format!("error reading [heartbeat] config table: {error}");
            Complaint::new("heartbeat", text)
        })?;
    }
    let policy = [
        ("jobspec", Kind::Any),
        ("limits", Kind::Any),
        ("access", Kind::Any),
        ("scheduler", Kind::Any),
    ];
    check(config, "policy", "job-manager", &policy)?;
    if let Some(limits) = config.pointer("/policy/limits") {
        let known = [("duration", Kind::Any), ("job-size", Kind::Any)];
        object(limits).and_then(|table| strict(table, &known)).map_err(|error| {
            Complaint::new("job-manager", format!("error parsing policy.limits: {error}"))
        })?;
    }
    queues(config)
}

fn queues(config: &Value) -> Result<(), Complaint> {
    let Some(queues) = config.get("queues") else { return Ok(()) };
    let fault = |error| Complaint::new("job-manager", format!("error parsing queues: {error}"));
    let known = [("policy", Kind::Any), ("requires", Kind::Any)];
    for queue in object(queues).map_err(fault)?.values() {
        object(queue).and_then(|table| strict(table, &known)).map_err(fault)?;
    }
    Ok(())
}

fn check(
    config: &Value,
    table: &str,
    module: &'static str,
    known: &[(&str, Kind)],
) -> Result<(), Complaint> {
    let Some(value) = config.get(table) else { return Ok(()) };
    object(value).and_then(|found| strict(found, known)).map_err(|error| {
        Complaint::new(module, format!("error parsing [{table}] configuration: {error}"))
    })
}

/// Tables whose unknown keys are ignored, but whose known keys have a type.
fn lenient(config: &Value) -> Result<(), Complaint> {
    type Table = (&'static str, &'static str, &'static [(&'static str, Kind)]);
    const TABLES: &[Table] = &[
        (
            "exec",
            "job-exec",
            &[
                ("imp", Kind::Text),
                ("job-shell", Kind::Text),
                ("service", Kind::Text),
                ("method", Kind::Text),
                ("kill-timeout", Kind::Text),
                ("max-kill-count", Kind::Integer),
            ],
        ),
        ("ingest", "job-ingest", &[("batch-count", Kind::Integer)]),
        ("kvs", "kvs", &[("gc-threshold", Kind::Integer)]),
        ("systemd", "sdbus", &[("enable", Kind::Boolean)]),
    ];
    for (table, module, known) in TABLES {
        let Some(value) = config.get(*table) else { continue };
        object(value)
            .and_then(|found| kinds(found, known))
            .map_err(|error| Complaint::new(module, format!("[{table}]: {error}")))?;
    }
    Ok(())
}

/// Configuration that real Flux accepts and that would change what the stand-in cannot do.
pub(crate) fn unsupported(config: &Value) -> Option<&'static str> {
    let modules = ["modules", "fake-resources", "queues", "policy"];
    if let Some(table) = modules.into_iter().find(|table| config.get(table).is_some()) {
        return Some(table);
    }
    let sdexec = config.pointer("/exec/service").and_then(Value::as_str) == Some("sdexec");
    (sdexec || config.pointer("/exec/imp").is_some()).then_some("exec.imp")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn access_is_strict() {
        let config = json!({"access": {"allow-guest-user": true, "x": 1}});
        assert_eq!(
            access(&config).expect_err("refused"),
            "error parsing [access] configuration: 1 object item(s) left unpacked: x"
        );
        let config = json!({"access": {"allow-root-owner": "yes"}});
        assert!(
            access(&config).expect_err("refused").ends_with("Expected true or false, got string")
        );
        let config = json!({"access": {"allow-root-owner": true}});
        assert_eq!(access(&config), Ok(Access { guests: false, root_is_owner: true }));
    }

    #[test]
    fn tbon_ignores_unknown_keys_but_not_wrong_types() {
        assert_eq!(tbon(&json!({"tbon": {"x": 1}})), Ok(()));
        assert_eq!(
            tbon(&json!({"tbon": {"connect_timeout": 5}})),
            Err("Config file error [tbon]: Expected string, got integer".to_owned())
        );
    }

    #[test]
    fn unknown_tables_are_nobodys_business() {
        assert_eq!(modules(&json!({"foo": {"x": 1}, "archive": {}})), Ok(()));
        assert!(modules(&json!({"queues": {"a": {"x": 1}}})).is_err());
    }
}
