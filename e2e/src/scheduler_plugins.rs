//! A scheduler that gives nodes to the pods of a group together or not at all: the plugin coscheduling of
//! scheduler-plugins, built from its Go module. It runs beside the cluster's own scheduler.

use std::fs;

use anyhow::{Context as _, Result};

use crate::{
    cache::Cache,
    cluster::Cluster,
    images::{
        image::{Image, ImageConfig},
        layer::{Layer, Source},
    },
    kubernetes::{SCHEDULER_PLUGINS_VERSION, scheduler_plugins},
    programs,
    progress::Progress,
};

/// What pods name to be placed by it.
pub const SCHEDULER: &str = "scheduler-plugins-scheduler";

/// Name of the image, without its tag.
const IMAGE: &str = "localhost/flux-e2e/scheduler-plugins";

/// Where the program is in the image.
const PROGRAM: &str = "/scheduler-plugins";

/// What runs it. Of the members of a group that could be placed it keeps the places for ten seconds, until the
/// last one could, too. A group that was refused is looked at again when a pod or a group is made, and by
/// default every five minutes, whatever room there is meanwhile: here every thirty seconds.
const OBJECTS: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: scheduler-plugins}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: scheduler, namespace: scheduler-plugins}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scheduler-plugins}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: scheduler, namespace: scheduler-plugins}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: scheduler, namespace: scheduler-plugins}
data:
  configuration.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    leaderElection: {leaderElect: false}
    profiles:
      - schedulerName: SCHEDULER
        plugins:
          multiPoint: {enabled: [{name: Coscheduling}]}
          queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
        pluginConfig:
          - name: Coscheduling
            args: {permitWaitingTimeSeconds: 10}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: scheduler, namespace: scheduler-plugins}
spec:
  selector: {matchLabels: {app: scheduler}}
  template:
    metadata: {labels: {app: scheduler}}
    spec:
      serviceAccountName: scheduler
      containers:
        - name: scheduler
          image: IMAGE
          args: [--config=/etc/scheduler/configuration.yaml, --pod-max-in-unschedulable-pods-duration=1s]
          readinessProbe: {httpGet: {path: /healthz, port: 10259, scheme: HTTPS}, periodSeconds: 1}
          volumeMounts: [{name: configuration, mountPath: /etc/scheduler}]
      volumes: [{name: configuration, configMap: {name: scheduler}}]
"#;

/// Installs it with the definitions of what it reads, and waits until it runs.
pub fn install(cluster: &Cluster, progress: &Progress) -> Result<()> {
    let built = scheduler_plugins(&Cache::locate()?, progress)?;
    let scratch = tempfile::tempdir().context("making a directory for an image layer")?;
    let program = Source::file(PROGRAM, &built.join("scheduler-plugins"));
    let layer = Layer::from_sources(scratch.path(), &[program])?;
    let config = ImageConfig {
        entrypoint: vec![PROGRAM.to_owned()],
        user: "65532:65532".to_owned(),
        ..ImageConfig::default()
    };
    let image = format!("{IMAGE}:{SCHEDULER_PLUGINS_VERSION}");
    progress.step("loading scheduler-plugins", || {
        cluster.load_image(&Image::new(vec![layer], config), &[&image])
    })?;
    progress.step("installing scheduler-plugins", || {
        let path = built.join("definitions/scheduling.x-k8s.io_podgroups.yaml");
        let definition = fs::read_to_string(&path)
            .with_context(|| format!("reading the definition {}", path.display()))?;
        let objects = OBJECTS.replace("SCHEDULER", SCHEDULER).replace("IMAGE", &image);
        for text in [definition, objects] {
            let mut apply = cluster.kubectl(["apply", "--server-side", "-f", "-"]);
            programs::run_with_input(&mut apply, text.as_bytes())?;
        }
        let wait = ["rollout", "status", "deployment/scheduler", "--timeout=2m"];
        let words = [&["--namespace", "scheduler-plugins"][..], &wait].concat();
        programs::run(&mut cluster.kubectl(words)).map(drop)
    })
}
