//! Exit codes of the agent: part of its interface, read by the operator and by people.

/// How a run of the agent ended, for reasons of the agent's own. A command that ran passes on its own code (128 + N
/// when signal N ended it; 126 when it could not be executed, 127 when it was not found, as POSIX shells do). The
/// codes here say that the command was never reached in this pod, or, for [`Exit::Deadline`] and [`Exit::Stopped`],
/// that it was ended. They lie in the range of `sysexits.h`, which few programs use; the termination message tells
/// the two apart beyond doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Exit {
    /// The command line of the agent was wrong.
    Usage = 64,
    /// `agent.toml` could not be read, or asks for something impossible in this pod.
    Config = 65,
    /// The Flux view is missing or unusable: no `flux` was found.
    View = 66,
    /// A directory, file, user or certificate could not be prepared.
    Prepare = 73,
    /// The lead broker did not answer before the deadline.
    LeadUnreachable = 68,
    /// A hook of the user failed and `logging.strict` asks to stop.
    Hook = 69,
    /// The broker ended before the command ran.
    Broker = 76,
    /// The pod of the lead before this one was lost, and its command may have run: it is not run again.
    LeadLost = 77,
    /// The agent was asked to stop (SIGTERM) before the command had ended, whatever that made of it.
    Stopped = 75,
    /// The answer of a subcommand could not be written.
    Answer = 74,
    /// The deadline of the MiniCluster (`spec.deadlineSeconds`) passed before the command had ended.
    Deadline = 72,
    /// Flux refused the command, or could not start it: it asks for more than there is, ...
    FluxRefused = 71,
    /// A mistake in the agent itself.
    Internal = 70,
}

impl Exit {
    /// Every variant, in the order of the table in `docs/agent.md`.
    pub const ALL: [Self; 13] = [
        Self::Usage,
        Self::Config,
        Self::View,
        Self::Prepare,
        Self::LeadUnreachable,
        Self::Hook,
        Self::Broker,
        Self::Stopped,
        Self::Answer,
        Self::Deadline,
        Self::FluxRefused,
        Self::Internal,
        Self::LeadLost,
    ];

    /// The number the process ends with.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The variant of `code`, if it is one of the agent's own.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| i32::from(exit.code()) == code)
    }

    /// The `CamelCase` reason that conditions and Events carry.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Usage => "AgentUsage",
            Self::Config => "AgentConfig",
            Self::View => "ViewUnusable",
            Self::Prepare => "PreparationFailed",
            Self::LeadUnreachable => "LeadUnreachable",
            Self::Hook => "HookFailed",
            Self::Broker => "BrokerFailed",
            Self::Stopped => "Stopped",
            Self::Answer => "AnswerLost",
            Self::Deadline => "DeadlineExceeded",
            Self::FluxRefused => "FluxRefused",
            Self::Internal => "AgentInternal",
            Self::LeadLost => "LeadLost",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_and_reasons_are_distinct_and_none_is_one_that_shells_and_signals_use() {
        let codes: BTreeSet<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        let reasons: BTreeSet<&str> = Exit::ALL.iter().map(|exit| exit.reason()).collect();
        assert_eq!((codes.len(), reasons.len()), (Exit::ALL.len(), Exit::ALL.len()));
        for exit in Exit::ALL {
            assert_eq!(Exit::from_code(i32::from(exit.code())), Some(exit));
            assert!((64..=78).contains(&exit.code()));
        }
        assert_eq!(Exit::from_code(7), None);
    }
}
