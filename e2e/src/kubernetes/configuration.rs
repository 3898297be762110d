//! The configuration files of the node's programs, as functions of values.

use serde_json::{Value, json};

use super::{
    build::Built,
    certificates::NODE_NAME,
    layout::inside,
    namespaces::program_inside,
    network::{Network, in_url},
};
use crate::packages;

/// The image that holds a pod's namespaces.
pub(crate) const PAUSE_IMAGE: &str = "localhost/flux-e2e/pause:1";

/// Name of the file that says what kwok does with nodes and pods.
pub(crate) const KWOK_CONFIGURATION: &str = "kwok.yaml";

/// One file of [`inside::CONFIGURATION`].
#[derive(Debug)]
pub(crate) struct ConfigurationFile {
    pub(crate) path: String,
    pub(crate) content: String,
}

/// All configuration files but the certificates.
pub(crate) fn files(
    control_group: &str,
    built: &Built,
    network: &Network,
) -> Vec<ConfigurationFile> {
    let file = |path: &str, content: String| ConfigurationFile { path: path.to_owned(), content };
    let mut files = vec![
        file("containerd.toml", containerd(built)),
        file("kubelet.json", pretty(&kubelet(control_group, network))),
        file("cni/10-pods.conflist", pretty(&pod_network(network))),
        file("audit-policy.json", pretty(&audit_policy())),
        file("Corefile", corefile(network)),
        file(KWOK_CONFIGURATION, include_str!("kwok.yaml").to_owned()),
        // Pods that ask for the node's DNS get the cluster's: there is nothing else to ask.
        file("resolv.conf", format!("nameserver {}\n", network.usual().node)),
    ];
    files.extend(["controller-manager", "scheduler", "proxy", "coredns", "kubelet", "admin"].map(
        |user| {
            let pki = format!("{}/pki", inside::CONFIGURATION);
            file(&format!("{user}.kubeconfig"), kubeconfig(user, &pki, network))
        },
    ));
    files
}

/// A kubeconfig of one of the users that have certificates in the directory `pki`.
pub(crate) fn kubeconfig(user: &str, pki: &str, network: &Network) -> String {
    pretty(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "flux-e2e", "cluster": {
            "server": format!("https://{}:6443", in_url(network.usual().node)),
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

fn containerd(built: &Built) -> String {
    let shim = program_inside(&Built::name_of(&built.containerd), "containerd-shim-runc-v2");
    let plugins = packages::CNI_PLUGINS;
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
  bin_dirs = ["{plugins}"]
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
/// the kernel filters bridges.
fn pod_network(network: &Network) -> Value {
    let addresses = network.all();
    let ranges: Vec<_> = addresses.iter().map(|it| json!([{"subnet": it.node_pods}])).collect();
    let routes: Vec<_> = addresses.iter().map(|it| json!({"dst": it.everywhere})).collect();
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": true,
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
    let cache = match network.dns_cache {
        0 => format!(
            "cache 30 {{\n        disable success {domain}\n        disable denial {domain}\n    }}"
        ),
        seconds => format!("cache {seconds}"),
    };
    format!(
        ".:53 {{
    errors
    ready 127.0.0.1:8181
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
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
            "addresses": [addresses.node],
            "conditions": {"ready": true},
            "nodeName": NODE_NAME,
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

    #[test]
    fn every_file_is_a_function_of_the_options() {
        let built = Built::at(std::path::Path::new("/cache/built"));
        for file in files("flux-e2e-test", &built, &Network::default()) {
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
        let built = Built::at(std::path::Path::new("/cache/built"));
        let wanted = ["kubelet.json", "cni/10-pods.conflist", "Corefile", "proxy.kubeconfig"];
        let files = files("flux-e2e-test", &built, &network).into_iter();
        let content = files.filter(|file| wanted.contains(&file.path.as_str()));
        let content: Vec<_> =
            content.map(|file| format!("# {}\n{}", file.path, file.content)).collect();
        insta::assert_snapshot!(content.join("\n"));
    }

    #[test]
    fn dns_answers_from_a_cache_where_that_is_asked_for() {
        let cached = corefile(&Network { dns_cache: 30, ..Network::default() });
        assert!(cached.contains("\n    cache 30\n"), "{cached}");
    }

    #[test]
    fn dns_is_a_service_without_pods() {
        insta::assert_snapshot!(objects(&Network::default()));
    }
}
