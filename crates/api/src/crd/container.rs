//! `spec.containers[]` and `spec.services[]`.

use super::rules::{invalid, required};
use educe::Educe;
use k8s_openapi::api::core::v1::{ResourceRequirements, SecurityContext};
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A container of every pod, or of the pod of `spec.services`.
#[skip_serializing_none]
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = required(".image", "has(self.image) && self.image != ''",
        "missing: name the image of the container"),
    validation = invalid(".launcher", "!(self.launcher && self.batch)",
        "launcher and batch exclude each other: keep one"),
    validation = invalid(".command", "(has(self.runFlux) && !self.runFlux) || !(has(self.command) && self.command != '' && has(self.commands) && has(self.commands.script) && self.commands.script != '')",
        "command and commands.script exclude each other: keep one"),
    validation = invalid(".fluxuser", "!(has(self.fluxUser) && has(self.fluxuser))",
        "give either fluxUser or fluxuser")
)]
pub struct Container {
    /// Image of the container, which must be given. It needs no Flux, and no shell unless hooks or shell
    /// syntax are used.
    pub image: Option<String>,

    /// Name of the container. Needed unless it runs Flux: that one has the MiniCluster's name.
    pub name: Option<String>,

    /// What the container runs. Where Flux runs: the command that is submitted, split as a shell
    /// splits words; with shell syntax outside quotes (`$`, `;`, `|`, several lines, ...) the
    /// container's `sh` runs it. Without one the instance is interactive. In other containers: a
    /// text for `sh`; without one and without hooks the image's own entrypoint runs. In services: a
    /// text for the container's `sh` in place of the image's entrypoint.
    pub command: Option<String>,

    /// Name of a pull secret for the image.
    pub image_pull_secret: Option<String>,

    /// `Always`, `IfNotPresent` or `Never`. Default `IfNotPresent`.
    #[schemars(extend("enum" = ["", "Always", "IfNotPresent", "Never"]))]
    pub image_pull_policy: Option<String>,

    /// Pull the image at every start; wins over `imagePullPolicy`. Default false.
    #[serde(default)]
    pub pull_always: bool,

    /// Working directory. Default: the image's.
    pub working_dir: Option<String>,

    /// TCP ports the container listens on. Beside the container that runs Flux, they get a Service
    /// `<name of the MiniCluster>-<name of the container>`, and one of the container's name alone,
    /// where that begins with a letter and is free, and the cluster allows it. Its ports are called
    /// `port-<number>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(p, self.exists_one(q, q == p))")
            .message("the list has a port twice: remove one")
            .reason(Reason::FieldValueDuplicate)
    )]
    #[schemars(schema_with = "ports")]
    pub ports: Vec<i32>,

    /// Environment, by variable name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,

    /// Environment from Secrets, by variable name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, SecretKey>,

    /// Number of cores, in the container's variable `FLUX_CORES`. It allocates nothing. Default 1.
    #[schemars(range(min = 1))]
    pub cores: Option<i32>,

    /// The command launches Flux jobs itself: it is not wrapped in `flux submit`. Default false.
    #[serde(default)]
    pub launcher: bool,

    /// Each line of the command is a job of one batch script. Default false.
    #[serde(default)]
    pub batch: bool,

    /// With `batch`: the lines are the script itself, not wrapped in `flux submit`. Its directives, as `#flux:
    /// --output=FILE`, count, unless `size`, `tasks` or `flux.optionFlags` override them. Default false.
    #[serde(default)]
    pub batch_raw: bool,

    /// With `batch`: directory of the jobs' `job-<line>.out` and `job-<line>.err`. Default
    /// `/tmp/fluxout`.
    pub logs: Option<String>,

    /// This container runs Flux. Default true for the only container; of several, exactly one runs
    /// Flux: the one with true, or the one without this field when all others have false.
    pub run_flux: Option<bool>,

    /// Keep the image's own entrypoint; `command` and `commands` are not used. Not for the
    /// container that runs Flux. Default false.
    #[serde(default)]
    pub no_wrap_entrypoint: bool,

    /// Run Flux's diagnostics instead of the command, and stay. For the container that runs Flux.
    /// Default false.
    #[serde(default)]
    pub diagnostics: bool,

    /// Existing volumes to mount, by name. Names are lower case and unique in the pod: the same
    /// name in two containers is the same volume.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub volumes: BTreeMap<String, ContainerVolume>,

    /// What runs when the container has started and before it stops.
    pub life_cycle: Option<LifeCycle>,

    /// Resources of the container. In the one that runs Flux, the CPU limit decides how many cores Flux
    /// schedules on in each pod: as many as the limit has whole ones, at least one. `claims` names claims
    /// of devices that `pod.overlay.resourceClaims` gives the pods.
    pub resources: Option<ResourceRequirements>,

    /// Security context of the container, passed on whole. Where the container starts as root and Flux
    /// runs as its own user, that user keeps the capabilities that `capabilities.add` names.
    pub security_context: Option<SecurityContext>,

    /// Scripts that run at given points.
    pub commands: Option<Commands>,

    /// Script that runs after the environment of Flux is set up, on lead and workers.
    pub pre_command: Option<String>,

    /// User that Flux runs as when the container starts as root.
    pub flux_user: Option<UserAccount>,

    /// Same as `fluxUser`.
    #[serde(rename = "fluxuser")]
    pub fluxuser: Option<UserAccount>,
}

/// Numbers from 1 to 65535. Written by hand: the derived range would apply to the list.
fn ports(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": { "type": "integer", "format": "int32", "minimum": 1, "maximum": 65535 },
    })
}

/// One key of a Secret.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// Name of the Secret.
    pub name: String,
    /// Key in the Secret.
    pub key: String,
}

/// What runs when a container has started and before it stops.
#[skip_serializing_none]
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LifeCycle {
    /// Command run in the container right after its start, read as `command` is.
    pub post_start_exec: Option<String>,

    /// Command run in the container before it is stopped, read as `command` is.
    pub pre_stop_exec: Option<String>,
}

/// The user that Flux runs as.
#[derive(JsonSchema, Educe, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[educe(Default)]
#[serde(rename_all = "camelCase", default)]
pub struct UserAccount {
    /// uid of the account if it has to be made. Default 1000.
    #[educe(Default = 1000)]
    #[schemars(range(min = 1))]
    pub uid: i64,

    /// Name of the account; one that is in the image is used as it is. Default `flux`.
    #[educe(Default(expression = "flux".to_owned()))]
    pub name: String,
}

/// Scripts that run at given points, by the container's `sh`. What they export, source or change
/// to carries over to what runs after them.
#[skip_serializing_none]
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = invalid(".preWorker", "!(has(self.workerPre) && has(self.preWorker))",
        "give either workerPre or preWorker"),
    validation = invalid(".preBroker", "!(has(self.brokerPre) && has(self.preBroker))",
        "give either brokerPre or preBroker")
)]
pub struct Commands {
    /// Goes before the submit, batch or launcher command, e.g. `fusion`; split as a shell does.
    pub prefix: Option<String>,

    /// A script that is run instead of a command, from `/tmp/custom-entrypoint.sh`. Only where Flux
    /// runs.
    pub script: Option<String>,

    /// Before everything else.
    pub init: Option<String>,

    /// On lead and workers, when the environment of Flux is set up.
    pub pre: Option<String>,

    /// At the end, in any case.
    pub post: Option<String>,

    /// On workers, after `pre`.
    pub worker_pre: Option<String>,

    /// Same as `workerPre`.
    pub pre_worker: Option<String>,

    /// On the lead, after `pre`.
    pub broker_pre: Option<String>,

    /// Same as `brokerPre`.
    pub pre_broker: Option<String>,

    /// In containers beside the one that runs Flux, before they wait for the broker.
    pub service_pre: Option<String>,

    /// Flux runs as root when the container does, instead of as the user `flux`. Default false.
    #[serde(default)]
    pub run_flux_as_root: bool,
}

/// An existing volume and where it is mounted. It has one source: a claim, a path of the node, files,
/// a CSI driver, or an empty directory.
#[skip_serializing_none]
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.hostPath) ? 1 : 0) + (has(self.configMapName) ? 1 : 0) + (has(self.claimName) ? 1 : 0) + (has(self.secretName) ? 1 : 0) + (has(self.csiDriver) ? 1 : 0) + (self.emptyDir ? 1 : 0) <= 1")
        .message("at most one of hostPath, configMapName, claimName, secretName, csiDriver and emptyDir: keep one")
        .reason(Reason::FieldValueInvalid),
    validation = required(".path", "has(self.path) || self.emptyDir",
        "missing: give the path at which the volume is mounted"),
    validation = invalid(".emptyDirSizeLimit", "!has(self.emptyDirSizeLimit) || self.emptyDirSizeLimit.matches('^([+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?)?$')",
        "not a quantity: write e.g. 64Gi or 500M")
)]
pub struct ContainerVolume {
    /// Where the volume is mounted. Default `/dev/shm` with `emptyDir: true`, else it must be given.
    #[schemars(length(min = 1))]
    pub path: Option<String>,

    /// Path on the node. Its existence and kind are not checked.
    #[schemars(length(min = 1))]
    pub host_path: Option<String>,

    /// Name of a `ConfigMap`.
    #[schemars(length(min = 1))]
    pub config_map_name: Option<String>,

    /// Files of a `ConfigMap` or Secret: key to path below the mount. Default: every key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub items: BTreeMap<String, String>,

    /// Name of a `PersistentVolumeClaim`.
    #[schemars(length(min = 1))]
    pub claim_name: Option<String>,

    /// Name of a Secret.
    #[schemars(length(min = 1))]
    pub secret_name: Option<String>,

    /// Mount it read-only. Default false.
    #[serde(default)]
    pub read_only: bool,

    /// An empty directory that lives as long as the pod. Default false.
    #[serde(default)]
    pub empty_dir: bool,

    /// Medium of the empty directory: `memory`, or a huge page size (`HugePages-2Mi`). Default: the
    /// node's disk.
    pub empty_dir_medium: Option<String>,

    /// Largest size of the empty directory, as a quantity, e.g. `64Gi`.
    #[schemars(length(max = 64))]
    pub empty_dir_size_limit: Option<String>,

    /// Name of a CSI driver for an inline volume.
    #[schemars(length(min = 1))]
    pub csi_driver: Option<String>,

    /// Attributes for the CSI driver.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub csi_driver_attributes: BTreeMap<String, String>,
}
