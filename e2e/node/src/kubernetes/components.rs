//! The programs of control plane and nodes and their arguments, as functions of values.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::{
    built::Built,
    certificates::FRONT_PROXY,
    configuration::{KWOK_CONFIGURATION, LEASE_SECONDS},
    layout::{NodeLayout, inside},
    namespaces::program_inside,
    network::Network,
};

/// One program of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Component {
    /// Also names its log.
    pub(crate) name: &'static str,
    /// Path inside the node.
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
}

/// The API and what it needs.
pub(crate) fn storage_and_api(built: &Built, network: &Network) -> Vec<Component> {
    vec![etcd(built), api_server(built, network)]
}

/// What needs the API, in a cluster of so many nodes.
pub(crate) fn controllers(built: &Built, nodes: usize) -> Vec<Component> {
    let mut manager = controller_manager(built);
    if nodes > 1 {
        // By default 50 seconds, and a look each five.
        let grace = 2 * LEASE_SECONDS;
        manager.arguments.push(format!("--node-monitor-grace-period={grace}s"));
        manager.arguments.push("--node-monitor-period=1s".to_owned());
    }
    vec![manager, scheduler(built)]
}

/// What needs the API where nodes are simulated.
pub(crate) fn simulation(built: &Built, network: &Network) -> Result<Vec<Component>> {
    // By default 20 and 50 requests a second: what is measured would be how long these two wait.
    let unhindered = ["--kube-api-qps=1000", "--kube-api-burst=2000"].map(str::to_owned);
    let mut controllers = [controller_manager(built), scheduler(built)];
    for controller in &mut controllers {
        controller.arguments.extend(unhindered.clone());
    }
    let [controller_manager, scheduler] = controllers;
    Ok(vec![controller_manager, scheduler, kwok(built, network)?])
}

/// Plays the kubelets of all nodes.
fn kwok(built: &Built, network: &Network) -> Result<Component> {
    let arguments = [
        format!("--config={}", configured(KWOK_CONFIGURATION)),
        format!("--kubeconfig={}", configured("admin.kubeconfig")),
        format!("--node-ip={}", network.usual().control_plane()),
        format!("--cidr={}", network.usual().pods),
    ];
    let directory = built.kwok.as_ref().context("kwok was not built")?;
    Ok(component("kwok", directory, "kwok", &arguments))
}

fn component(
    name: &'static str,
    directory: &Path,
    program: &str,
    arguments: &[String],
) -> Component {
    let program = program_inside(&Built::name_of(directory), program);
    Component { name, program, arguments: arguments.to_vec() }
}

fn configured(file: &str) -> String {
    format!("{}/{file}", inside::CONFIGURATION)
}

fn etcd(built: &Built) -> Component {
    // The data goes with the cluster, so nothing is gained by waiting for the disk.
    let arguments = [
        "--data-dir=/var/lib/etcd",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ];
    component("etcd", &built.kubernetes, "etcd", &arguments.map(String::from))
}

fn api_server(built: &Built, network: &Network) -> Component {
    let pki = configured("pki");
    let arguments = [
        format!("--advertise-address={}", network.usual().control_plane()),
        "--secure-port=6443".to_owned(),
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        format!("--client-ca-file={pki}/ca.crt"),
        format!("--tls-cert-file={pki}/apiserver.crt"),
        format!("--tls-private-key-file={pki}/apiserver.key"),
        format!("--kubelet-certificate-authority={pki}/ca.crt"),
        format!("--kubelet-client-certificate={pki}/apiserver-kubelet.crt"),
        format!("--kubelet-client-key={pki}/apiserver-kubelet.key"),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        format!("--requestheader-client-ca-file={pki}/front-proxy-ca.crt"),
        format!("--requestheader-allowed-names={FRONT_PROXY}"),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--proxy-client-cert-file={pki}/{FRONT_PROXY}.crt"),
        format!("--proxy-client-key-file={pki}/{FRONT_PROXY}.key"),
        format!("--service-account-issuer=https://{}", network.api_name()),
        format!("--service-account-key-file={pki}/service-accounts.pub"),
        format!("--service-account-signing-key-file={pki}/service-accounts.key"),
        format!("--service-cluster-ip-range={}", network.each(|it| it.services)),
        format!("--audit-policy-file={}", configured("audit-policy.json")),
        format!("--audit-log-path={}", inside::AUDIT_LOG),
        // Megabytes before the log is turned over: whoever counts requests in it wants one file.
        "--audit-log-maxsize=10000".to_owned(),
    ];
    component("kube-apiserver", &built.kubernetes, "kube-apiserver", &arguments)
}

/// The container runtime in this directory of what was built.
pub(crate) fn containerd(directory: &Path) -> Component {
    let arguments = [format!("--config={}", configured("containerd.toml"))];
    component("containerd", directory, "containerd", &arguments)
}

fn controller_manager(built: &Built) -> Component {
    let pki = configured("pki");
    let kubeconfig = configured("controller-manager.kubeconfig");
    let arguments = [
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".to_owned(),
        // Which node's pods have which addresses is settled before there are nodes.
        "--allocate-node-cidrs=false".to_owned(),
        format!("--client-ca-file={pki}/ca.crt"),
        format!("--root-ca-file={pki}/ca.crt"),
        format!("--cluster-signing-cert-file={pki}/ca.crt"),
        format!("--cluster-signing-key-file={pki}/ca.key"),
        format!("--service-account-private-key-file={pki}/service-accounts.key"),
        "--use-service-account-credentials=true".to_owned(),
        // There is no other to lose the lead to, but a busy machine could lose the lease.
        "--leader-elect=false".to_owned(),
    ];
    let name = "kube-controller-manager";
    component(name, &built.kubernetes, name, &arguments)
}

fn scheduler(built: &Built) -> Component {
    let kubeconfig = configured("scheduler.kubeconfig");
    let arguments = [
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--leader-elect=false".to_owned(),
    ];
    component("kube-scheduler", &built.kubernetes, "kube-scheduler", &arguments)
}

/// Needs the API and the container runtime.
pub(crate) fn kubelet(node: &NodeLayout, built: &Built, network: &Network) -> Component {
    let arguments = [
        format!("--config={}", configured("kubelet.json")),
        format!("--kubeconfig={}", configured("kubelet.kubeconfig")),
        format!("--hostname-override={}", node.name()),
        format!("--node-ip={}", network.each(|it| it.nodes[node.position()].own)),
    ];
    component("kubelet", &built.kubernetes, "kubelet", &arguments)
}

/// To be started once it may read what it answers: refused, it waits longer each time.
pub(crate) fn coredns(built: &Built) -> Component {
    let arguments = ["-conf".to_owned(), configured("Corefile")];
    component("coredns", &built.coredns, "coredns", &arguments)
}

/// To be started once the node is registered. The connection tracking limits are the machine's, so they
/// are left alone.
pub(crate) fn proxy(node: &NodeLayout, built: &Built, network: &Network) -> Component {
    let arguments = [
        format!("--kubeconfig={}", configured("proxy.kubeconfig")),
        format!("--hostname-override={}", node.name()),
        "--proxy-mode=iptables".to_owned(),
        format!("--cluster-cidr={}", network.each(|it| it.pods)),
        "--conntrack-max-per-core=0".to_owned(),
        "--conntrack-tcp-timeout-established=0s".to_owned(),
        "--conntrack-tcp-timeout-close-wait=0s".to_owned(),
    ];
    component("kube-proxy", &built.kubernetes, "kube-proxy", &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cache::Cache,
        kubernetes::{ClusterId, layout::Layout},
    };

    #[test]
    fn command_lines_hold_paths_inside_the_node_only() {
        let built = Built::at(Path::new("/cache/built"));
        let network = Network {
            ip_families: "ipv4,ipv6".parse().unwrap(),
            domain: "k8s.example".parse().unwrap(),
            ..Network::default()
        };
        let simulation = simulation(&built, &network).unwrap();
        let cache = tempfile::tempdir().unwrap();
        let cache = Cache::at(cache.path()).unwrap();
        let layout = Layout::new(&cache, &ClusterId::named("test").unwrap()).unwrap();
        let node = &layout.places()[1];
        let of_node = vec![
            containerd(&built.containerd),
            kubelet(node, &built, &network),
            proxy(node, &built, &network),
        ];
        let all = [
            storage_and_api(&built, &network),
            controllers(&built, 2),
            vec![coredns(&built)],
            of_node,
            simulation,
        ]
        .concat();
        let lines: Vec<_> = all
            .iter()
            .map(|it| format!("{}: {}\n  {}", it.name, it.program, it.arguments.join("\n  ")))
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
        assert!(!lines.join("\n").contains("/cache/"));
    }
}
