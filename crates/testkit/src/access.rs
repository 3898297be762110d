//! What the clients of the server may do, by the rules of a role.

use super::selectors::Words;
use http::Method;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use serde_json::Value;

/// What the clients of a server may do.
#[derive(Debug, Clone, Default)]
pub struct Access {
    pub rules: Vec<PolicyRule>,
    /// Resources that are listed page by page: a list of one without a limit fails the test.
    pub paged: &'static [&'static str],
}

impl Access {
    /// Everything, as a user of a cluster may have it.
    pub fn everything() -> Self {
        let all = vec!["*".to_owned()];
        let rule = PolicyRule {
            api_groups: Some(all.clone()),
            resources: Some(all.clone()),
            verbs: all,
            ..PolicyRule::default()
        };
        Self { rules: vec![rule], paged: &[] }
    }

    pub(crate) fn allows(&self, permission: &Permission<'_>) -> bool {
        self.rules.iter().any(|rule| permission.is_in(rule))
    }

    /// Fails the test where the list of `resource` that `query` asks for should have a limit and has none.
    pub(crate) fn require_limit(&self, resource: &str, query: &Words) {
        let has_limit = query.contains_key("limit") || !self.paged.contains(&resource);
        assert!(has_limit, "all {resource} are listed at once");
    }
}

/// The rules of all Roles in `manifest`, which is YAML.
pub fn rules_of_roles(manifest: &str) -> Vec<PolicyRule> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifest).unwrap();
    let roles = objects.into_iter().filter(|object| object["kind"] == "Role");
    let roles = roles.map(|role| serde_json::from_value::<Role>(role).unwrap());
    roles.flat_map(|role| role.rules.unwrap_or_default()).collect()
}

/// The permission that a request needs, in the words of a role.
#[derive(Debug)]
pub(crate) struct Permission<'path> {
    pub(crate) verb: &'static str,
    group: &'path str,
    pub(crate) resource: String,
}

impl<'path> Permission<'path> {
    /// Reads `/api/v1/...` or `/apis/GROUP/VERSION/...`, in a namespace or in all of them.
    pub(crate) fn new(method: &Method, path: &'path str, query: &str) -> Option<Self> {
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
            list.iter().flatten().any(|entry| entry == value || entry == "*")
        };
        has(&rule.api_groups, self.group)
            && has(&rule.resources, &self.resource)
            && rule.verbs.iter().any(|verb| verb == self.verb || verb == "*")
    }
}
