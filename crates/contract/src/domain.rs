//! The domain of the cluster's Services.

/// The cluster's domain (`cluster.local` unless the administrator chose another), from the entry `<namespace>.svc.<domain>`
/// that Kubernetes writes into a pod's search list. `None` in a pod with `dnsPolicy: Default`, on the host network without
/// `ClusterFirstWithHostNet`, or with a search list of the user.
pub fn cluster_domain(resolv_conf: &str, namespace: &str) -> Option<String> {
    let service_domain = format!("{namespace}.svc.");
    // The last `search` line counts (resolv.conf(5)).
    let last =
        resolv_conf.lines().filter_map(|line| line.trim().strip_prefix("search")).next_back();
    let mut entries = last?.split_whitespace();
    let domain = entries.find_map(|entry| entry.strip_prefix(&service_domain))?;
    Some(domain.trim_end_matches('.').to_owned()).filter(|domain| !domain.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_in_the_last_search_line() {
        let text = "search team.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n";
        let last = "search team.svc.old\nsearch example.org\tteam.svc.k8s.example.org.\n";
        for (text, namespace, domain) in [
            (text, "team", Some("cluster.local")),
            (text, "other", None),
            ("nameserver 10.0.0.1\n", "team", None),
            (last, "team", Some("k8s.example.org")),
        ] {
            assert_eq!(cluster_domain(text, namespace).as_deref(), domain, "{text}");
        }
    }
}
