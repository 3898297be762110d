//! What the operator may do, and what users may do with `MiniCluster` objects.

use super::installation::{NAME, global, namespaced};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use std::collections::BTreeMap;

const GROUP: &str = "flux-framework.org";

/// Name of the Role by which the operator holds its Lease.
const LEADER_NAME: &str = "flux-operator-leader";

/// What the operator does, in all namespaces or in its only one: API group, resource, verbs.
///
/// Each row is used: what it watches, reads, creates and patches, and nothing more. Pods: it makes and
/// deletes the pods of `spec.services`, and labels those of its Jobs. Services: it deletes those with an address when
/// a run has ended. Events: it reads those about its Jobs. Workloads: there a queue says what a Job waits for.
/// PodGroups: those of its Jobs, where a gang is asked for.
/// Namespaces: it reads that of a Job which gets no pods.
/// Secrets: it makes them and never reads one, be it its own. Updating finalizers is what an owner
/// reference that blocks deletion asks for.
const OPERATOR: &[(&str, &str, &[&str])] = &[
    (GROUP, "miniclusters", &["get", "list", "watch", "delete"]),
    (GROUP, "miniclusters/status", &["patch"]),
    (GROUP, "miniclusters/finalizers", &["update"]),
    ("batch", "jobs", &["get", "list", "watch", "create", "patch"]),
    ("", "services", &["get", "list", "watch", "create", "patch", "delete"]),
    ("", "configmaps", &["get", "list", "watch", "create", "patch"]),
    ("", "secrets", &["create"]),
    ("", "pods", &["get", "list", "watch", "create", "patch", "delete"]),
    ("", "events", &["list"]),
    ("", "namespaces", &["get"]),
    ("events.k8s.io", "events", &["create", "patch"]),
    ("kueue.x-k8s.io", "workloads", &["list"]),
    ("scheduling.x-k8s.io", "podgroups", &["get", "create", "patch"]),
    ("scheduling.volcano.sh", "podgroups", &["get", "create", "patch"]),
];

/// What the operator does outside of namespaces: whether every node has image volumes.
const NODES: &[(&str, &str, &[&str])] = &[("", "nodes", &["list"])];

/// What the operator does in its own namespace: the Lease by which one of several acts.
const LEADER: &[(&str, &str, &[&str])] =
    &[("coordination.k8s.io", "leases", &["get", "create", "update"])];

/// What a person with the role `edit` may do.
const EDIT: &[(&str, &str, &[&str])] = &[
    (
        GROUP,
        "miniclusters",
        &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"],
    ),
    (GROUP, "miniclusters/scale", &["get", "update", "patch"]),
    (GROUP, "miniclusters/status", &["get"]),
];

/// What a person with the role `view` may do.
const VIEW: &[(&str, &str, &[&str])] = &[
    (GROUP, "miniclusters", &["get", "list", "watch"]),
    (GROUP, "miniclusters/scale", &["get"]),
    (GROUP, "miniclusters/status", &["get"]),
];

/// What the operator may do in all namespaces.
pub fn cluster_role() -> ClusterRole {
    let list = [OPERATOR, NODES].concat();
    ClusterRole { metadata: global(NAME), rules: Some(rules(&list)), aggregation_rule: None }
}

/// Gives the operator of the namespace `own` [`cluster_role`].
pub(super) fn cluster_role_binding(own: &str) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: global(NAME),
        role_ref: role_ref("ClusterRole", NAME),
        subjects: Some(vec![operator(own)]),
    }
}

/// What the operator may do in the only namespace that it serves.
pub fn role(watched: &str) -> Role {
    Role { metadata: namespaced(NAME, watched), rules: Some(rules(OPERATOR)) }
}

/// Gives the operator of the namespace `own` the Role [`role`].
pub(super) fn role_binding(watched: &str, own: &str) -> RoleBinding {
    binding(NAME, watched, own)
}

/// What the operator may do in its own namespace.
pub fn leader_role(own: &str) -> Role {
    Role { metadata: namespaced(LEADER_NAME, own), rules: Some(rules(LEADER)) }
}

/// Gives the operator the Role [`leader_role`].
pub(super) fn leader_role_binding(own: &str) -> RoleBinding {
    binding(LEADER_NAME, own, own)
}

/// Gives the operator of the namespace `own` the Role `name` of the namespace `of`.
fn binding(name: &str, of: &str, own: &str) -> RoleBinding {
    RoleBinding {
        metadata: namespaced(name, of),
        role_ref: role_ref("Role", name),
        subjects: Some(vec![operator(own)]),
    }
}

/// Roles for people, added to the cluster's own `view`, `edit` and `admin`.
pub(super) fn user_roles() -> [ClusterRole; 2] {
    let aggregated = |name: &str, to: &[&str], list| {
        let mut metadata = global(&format!("{NAME}-{name}"));
        let label = |role: &&str| {
            (format!("rbac.authorization.k8s.io/aggregate-to-{role}"), "true".to_owned())
        };
        metadata.labels.get_or_insert_with(BTreeMap::new).extend(to.iter().map(label));
        ClusterRole { metadata, rules: Some(rules(list)), aggregation_rule: None }
    };
    [aggregated("edit", &["edit", "admin"], EDIT), aggregated("view", &["view"], VIEW)]
}

fn rules(list: &[(&str, &str, &[&str])]) -> Vec<PolicyRule> {
    let rule = |(group, resource, verbs): &(&str, &str, &[&str])| PolicyRule {
        api_groups: Some(vec![(*group).to_owned()]),
        resources: Some(vec![(*resource).to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    list.iter().map(rule).collect()
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn operator(namespace: &str) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: NAME.to_owned(),
        namespace: Some(namespace.to_owned()),
        ..Subject::default()
    }
}
