//! The role of an installed operator.

use flux_testkit::access::{Access, rules_of_roles};
use flux_testkit::server::Server;
use std::sync::LazyLock;

/// The rights of an operator for one namespace. The `ClusterRole` has all of them.
static ACCESS: LazyLock<Access> = LazyLock::new(|| Access {
    rules: rules_of_roles(include_str!("../../../deploy/one-namespace/operator.yaml")),
    paged: &["nodes", "pods"],
});

/// A server whose clients have the role of the operator.
pub(crate) fn server() -> Server {
    Server::new(ACCESS.clone())
}
