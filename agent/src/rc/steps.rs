//! What Flux's own `rc1.py` and `rc3.py` do besides loading and removing modules, with the order that they say.

use crate::rc::task::{Ranks, RcStep, Task};

/// The modules that `rc1.py` asks for, by name or by service.
pub(crate) const RC1_MODULES: [&str; 18] = [
    "content",
    "heartbeat",
    "cron",
    "content-backing",
    "kvs",
    "kvs-watch",
    "sdbus",
    "sdbus-sys",
    "sdexec",
    "sdmon",
    "resource",
    "job-manager",
    "job-list",
    "job-info",
    "job-ingest",
    "job-exec",
    "sched",
    "feasibility",
];

/// Attributes of the broker on which steps depend (flux-broker-attributes(7)).
pub(crate) const RESTORE: &str = "content.restore";
pub(crate) const DUMP: &str = "content.dump";
pub(crate) const CRON_DIRECTORY: &str = "cron.directory";
pub(crate) const BACKING_MODULE: &str = "content.backing-module";
pub(crate) const RECOVERY: &str = "broker.recovery-mode";

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Those of `rc1.py`.
pub(crate) fn rc1() -> Vec<Task> {
    let restores = |task| Task { needs_attribute: Some(RESTORE), ..task };
    vec![
        restores(Task {
            before: names(&["content-backing"]),
            needs: names(&["content-backing"]),
            ..Task::step("check-restore", RcStep::CheckRestore)
        }),
        restores(Task {
            before: names(&["kvs"]),
            after: names(&["content-backing", "check-restore"]),
            requires: names(&["check-restore", "content-backing"]),
            needs: names(&["content-backing", "check-restore"]),
            ..Task::step("restore", RcStep::Restore)
        }),
        Task {
            requires: names(&["kvs"]),
            after: names(&["content-backing", "kvs"]),
            needs: names(&["content-backing"]),
            ..Task::step("post-start-event", RcStep::PostStartEvent)
        },
        Task {
            after: names(&["post-start-event"]),
            requires: names(&["post-start-event"]),
            needs: names(&["content-backing"]),
            ..Task::step("check-clean-shutdown", RcStep::CheckCleanShutdown)
        },
        Task {
            before: names(&["kvs"]),
            after: names(&["content-backing", "restore"]),
            requires: names(&["content-backing"]),
            needs: names(&["content-backing"]),
            ..Task::step("fsck", RcStep::Fsck)
        },
        Task {
            after: names(&["cron"]),
            needs: names(&["cron"]),
            needs_attribute: Some(CRON_DIRECTORY),
            ..Task::step("cron-load", RcStep::CronLoad)
        },
        Task::step("push-cleanup", RcStep::PushCleanup),
        Task {
            ranks: Ranks::All,
            after: names(&["*"]),
            ..Task::step("run-all-rc1", RcStep::Scripts)
        },
    ]
}

/// Those of `rc3.py`.
pub(crate) fn rc3() -> Vec<Task> {
    vec![
        Task {
            ranks: Ranks::All,
            before: names(&["*"]),
            ..Task::step("run-all-rc3", RcStep::Scripts)
        },
        Task {
            before: names(&["kvs"]),
            needs: names(&["kvs"]),
            ..Task::step("post-finish-event", RcStep::PostFinishEvent)
        },
        Task {
            after: names(&["content-flush"]),
            before: names(&["content-backing"]),
            needs_attribute: Some(DUMP),
            ..Task::step("content-dump", RcStep::ContentDump)
        },
        Task {
            after: names(&["kvs"]),
            before: names(&["content-dump", "content-backing"]),
            needs: names(&["content-backing"]),
            ..Task::step("content-flush", RcStep::ContentFlush)
        },
    ]
}
