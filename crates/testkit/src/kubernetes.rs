//! The Job controller and the kubelets of a cluster, as one.

use super::job::JobController;
use super::kubelet::Kubelet;
use super::store::Store;

/// Runs the Jobs of a cluster.
#[derive(Default)]
pub struct Kubernetes {
    pub jobs: JobController,
    pub kubelet: Kubelet,
}

impl Kubernetes {
    /// Lets the Job controller and the kubelets do one thing each.
    pub fn act(&mut self, store: &mut Store) {
        self.jobs.sync(store);
        self.kubelet.step(store);
    }
}
