//! The broker's states and what leads from one to the next.

/// A broker state.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// Starting its own parts.
    LoadBuiltins,
    /// Waiting for its parent.
    Join,
    /// Taking over the leader's configuration.
    ConfigSync,
    /// Running rc1.
    Init,
    /// Waiting for enough brokers.
    Quorum,
    /// Running the initial program.
    Run,
    /// Cancelling jobs.
    Cleanup,
    /// Waiting for children.
    Shutdown,
    /// Running rc3.
    Finalize,
    /// Taking leave of the parent.
    Goodbye,
    /// Stopping its own parts.
    UnloadBuiltins,
    /// Done.
    Exit,
}

impl State {
    /// The name in logs and in `flux uptime`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LoadBuiltins => "load-builtins",
            Self::Join => "join",
            Self::ConfigSync => "config-sync",
            Self::Init => "init",
            Self::Quorum => "quorum",
            Self::Run => "run",
            Self::Cleanup => "cleanup",
            Self::Shutdown => "shutdown",
            Self::Finalize => "finalize",
            Self::Goodbye => "goodbye",
            Self::UnloadBuiltins => "unload-builtins",
            Self::Exit => "exit",
        }
    }

    /// The state after `event`, `None` where the event means nothing in this state.
    pub(crate) fn after(self, event: &str) -> Option<Self> {
        let next = match (self, event) {
            (Self::LoadBuiltins, "builtins-success") => Self::Join,
            (Self::LoadBuiltins, "builtins-fail") | (Self::Goodbye, "goodbye") => {
                Self::UnloadBuiltins
            }
            (Self::Join, "parent-ready" | "parent-none") => Self::ConfigSync,
            (Self::ConfigSync, "sync-success" | "sync-none") => Self::Init,
            (Self::Init, "rc1-success") => Self::Quorum,
            (Self::Quorum, "quorum-full") => Self::Run,
            (Self::Run, "rc2-success" | "rc2-fail" | "shutdown" | "parent-fail") => Self::Cleanup,
            (Self::Join, "parent-fail")
            | (Self::ConfigSync, "sync-fail")
            | (Self::Init, "rc1-fail")
            | (Self::Quorum, "quorum-fail")
            | (Self::Cleanup, "cleanup-success" | "cleanup-none" | "cleanup-fail") => {
                Self::Shutdown
            }
            (Self::Shutdown, "children-complete" | "children-none") => Self::Finalize,
            (Self::Finalize, "rc3-success" | "rc3-fail") => Self::Goodbye,
            (Self::UnloadBuiltins, "builtins-done") => Self::Exit,
            _ => return None,
        };
        Some(next)
    }
}

/// What a child makes of its parent's state: the event it posts, if any.
pub(crate) fn event_of_parent(own: State, parent: State, failed: bool) -> Option<&'static str> {
    let ready = parent == State::Quorum || parent == State::Run;
    let full = parent == State::Init || parent == State::Run;
    let events = [
        (State::Join, failed || parent >= State::Cleanup, "parent-fail"),
        (State::Join, ready, "parent-ready"),
        (State::Quorum, failed || parent >= State::Cleanup, "quorum-fail"),
        (State::Quorum, full, "quorum-full"),
        (State::Run, failed || parent >= State::Finalize, "parent-fail"),
        (State::Run, parent == State::Shutdown, "shutdown"),
    ];
    events.into_iter().find(|(state, holds, _)| *state == own && *holds).map(|(_, _, event)| event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_waits_for_its_parents_rc1() {
        assert_eq!(event_of_parent(State::Join, State::Init, false), None);
        assert_eq!(event_of_parent(State::Join, State::Quorum, false), Some("parent-ready"));
        assert_eq!(event_of_parent(State::Join, State::Cleanup, false), Some("parent-fail"));
        assert_eq!(event_of_parent(State::Run, State::Cleanup, false), None);
        assert_eq!(event_of_parent(State::Run, State::Shutdown, false), Some("shutdown"));
        assert_eq!(event_of_parent(State::Run, State::Run, true), Some("parent-fail"));
    }

    #[test]
    fn every_state_leads_to_exit() {
        let events = [
            "builtins-success",
            "parent-none",
            "sync-none",
            "rc1-success",
            "quorum-full",
            "rc2-success",
            "cleanup-success",
            "children-none",
            "rc3-success",
            "goodbye",
            "builtins-done",
        ];
        let end = events
            .iter()
            .fold(State::LoadBuiltins, |state, event| state.after(event).expect("allowed"));
        assert_eq!(end, State::Exit);
        assert_eq!(State::Quorum.after("parent-fail"), None);
    }
}
