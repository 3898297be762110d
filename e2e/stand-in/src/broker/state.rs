//! The broker's states and what leads from one to the next.

/// A broker state, in the order in which they come.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    LoadBuiltins,
    /// Waiting for its parent.
    Join,
    /// Where real Flux takes over the leader's configuration. All brokers have the same here.
    ConfigSync,
    Init,
    /// Waiting for enough brokers.
    Quorum,
    Run,
    Cleanup,
    /// Waiting for children.
    Shutdown,
    Finalize,
    Goodbye,
    UnloadBuiltins,
    Exit,
}

impl State {
    /// The name in logs.
    pub(crate) fn name(self) -> String {
        serde_json::json!(self).as_str().unwrap_or_default().to_owned()
    }

    /// The state after `event`, `None` where the event means nothing in this state.
    pub(crate) fn after(self, event: &str) -> Option<Self> {
        let steps: [(Self, &[&str], Self); 15] = [
            (Self::LoadBuiltins, &["builtins-success"], Self::Join),
            (Self::LoadBuiltins, &["builtins-fail"], Self::UnloadBuiltins),
            (Self::Join, &["parent-ready", "parent-none"], Self::ConfigSync),
            (Self::Join, &["parent-fail"], Self::Shutdown),
            (Self::ConfigSync, &["sync-success", "sync-none"], Self::Init),
            (Self::Init, &["rc1-success"], Self::Quorum),
            (Self::Init, &["rc1-fail"], Self::Shutdown),
            (Self::Quorum, &["quorum-full"], Self::Run),
            (Self::Quorum, &["quorum-fail"], Self::Shutdown),
            (Self::Run, &["shutdown", "parent-fail"], Self::Cleanup),
            (Self::Cleanup, &["cleanup-success", "cleanup-none", "cleanup-fail"], Self::Shutdown),
            (Self::Shutdown, &["children-complete", "children-none"], Self::Finalize),
            (Self::Finalize, &["rc3-success", "rc3-fail"], Self::Goodbye),
            (Self::Goodbye, &["goodbye"], Self::UnloadBuiltins),
            (Self::UnloadBuiltins, &["builtins-done"], Self::Exit),
        ];
        let found = steps.into_iter().find(|(from, by, _)| *from == self && by.contains(&event));
        found.map(|(_, _, to)| to)
    }

    /// What a child in this state makes of its parent's: the event it posts, if any.
    pub(crate) fn event_of_parent(self, parent: Self, failed: bool) -> Option<&'static str> {
        let ready = parent == Self::Quorum || parent == Self::Run;
        let full = parent == Self::Init || parent == Self::Run;
        let events = [
            (Self::Join, failed || parent >= Self::Cleanup, "parent-fail"),
            (Self::Join, ready, "parent-ready"),
            // A rejected worker logs that and waits on: `monitor_parent_continuation` posts nothing.
            (Self::Quorum, !failed && parent >= Self::Cleanup, "quorum-fail"),
            (Self::Quorum, full, "quorum-full"),
            (Self::Run, failed || parent >= Self::Finalize, "parent-fail"),
            (Self::Run, parent == Self::Shutdown, "shutdown"),
        ];
        events.into_iter().find(|(state, holds, _)| *state == self && *holds).map(|it| it.2)
    }
}
