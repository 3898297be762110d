//! What is applied for each contender.

use flux_contract::CurveCertificate;
use serde_json::{Value, json};

use super::contender::Contender;
use crate::product::images::{
    OPERATING_SYSTEM,
    for_benches::{AGENT_WITH_VIEW, PEER_VIEW, SYSTEM_WITH_VIEW},
};

/// The brokers' port.
const PORT: u16 = 8050;
/// The place that a view is built for.
const VIEW: &str = "/mnt/flux/view";
/// Where the Job written by hand has its configuration and its certificate.
const CONFIGURATION: &str = "/etc/by-hand";
const CERTIFICATE: &str = "/etc/by-hand-curve";

/// What is to be run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'run> {
    /// Who runs it.
    pub(super) contender: Contender,
    /// Name of the Job and the MiniCluster.
    pub(super) name: &'run str,
    /// Number of pods.
    pub(super) size: u32,
    /// The view's image, where it is mounted.
    pub(super) view: &'run str,
    /// Cores of the machine.
    pub(super) cores: usize,
}

impl Wanted<'_> {
    /// The Service that comes before everything else, as its address is in the configuration.
    pub(super) fn lead_service(&self) -> Option<Value> {
        let by_hand = [Contender::MountedByHand, Contender::CopiedByHand];
        by_hand.contains(&self.contender).then(|| {
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": self.name},
                "spec": {
                    "selector": {
                        "batch.kubernetes.io/job-name": self.name,
                        "batch.kubernetes.io/job-completion-index": "0",
                    },
                    "publishNotReadyAddresses": true,
                    "ports": [{"port": PORT}],
                },
            })
        })
    }

    /// Everything else; `address` is that of the Service, where there is one.
    pub(super) fn objects(&self, address: &str) -> Vec<Value> {
        match self.contender {
            Contender::Bare => vec![self.job(&self.container(&["true"]))],
            Contender::MountedByHand | Contender::CopiedByHand => {
                vec![self.secret(), self.configuration(address), self.job(&self.brokers())]
            }
            Contender::Mounted => vec![self.ours("Image", AGENT_WITH_VIEW)],
            Contender::Copied => vec![self.ours("Copy", self.view)],
            Contender::CopiedFromOne => vec![self.ours("Copy", AGENT_WITH_VIEW)],
            // With a certificate: its program makes one only if it was built with czmq.
            Contender::Peer => vec![self.minicluster(
                &json!({"container": {"image": PEER_VIEW}, "curveCert": self.certificate()}),
            )],
        }
    }

    fn ours(&self, install: &str, view: &str) -> Value {
        self.minicluster(&json!({"container": {"install": install, "image": view}}))
    }

    fn minicluster(&self, flux: &Value) -> Value {
        json!({
            "apiVersion": "flux-framework.org/v1alpha2",
            "kind": "MiniCluster",
            "metadata": {"name": self.name},
            "spec": {
                "size": self.size,
                "containers": [{"image": OPERATING_SYSTEM, "command": "true"}],
                "flux": flux,
            },
        })
    }

    fn job(&self, pod: &Value) -> Value {
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name},
            "spec": {
                "completionMode": "Indexed",
                "completions": self.size,
                "parallelism": self.size,
                "backoffLimit": 0,
                "template": {"spec": pod},
            },
        })
    }

    fn container(&self, command: &[&str]) -> Value {
        json!({
            "restartPolicy": "Never",
            "containers": [{
                "name": self.name,
                "image": OPERATING_SYSTEM,
                "imagePullPolicy": "IfNotPresent",
                "command": command,
            }],
        })
    }

    /// Pods that run a broker and nothing before it. All have the same command line: a broker other than the
    /// lead has no use for an initial program.
    fn brokers(&self) -> Value {
        let flux = format!("{VIEW}/bin/flux");
        let config = format!("--config-path={CONFIGURATION}/broker.toml");
        let nodes = format!("-N{}", self.size);
        let mut pod = self.container(&[&flux, "broker", &config, &flux, "run", &nodes, "true"]);
        pod["containers"][0]["env"] = json!([
            {"name": "PATH", "value": format!("{VIEW}/bin:/usr/bin:/bin")},
            {"name": "HOME", "value": "/tmp"},
        ]);
        let mut mounts = vec![
            json!({"name": "configuration", "mountPath": CONFIGURATION}),
            json!({"name": "certificate", "mountPath": CERTIFICATE}),
        ];
        let mut volumes = vec![
            json!({"name": "configuration", "configMap": {"name": self.name}}),
            json!({
                "name": "certificate",
                "secret": {"secretName": self.name, "defaultMode": 0o400},
            }),
        ];
        if self.contender == Contender::MountedByHand {
            let image = json!({"reference": self.view, "pullPolicy": "IfNotPresent"});
            volumes.push(json!({"name": "view", "image": image}));
            let inside = VIEW.trim_start_matches('/');
            mounts.push(json!({"name": "view", "mountPath": VIEW, "subPath": inside}));
        } else {
            volumes.push(json!({"name": "view", "emptyDir": {}}));
            mounts.push(json!({"name": "view", "mountPath": "/mnt/flux"}));
            pod["initContainers"] = json!([{
                "name": "copy",
                "image": SYSTEM_WITH_VIEW,
                "imagePullPolicy": "IfNotPresent",
                "command": ["cp", "-a", VIEW, "/volume/"],
                "volumeMounts": [{"name": "view", "mountPath": "/volume"}],
            }]);
        }
        pod["containers"][0]["volumeMounts"] = Value::Array(mounts);
        pod["volumes"] = Value::Array(volumes);
        pod
    }

    /// Of no secret key: the cluster ends with the measurement.
    fn certificate(&self) -> String {
        let certificate = CurveCertificate::new(self.name, [7; 32]);
        certificate.map(|it| it.to_text().expose().clone()).unwrap_or_default()
    }

    fn secret(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self.name},
            "stringData": {"curve.cert": self.certificate()},
        })
    }

    fn configuration(&self, address: &str) -> Value {
        let (name, last) = (self.name, self.size.saturating_sub(1));
        let broker = format!(
            r#"[bootstrap]
curve_cert = "{CERTIFICATE}/curve.cert"
default_port = {PORT}
default_bind = "tcp://*:%p"
default_connect = "tcp://%h:%p"

[[bootstrap.hosts]]
host = "{name}-0"
connect = "tcp://{address}:{PORT}"

[[bootstrap.hosts]]
host = "{name}-[0-{last}]"

[resource]
path = "{CONFIGURATION}/R"
"#
        );
        let ids = |last: usize| if last == 0 { "0".to_owned() } else { format!("0-{last}") };
        let ranks = ids(usize::try_from(last).unwrap_or_default());
        let cores = ids(self.cores.saturating_sub(1));
        let resources = json!({"version": 1, "execution": {
            "R_lite": [{"rank": ranks, "children": {"core": cores}}],
            "starttime": 0,
            "expiration": 0,
            "nodelist": [format!("{name}-[0-{last}]")],
        }});
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"broker.toml": broker, "R": resources.to_string()},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(contender: Contender) -> Wanted<'static> {
        Wanted { contender, name: "sample", size: 4, view: "view:1", cores: 2 }
    }

    #[test]
    fn a_copy_is_made_by_one_init_container_and_a_mount_by_none() {
        let pod = |contender| {
            let job = wanted(contender).objects("10.96.0.7").pop().unwrap();
            job["spec"]["template"]["spec"].clone()
        };
        assert_eq!(pod(Contender::MountedByHand)["initContainers"], Value::Null);
        assert_eq!(pod(Contender::CopiedByHand)["initContainers"].as_array().unwrap().len(), 1);
        assert_eq!(pod(Contender::Bare)["volumes"], Value::Null);
    }

    #[test]
    fn brokers_by_hand_know_the_address_of_the_lead_and_their_resources() {
        let configuration = wanted(Contender::MountedByHand).configuration("10.96.0.7");
        insta::assert_snapshot!(configuration["data"]["broker.toml"].as_str().unwrap(), @r#"
        [bootstrap]
        curve_cert = "/etc/by-hand-curve/curve.cert"
        default_port = 8050
        default_bind = "tcp://*:%p"
        default_connect = "tcp://%h:%p"

        [[bootstrap.hosts]]
        host = "sample-0"
        connect = "tcp://10.96.0.7:8050"

        [[bootstrap.hosts]]
        host = "sample-[0-3]"

        [resource]
        path = "/etc/by-hand/R"
        "#);
        let resources = configuration["data"]["R"].as_str().unwrap();
        assert!(resources.contains(r#""core":"0-1""#) && resources.contains(r#""rank":"0-3""#));
    }

    #[test]
    fn only_what_is_written_by_hand_needs_an_address_first() {
        let has_service = |it: &Contender| wanted(*it).lead_service().is_some();
        let with: Vec<_> = Contender::all(true).into_iter().filter(has_service).collect();
        assert_eq!(with, [Contender::MountedByHand, Contender::CopiedByHand]);
    }
}
