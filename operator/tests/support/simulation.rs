//! As much of Kubernetes as the operator has to do with: the objects and rules of an API server, its
//! watches, the Job controller, a queue, nodes, a kubelet with our agent in its pods, and the garbage collector.

pub(crate) mod agent;
pub(crate) mod api;
pub(crate) mod clock;
pub(crate) mod collector;
pub(crate) mod conditions;
pub(crate) mod faults;
pub(crate) mod job;
pub(crate) mod job_policy;
pub(crate) mod kubelet;
pub(crate) mod nodes;
pub(crate) mod queue;
pub(crate) mod refusal;
pub(crate) mod rules;
pub(crate) mod selectors;
pub(crate) mod store;
pub(crate) mod watch;
