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

use job::JobController;
use kubelet::Kubelet;
use store::Store;

/// What runs the Jobs of a cluster.
#[derive(Default)]
pub(crate) struct Kubernetes {
    pub(crate) jobs: JobController,
    pub(crate) kubelet: Kubelet,
}

impl Kubernetes {
    /// Lets the Job controller and the kubelets do one thing each.
    pub(crate) fn act(&mut self, store: &mut Store) {
        self.jobs.sync(store);
        self.kubelet.step(store, super::world::PODS);
    }
}
