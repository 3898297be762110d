//! The configuration files of the node's programs, as functions of values.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    built::Built,
    layout::{NodeLayout, inside, node_name},
    namespaces::program_inside,
    network::{Addresses, Network, in_url},
    options::ContainerRuntime,
};
use crate::packages;

/// The image that holds a pod's namespaces.
pub(crate) const PAUSE_IMAGE: &str = "localhost/flux-e2e/pause:1";

/// How long a node of several is taken to live without a sign of life; it gives one four times as often. By
/// default 40 seconds: how a loss is noticed would be most of what a test waits for.
pub(crate) const LEASE_SECONDS: u32 = 8;

/// Name of the file that says what kwok does with nodes and pods.
pub(crate) const KWOK_CONFIGURATION: &str = "kwok.yaml";

/// One file of [`inside::CONFIGURATION`].
#[derive(Debug)]
pub(crate) struct ConfigurationFile {
    pub(crate) path: String,
    pub(crate) content: String,
}

impl ConfigurationFile {
    fn new(path: &str, content: String) -> Self {
        Self { path: path.to_owned(), content }
    }

    fn kubeconfig(user: &str, network: &Network) -> Self {
        let pki = format!("{}/pki", inside::CONFIGURATION);
        Self::new(&format!("{user}.kubeconfig"), kubeconfig(user, &pki, network))
    }
}

/// All configuration files of the control plane but the certificates.
pub(crate) fn of_control_plane(network: &Network) -> Vec<ConfigurationFile> {
    let users = ["controller-manager", "scheduler", "coredns", "admin"];
    let mut files = vec![
        ConfigurationFile::new("audit-policy.json", pretty(&audit_policy())),
        ConfigurationFile::new("Corefile", corefile(network)),
        ConfigurationFile::new(KWOK_CONFIGURATION, include_str!("kwok.yaml").to_owned()),
    ];
    files.extend(users.map(|user| ConfigurationFile::kubeconfig(user, network)));
    files
}

/// The same of each node with this container runtime, one of `nodes`.
pub(crate) fn of_node(
    node: &NodeLayout,
    nodes: usize,
    runtime: ContainerRuntime,
    built: &Built,
    network: &Network,
) -> Result<Vec<ConfigurationFile>> {
    let mut kubelet = kubelet(node.control_group(), network);
    if nodes > 1 {
        kubelet["nodeLeaseDurationSeconds"] = json!(LEASE_SECONDS);
        kubelet["nodeStatusUpdateFrequency"] = json!("2s");
    }
    let pods = pod_network(node.position(), network);
    // Pods that ask for the node's DNS get the cluster's: there is nothing else to ask.
    let dns = format!("nameserver {}\n", network.usual().control_plane());
    let mut files = vec![
        ConfigurationFile::new("containerd.toml", containerd(runtime, built.runtime(runtime)?)),
        ConfigurationFile::new("kubelet.json", pretty(&kubelet)),
        ConfigurationFile::new("cni/10-pods.conflist", pretty(&pods)),
        ConfigurationFile::new("resolv.conf", dns),
    ];
    files.extend(["proxy", "kubelet"].map(|user| ConfigurationFile::kubeconfig(user, network)));
    Ok(files)
}

/// A kubeconfig of one of the users that have certificates in the directory `pki`.
pub(crate) fn kubeconfig(user: &str, pki: &str, network: &Network) -> String {
    pretty(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "flux-e2e", "cluster": {
            "server": format!("https://{}:6443", in_url(network.usual().control_plane())),
            "certificate-authority": format!("{pki}/ca.crt"),
        }}],
        "users": [{"name": user, "user": {
            "client-certificate": format!("{pki}/{user}.crt"),
            "client-key": format!("{pki}/{user}.key"),
        }}],
        "contexts": [{"name": "flux-e2e", "context": {"cluster": "flux-e2e", "user": user}}],
        "current-context": "flux-e2e",
    }))
}

fn containerd(runtime: ContainerRuntime, directory: &Path) -> String {
    let shim = program_inside(&Built::name_of(directory), "containerd-shim-runc-v2");
    let plugins = match runtime {
        ContainerRuntime::Newest => format!("bin_dirs = [{:?}]", packages::CNI_PLUGINS),
        ContainerRuntime::WithoutImageVolumes => format!("bin_dir = {:?}", packages::CNI_PLUGINS),
    };
    let cni = format!("{}/cni", inside::CONFIGURATION);
    // restrict_oom_score_adj: without CAP_SYS_RESOURCE no sandbox would start otherwise.
    format!(
        r#"version = 3
imports = []
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp"]

[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
  {plugins}
  conf_dir = "{cni}"

[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  runtime_path = "{shim}"
"#
    )
}

/// kubeadm's settings, with what a machine that also does other things needs: no eviction or image removal
/// when its disk fills, swap and version 1 control groups accepted. What a volume is made of is read when a
/// pod needs it: the kubelet gives a watch of each one second to begin, which a machine that
/// builds beside it exceeds.
fn kubelet(control_group: &str, network: &Network) -> Value {
    let pki = format!("{}/pki", inside::CONFIGURATION);
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": format!("{pki}/ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": format!("{pki}/kubelet-server.crt"),
        "tlsPrivateKeyFile": format!("{pki}/kubelet-server.key"),
        "clusterDNS": [network.usual().dns],
        "clusterDomain": network.domain.to_string(),
        "resolvConf": format!("{}/resolv.conf", inside::CONFIGURATION),
        "containerRuntimeEndpoint": format!("unix://{}", inside::CONTAINERD_SOCKET),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{control_group}"),
        "failCgroupV1": false,
        "failSwapOn": false,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
    })
}

/// Every pod has its own link to the node, so all traffic passes the node's firewall rules whether or not
/// the kernel filters bridges. Pods keep their addresses on the way to other nodes' pods: each node has a
/// route there, and nothing beyond the nodes has to answer.
fn pod_network(position: usize, network: &Network) -> Value {
    let addresses = network.all();
    let subnet = |it: &&Addresses| json!([{"subnet": it.nodes[position].pods}]);
    let ranges: Vec<_> = addresses.iter().map(subnet).collect();
    let routes: Vec<_> = addresses.iter().map(|it| json!({"dst": it.everywhere})).collect();
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipam": {"type": "host-local", "ranges": ranges, "routes": routes},
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    })
}

/// kubeadm's, but for names outside the cluster: the node has no way out, so they do not exist.
fn corefile(network: &Network) -> String {
    let kubeconfig = format!("{}/coredns.kubeconfig", inside::CONFIGURATION);
    let domain = &network.domain;
    // What is kept in the cache is kept no longer than it says that it is good for.
    let good_for = network.dns_cache.max(30);
    let cache = match network.dns_cache {
        0 => format!(
            "cache 30 {{\n        disable success {domain}\n        disable denial {domain}\n    }}"
        ),
        // That a name does not exist is soon not true any more.
        seconds => format!("cache {seconds} {{\n        denial 9984 {}\n    }}", seconds.min(30)),
    };
    format!(
        ".:53 {{
    errors
    ready 127.0.0.1:8181
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl {good_for}
    }}
    {cache}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"
    )
}

/// The objects by which pods find the cluster's DNS, and what it and the kubelet may read.
pub(crate) fn objects(network: &Network) -> String {
    let items = [dns_rights(), kubelet_rights(), dns_service(network)].concat();
    pretty(&json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

fn dns_rights() -> [Value; 2] {
    let verbs = ["list", "watch"];
    let rules = json!([
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": verbs},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs},
    ]);
    rights("system:coredns", "User", &rules)
}

/// The API server lets a node read what its pods mount once it has noticed that they are there: on a busy
/// machine the kubelet asks before, and every pod has a Warning.
fn kubelet_rights() -> [Value; 2] {
    let resources = ["configmaps", "secrets"];
    let rules = json!([{"apiGroups": [""], "resources": resources, "verbs": ["get"]}]);
    rights("system:nodes", "Group", &rules)
}

/// What the user, or the group, `name` may do.
fn rights(name: &str, kind: &str, rules: &Value) -> [Value; 2] {
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let role = json!({
        "apiVersion": version,
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    });
    let binding = json!({
        "apiVersion": version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": kind, "name": name}],
    });
    [role, binding]
}

/// The DNS is no pod but a program of the node, so the Service selects nothing.
fn dns_service(network: &Network) -> [Value; 2] {
    let addresses = network.usual();
    let metadata = json!({
        "name": "kube-dns",
        "namespace": "kube-system",
        "labels": {"k8s-app": "kube-dns", "kubernetes.io/service-name": "kube-dns"},
    });
    let ports = json!([
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]);
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"clusterIP": addresses.dns, "ports": ports},
    });
    let endpoints = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": addresses.kind,
        "endpoints": [{
            "addresses": [addresses.control_plane()],
            "conditions": {"ready": true},
            "nodeName": node_name(0),
        }],
        "ports": ports,
    });
    [service, endpoints]
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cache::Cache,
        kubernetes::{ClusterId, layout::Layout},
    };

    /// Those of the control plane and of the last of so many nodes.
    fn all_files(nodes: usize, network: &Network) -> Vec<ConfigurationFile> {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let layout = Layout::new(&cache, &ClusterId::named("test").unwrap()).unwrap();
        let built = Built::at(Path::new("/cache/built"));
        let newest = ContainerRuntime::Newest;
        let node = &layout.places()[nodes - 1];
        let mut files = of_control_plane(network);
        files.extend(of_node(node, nodes, newest, &built, network).unwrap());
        // The group's name has a hash of the cache's path in it.
        for file in &mut files {
            file.content = file.content.replace(layout.control_group(), "flux-e2e-test");
        }
        files
    }

    #[test]
    fn every_file_is_a_function_of_the_options() {
        for file in all_files(1, &Network::default()) {
            if file.path.ends_with(".kubeconfig") && file.path != "proxy.kubeconfig" {
                continue; // They differ in the user's name only.
            }
            if file.path == KWOK_CONFIGURATION {
                continue; // It depends on nothing.
            }
            insta::assert_snapshot!(file.path.replace('/', "-"), file.content);
        }
    }

    #[test]
    fn what_names_addresses_names_those_of_the_network() {
        let network = Network {
            ip_families: "ipv6,ipv4".parse().unwrap(),
            domain: "k8s.example".parse().unwrap(),
            ..Network::default()
        };
        let wanted = ["kubelet.json", "cni/10-pods.conflist", "Corefile", "proxy.kubeconfig"];
        let files = all_files(2, &network).into_iter();
        let content = files.filter(|file| wanted.contains(&file.path.as_str()));
        let content: Vec<_> =
            content.map(|file| format!("# {}\n{}", file.path, file.content)).collect();
        insta::assert_snapshot!(content.join("\n"));
    }

    #[test]
    fn each_runtime_is_told_in_its_own_words_where_plugins_are() {
        let told = |runtime| containerd(runtime, Path::new("/cache/built/containerd"));
        let newest = told(ContainerRuntime::Newest);
        assert!(newest.contains("\n  bin_dirs = [\"/usr/lib/cni\"]\n"), "{newest}");
        let old = told(ContainerRuntime::WithoutImageVolumes);
        assert!(old.contains("\n  bin_dir = \"/usr/lib/cni\"\n"), "{old}");
    }

    #[test]
    fn dns_answers_from_a_cache_where_that_is_asked_for() {
        let cached = corefile(&Network { dns_cache: 30, ..Network::default() });
        assert!(cached.contains("\n    cache 30 {\n        denial 9984 30\n    }\n"), "{cached}");
    }

    #[test]
    fn dns_is_a_service_without_pods() {
        insta::assert_snapshot!(objects(&Network::default()));
    }
}
