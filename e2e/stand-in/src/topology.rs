//! The tree of brokers. The stand-in runs flat trees only: rank 0 is everyone's parent.

use crate::config::bootstrap::Bootstrap;

/// Why there is no tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TopologyError {
    /// Real Flux refuses it too; its text.
    #[error("{0}")]
    Refused(String),
    /// Real Flux would run it.
    #[error("a tree of more than one level ({0})")]
    Deep(String),
}

/// Checks that `scheme` puts every rank directly under rank 0.
pub(crate) fn check_flat(
    scheme: &str,
    size: usize,
    bootstrap: Option<&Bootstrap>,
) -> Result<(), TopologyError> {
    let (name, argument) = scheme.split_once(':').unwrap_or((scheme, ""));
    let refused =
        |text: String| TopologyError::Refused(format!("Error creating {scheme} topology: {text}"));
    match name {
        "custom" => bootstrap.map_or(Ok(()), |found| check_parents(found, &refused)),
        "kary" => {
            let fanout: usize = argument.parse().map_err(|_| {
                refused(format!("kary k value must be an integer >= 0: {argument}"))
            })?;
            flat_or_deep(scheme, size <= fanout + 1)
        }
        "mincrit" | "binomial" => flat_or_deep(scheme, size <= 2),
        _ => Err(refused(format!("unknown topology scheme '{name}'"))),
    }
}

fn flat_or_deep(scheme: &str, flat: bool) -> Result<(), TopologyError> {
    if flat { Ok(()) } else { Err(TopologyError::Deep(scheme.to_owned())) }
}

fn check_parents(
    bootstrap: &Bootstrap,
    refused: &dyn Fn(String) -> TopologyError,
) -> Result<(), TopologyError> {
    let rank = |name: &str| bootstrap.hosts.iter().position(|host| host.name == name);
    let mut deep = false;
    for (index, host) in bootstrap.hosts.iter().enumerate() {
        let Some(parent) = host.parent.as_deref().and_then(rank) else { continue };
        if index == 0 {
            return Err(refused(format!(
                "Config file [bootstrap] hosts: rank 0 ({}) may not have a parent in a tree topology",
                host.name
            )));
        }
        deep |= parent != 0;
        let mut at = parent;
        for _ in 0..bootstrap.hosts.len() {
            at = bootstrap.hosts[at].parent.as_deref().and_then(rank).unwrap_or(0);
        }
        if at != 0 {
            return Err(refused(format!(
                "Config file [bootstrap] hosts: rank {index} ({}) violates rule against cycles",
                host.name
            )));
        }
    }
    flat_or_deep("custom", !deep)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn custom(hosts: &serde_json::Value) -> Result<(), TopologyError> {
        let config = json!({"bootstrap": {"curve_cert": "/c", "hosts": hosts}});
        let parsed = crate::config::bootstrap::parse(&config, "a0").expect("valid");
        check_flat("custom", 3, parsed.as_ref())
    }

    #[test]
    fn flat_trees_pass_and_deep_ones_are_not_simulated() {
        assert_eq!(custom(&json!([{"host": "a[0-2]"}])), Ok(()));
        assert_eq!(custom(&json!([{"host": "a[0-2]"}, {"host": "a1", "parent": "a0"}])), Ok(()));
        let deep = custom(&json!([{"host": "a[0-2]"}, {"host": "a2", "parent": "a1"}]));
        assert!(matches!(deep, Err(TopologyError::Deep(_))));
        assert_eq!(check_flat("kary:32", 33, None), Ok(()));
        assert!(matches!(check_flat("kary:2", 4, None), Err(TopologyError::Deep(_))));
    }

    #[test]
    fn impossible_trees_are_refused_as_real_flux_does() {
        let rank0 = custom(&json!([{"host": "a[0-2]"}, {"host": "a0", "parent": "a1"}]));
        assert!(matches!(rank0, Err(TopologyError::Refused(text)) if text.contains("rank 0 (a0)")));
        let cycle = custom(&json!([
            {"host": "a[0-2]"}, {"host": "a1", "parent": "a2"}, {"host": "a2", "parent": "a1"}
        ]));
        assert!(matches!(cycle, Err(TopologyError::Refused(text)) if text.contains("cycles")));
        let unknown = check_flat("star", 2, None);
        assert!(matches!(unknown, Err(TopologyError::Refused(text)) if text.contains("'star'")));
    }
}
