//! What is created: MiniClusters that differ in nothing but their names.

use flux_operator::crd::MiniCluster;
use kube::{core::DynamicObject, discovery::ApiResource};
use serde_json::json;

/// Pods with this annotation run until it is taken away: see `kwok.yaml`.
pub(super) const HOLD: &str = "flux-e2e/hold";

/// What is created at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    /// How many MiniClusters.
    pub(super) miniclusters: u32,
    /// Pods of each.
    pub(super) pods: u32,
}

impl Load {
    /// All pods.
    pub(super) const fn all_pods(self) -> u32 {
        self.miniclusters * self.pods
    }

    /// Whether the lead waits until all pods are there, as the quorum makes it. Where there are few the
    /// time that a pod runs is enough.
    pub(super) const fn waits_for_all(self) -> bool {
        self.miniclusters == 1
    }

    /// The namespace they are made in.
    pub(super) fn namespace(self) -> String {
        format!("scale-{}x{}", self.miniclusters, self.pods)
    }

    /// For people.
    pub(super) fn describe(self) -> String {
        format!("{} x {} pods", self.miniclusters, self.pods)
    }

    /// The MiniClusters.
    pub(super) fn objects(self) -> Vec<DynamicObject> {
        let resource = ApiResource::erase::<MiniCluster>(&());
        let object = |number: u32| {
            DynamicObject::new(&format!("mc-{number}"), &resource)
                .within(&self.namespace())
                .data(json!({"spec": self.specification()}))
        };
        (0..self.miniclusters).map(object).collect()
    }

    fn specification(self) -> serde_json::Value {
        let mut specification = json!({
            "size": self.pods,
            "containers": [{"image": "ubuntu:24.04", "command": "echo hello world"}],
        });
        if self.waits_for_all() {
            specification["pod"] = json!({"annotations": {HOLD: "true"}});
        }
        specification
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pods_of_the_large_one_are_held() {
        let few = Load { miniclusters: 10, pods: 4 };
        let large = Load { miniclusters: 1, pods: 5000 };
        assert_eq!((few.all_pods(), large.all_pods()), (40, 5000));
        assert_eq!(few.objects().len(), 10);
        assert!(few.objects()[0].data.pointer("/spec/pod").is_none());
        assert_eq!(large.objects()[0].data["spec"]["pod"]["annotations"][HOLD], "true");
    }

    #[test]
    fn kwok_knows_the_annotation() {
        let stages = include_str!("../../kubernetes/kwok.yaml");
        assert!(stages.contains(&format!(".metadata.annotations[\"{HOLD}\"]")));
    }

    #[test]
    fn the_specification_is_one_that_is_accepted() {
        for object in (Load { miniclusters: 1, pods: 4 }).objects() {
            let read: MiniCluster =
                serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap();
            assert_eq!(read.spec.size, 4);
        }
    }
}
