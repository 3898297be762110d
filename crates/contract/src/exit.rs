//! Exit codes of the agent: part of its interface, read by the operator and by people.

/// Defines [`Exit`]. A line has the code, and the `CamelCase` reason that conditions and Events carry.
macro_rules! exits {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $reason:literal;)*) => {
        /// The agent's own exit codes. If the command ran, the agent exits with the code of the command (128 + N when signal N
        /// ended it; 126 when it could not be executed, 127 when it was not found, as POSIX shells do). With the codes here the
        /// command was not started in this pod, or, for [`Exit::Deadline`] and [`Exit::Stopped`], the agent ended it. Few programs
        /// use these codes, which are in the range of `sysexits.h`; the termination message states which of both applies.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Exit {
            $($(#[$doc])* $name = $code,)*
        }

        impl Exit {
            /// Every variant, in the order of the table in `docs/agent.md`.
            pub const ALL: [Self; [$($code),*].len()] = [$(Self::$name),*];

            /// The `CamelCase` reason that conditions and Events carry.
            pub const fn reason(self) -> &'static str {
                match self {
                    $(Self::$name => $reason,)*
                }
            }
        }
    };
}

exits! {
    /// The command line of the agent was wrong.
    Usage = 64, "AgentUsage";
    /// `agent.toml` could not be read, or does not fit this pod.
    Config = 65, "AgentConfig";
    /// The Flux view is missing or unusable: no `flux` was found.
    View = 66, "ViewUnusable";
    /// A directory, file, user or certificate could not be prepared.
    Prepare = 73, "PreparationFailed";
    /// The lead broker did not answer before the deadline.
    LeadUnreachable = 68, "LeadUnreachable";
    /// A hook of the user failed and `logging.strict` asks to stop.
    Hook = 69, "HookFailed";
    /// The broker ended before the command ran.
    Broker = 76, "BrokerFailed";
    /// The agent got SIGTERM before the command had ended.
    Stopped = 75, "Stopped";
    /// The answer of a subcommand could not be written.
    Answer = 74, "AnswerLost";
    /// The deadline of the MiniCluster (`spec.deadlineSeconds`) passed before the command had ended.
    Deadline = 72, "DeadlineExceeded";
    /// Flux refused the command or could not start it, for example because it needs more resources than there are.
    FluxRefused = 71, "FluxRefused";
    /// A bug of the agent.
    Internal = 70, "AgentInternal";
    /// The previous pod of the lead was lost. Its command may have run, and is not run again.
    LeadLost = 77, "LeadLost";
}

impl Exit {
    /// The number the process ends with.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The variant of `code`, if it is one of the agent's own.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| i32::from(exit.code()) == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_and_reasons_are_distinct_and_not_those_of_shells() {
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
