//! The command that starts the broker (flux-start(1), flux-broker(1)).

use crate::plan::pod::Pod;
use crate::plan::step::Role;
use flux_contract::Workload;
use std::time::Duration;

/// `duration` in Flux Standard Duration (RFC 23).
pub(super) fn flux_duration(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

/// Program and options, without the quorum. No broker has an initial program: PID 1 starts the lead's command.
///
/// `tbon.fanout` is not among the options: any value would switch the topology of the
/// configuration off.
pub(super) fn command(pod: Pod<'_>) -> Vec<String> {
    let (config, layout) = (pod.config, &pod.config.layout);
    let broker = &config.broker;
    let mut words = vec![pod.flux(), "start".to_owned()];
    if let Some(wrap) = &broker.wrap {
        words.push(format!("--wrap={wrap}"));
    }
    words.push(format!("-o--config-path={}", layout.broker_config_dir().display()));
    let mut set = |name: &str, value: &str| words.push(format!("-S{name}={value}"));
    set("cron.directory", &layout.cron_dir().display().to_string());
    set("rundir", &layout.run_dir().display().to_string());
    set("statedir", &layout.state_dir().display().to_string());
    if broker.local_socket {
        set("local-uri", &layout.local_uri());
    }
    if let Some(timeout) = &broker.connect_timeout {
        set("tbon.connect_timeout", timeout);
    }
    if let Some(topology) = &broker.topology {
        set("tbon.topo", topology);
    }
    if broker.zeromq_debug {
        set("tbon.zmqdebug", "1");
    }
    let budget = pod.budget();
    set("broker.cleanup-timeout", &flux_duration(budget.cleanup));
    set("broker.shutdown-timeout", &flux_duration(budget.leave));
    set("log-stderr-level", &broker.log_level.to_string());
    // Each pod's log shows its own broker.
    set("log-stderr-mode", "local");
    if pod.role == Role::Lead || matches!(config.workload, Workload::Interactive { .. }) {
        words.push("-Sbroker.rc2_none".to_owned());
    }
    words
}
