//! Whether a request is one that the operator's own role allows.

use http::Method;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use serde_json::Value;
use std::sync::LazyLock;

/// What the Roles of an operator for one namespace grant. The `ClusterRole` has everything that they have.
static RULES: LazyLock<Vec<PolicyRule>> = LazyLock::new(|| {
    let installed = include_str!("../../../deploy/one-namespace/operator.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(installed).unwrap();
    let roles = objects.into_iter().filter(|object| object["kind"] == "Role");
    let roles = roles.map(|role| serde_json::from_value::<Role>(role).unwrap());
    roles.flat_map(|role| role.rules.unwrap_or_default()).collect()
});

/// The request, if those Roles allow it.
pub(crate) fn granted<'path>(
    method: &Method,
    path: &'path str,
    query: &str,
) -> Option<Permission<'path>> {
    let asked = Permission::new(method, path, query)?;
    RULES.iter().any(|rule| asked.is_in(rule)).then_some(asked)
}

/// What a request asks for, in the words of a role.
#[derive(Debug)]
pub(crate) struct Permission<'path> {
    pub(crate) verb: &'static str,
    group: &'path str,
    pub(crate) resource: String,
}

impl<'path> Permission<'path> {
    /// Reads `/api/v1/...` or `/apis/GROUP/VERSION/...`, always in a namespace or in all of them.
    fn new(method: &Method, path: &'path str, query: &str) -> Option<Self> {
        let mut parts = path.trim_start_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            _ => parts.next()?,
        };
        let rest: Vec<&str> = parts.skip(1).collect();
        // A namespace lies in itself.
        let is_inside = rest.first() == Some(&"namespaces") && rest.len() > 2;
        let rest = if is_inside { rest.get(2..)? } else { &rest };
        let (resource, named) = match rest {
            [resource] => ((*resource).to_owned(), false),
            [resource, _] => ((*resource).to_owned(), true),
            [resource, _, subresource] => (format!("{resource}/{subresource}"), true),
            _ => return None,
        };
        let verb = match *method {
            Method::GET if query.contains("watch=true") => "watch",
            Method::GET if named => "get",
            Method::GET => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => return None,
        };
        Some(Self { verb, group, resource })
    }

    fn is_in(&self, rule: &PolicyRule) -> bool {
        let has = |list: &Option<Vec<String>>, value: &str| {
            list.iter().flatten().any(|entry| entry == value)
        };
        has(&rule.api_groups, self.group)
            && has(&rule.resources, &self.resource)
            && rule.verbs.iter().any(|verb| verb == self.verb)
    }
}
