//! The reasons of conditions, which `status.reason` and the metrics repeat. Kubernetes and container runtimes have
//! reasons of their own, which a condition passes on as they are.

/// Declares [`Reason`], with a list of each group.
macro_rules! reasons {
    ($($(#[$doc:meta])* $group:ident: $($name:ident)*;)*) => {
        /// Why a condition has its status.
        #[expect(missing_docs, reason = "docs/troubleshooting.md explains each reason")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason { $($($name,)*)* }

        impl Reason {
            $($(#[$doc])* pub const $group: &[Self] = &[$(Self::$name,)*];)*

            /// The word in the status.
            pub const fn as_str(self) -> &'static str {
                match self { $($(Self::$name => stringify!($name),)*)* }
            }
        }
    };
}

reasons! {
    /// Reasons of a complete run.
    COMPLETE: CommandSucceeded ShutDown;
    /// Reasons of a failed run. Those that the operator does not set itself come from the agent's exit code
    /// ([`flux_contract::Exit::reason`]) or from the kubelet.
    FAILED: AgentConfig AgentFailed AgentInternal AgentUsage BrokerFailed CommandFailed ContainerFailed
        DeadlineExceeded EndNotSeen Evicted FluxRefused HookFailed LeadLost LeadUnreachable NodeAffinity OOMKilled
        OutOfcpu OutOfmemory PreparationFailed StartDeadlineExceeded StartError Stopped UnexpectedAdmissionError
        ViewUnusable;
    /// Reasons of `status.reason` before the end of a run.
    UNDER_WAY: ApplyFailed BuildFailed CertificateFailed ChangeRefused Conflict Degraded DeleteFailed Ending Internal
        Invalid LeadReplaced NameTaken NoPodGroups PodsRefused ReadFailed Running StartedByAnotherOperator Starting
        StatusWriteFailed Suspended Suspending TimedOut Waiting WaitingForDeletion;
    /// Reasons of other conditions, and of `Progressing` after the end of a run.
    NOT_IN_SUMMARY: Accepted Complete DemandKnown FieldsNotActedOn Finished Idle InQueue JobFailed JobSuspended
        LeadNotAnswering LeadNotAsked LeadNotReady NotComplete NotFailed NotFinished NotRunAgain NotSuspended
        QuorumReached ServiceNameTaken ServiceRefused Serving SuspendedBySpecification;
}

impl Reason {
    /// The reason with this word, if it is one of these.
    pub fn find(word: &str) -> Option<Self> {
        let groups = [Self::COMPLETE, Self::FAILED, Self::UNDER_WAY, Self::NOT_IN_SUMMARY];
        groups.into_iter().flatten().copied().find(|reason| reason.as_str() == word)
    }
}

impl AsRef<str> for Reason {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}
