//! MiniClusters on a real cluster, in a namespace of their own: applied as a user would apply them.

pub mod checkpoint;
pub mod evidence;
pub mod instance;
pub mod logs;

use crate::cluster::Cluster;
use crate::kubernetes::Kubernetes;
use crate::product::{binaries, install, printed};
use anyhow::{Context as _, Result, ensure};
use flux_api::crd::MiniCluster;
use flux_contract::labels::{COMPLETION_INDEX, JOB_NAME};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A namespace of its own for a test, removed with [`Trial::clean`].
pub struct Trial {
    cluster: Cluster,
    client: Client,
    namespace: String,
}

impl Trial {
    /// Makes a namespace whose name begins with `purpose`.
    pub async fn begin(cluster: &Cluster, client: &Client, purpose: &str) -> Result<Self> {
        let generate_name = Some(format!("{purpose}-"));
        let metadata = ObjectMeta { generate_name, ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let made = Api::<Namespace>::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("making a namespace for {purpose}"))?;
        Ok(Self { cluster: cluster.clone(), client: client.clone(), namespace: made.name_any() })
    }

    /// Begins a trial in another namespace of the same cluster; the caller does not remove that namespace.
    pub async fn another(&self, purpose: &str) -> Result<Self> {
        Self::begin(&self.cluster, &self.client, purpose).await
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Lets the namespace enforce this level of Pod Security.
    pub fn enforce(&self, level: &str) -> Result<()> {
        let label = format!("pod-security.kubernetes.io/enforce={level}");
        self.kubectl(&["label", "namespace", self.namespace(), &label]).map(drop)
    }

    /// The cluster, which must be one of ours.
    pub fn own(&self) -> Result<&Kubernetes> {
        self.cluster.own().context("the cluster is not one of ours")
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// An API for objects of the trial's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Runs kubectl, by default in the trial's namespace, and returns the output.
    pub fn kubectl(&self, words: &[&str]) -> Result<String> {
        printed(&mut self.kubectl_command(words))
    }

    /// kubectl with these words, by default in the trial's namespace.
    pub fn kubectl_command(&self, words: &[&str]) -> Command {
        self.cluster.kubectl(&[&["--namespace", self.namespace()], words].concat())
    }

    /// `program`, which reaches the cluster by `KUBECONFIG`.
    pub fn program(&self, program: &Path) -> Command {
        self.cluster.program(program)
    }

    /// The uid of each pod of the operator, and how often its containers were started again.
    pub fn operator_pods(&self) -> Result<String> {
        let each = "{.metadata.uid} {.status.containerStatuses[*].restartCount}; ";
        let template = format!("-ojsonpath={{range .items[*]}}{each}{{end}}");
        self.kubectl(&["get", "pods", "--namespace", install::NAMESPACE, &template])
    }

    /// Applies one MiniCluster as `kubectl apply --server-side` would, with strict validation.
    pub async fn apply(&self, manifest: &str) -> Result<String> {
        let object: DynamicObject =
            serde_saphyr::from_str(manifest).context("reading the manifest of a MiniCluster")?;
        let name = object.name_any();
        let resource = ApiResource::erase::<MiniCluster>(&());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let parameters = PatchParams::apply("flux-e2e").validation_strict();
        api.patch(&name, &parameters, &Patch::Apply(&object))
            .await
            .with_context(|| format!("applying the MiniCluster {name}"))?;
        Ok(name)
    }

    /// The pods of a MiniCluster, by name.
    pub async fn pods(&self, name: &str) -> Result<Vec<Pod>> {
        let parameters = ListParams::default().labels(&format!("{JOB_NAME}={name}"));
        let list = self.api::<Pod>().list(&parameters).await;
        let mut pods = list.with_context(|| format!("listing the pods of {name}"))?.items;
        pods.sort_by_key(ResourceExt::name_any);
        Ok(pods)
    }

    /// The newest pod of that index, if there is one; that of index 0 is the lead.
    pub async fn pod(&self, name: &str, index: u32) -> Result<Option<Pod>> {
        let mut pods = self.pods(name).await?;
        pods.retain(|pod| pod.labels().get(COMPLETION_INDEX) == Some(&index.to_string()));
        Ok(pods.into_iter().max_by_key(|pod| pod.creation_timestamp().map(|at| at.0)))
    }

    /// Deletes the namespace with its objects, and does not wait: another test checks what a deletion leaves.
    pub async fn clean(self) -> Result<()> {
        let api: Api<Namespace> = Api::all(self.client);
        let deleted = api.delete(&self.namespace, &DeleteParams::default()).await;
        deleted.with_context(|| format!("deleting the namespace {}", self.namespace))?;
        Ok(())
    }
}

/// The manifest of a MiniCluster with this specification.
pub fn minicluster(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

pub(crate) fn is_finished(cluster: &MiniCluster) -> bool {
    is_true(cluster, "Complete") || is_true(cluster, "Failed")
}

/// True when the condition of that type is `True`.
pub fn is_true(cluster: &MiniCluster, kind: &str) -> bool {
    condition(cluster, kind).is_some_and(|condition| condition.status == "True")
}

pub fn condition<'cluster>(
    cluster: &'cluster MiniCluster,
    kind: &str,
) -> Option<&'cluster Condition> {
    let conditions = &cluster.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == kind)
}

#[derive(Debug)]
pub struct Printed {
    pub out: String,
    pub err: String,
}

impl Trial {
    /// `kubectl flux` with these arguments, in the trial's namespace.
    pub fn plugin(&self, words: &[&str]) -> Result<Command> {
        let mut command = self.program(&binaries::plugin()?);
        command.args(["--namespace", self.namespace()]).args(words);
        Ok(command)
    }

    /// The same on a terminal of 100 columns, which util-linux' script(1) makes.
    pub fn plugin_on_terminal(&self, words: &[&str]) -> Result<Command> {
        let plugin = self.plugin(words)?;
        let line = [plugin.get_program()].into_iter().chain(plugin.get_args());
        let line: Vec<&str> =
            line.map(|word| word.to_str()).collect::<Option<_>>().context("not UTF-8")?;
        let line = format!("stty rows 40 cols 100; exec {}", shlex::try_join(line)?);
        let mut script = self.program(Path::new("script"));
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        Ok(script)
    }

    /// Calls it, and fails unless it ends with `code`.
    pub fn plugin_ends(&self, code: i32, words: &[&str]) -> Result<Printed> {
        let output = self.plugin(words)?.output();
        let Output { status, stdout, stderr } =
            output.with_context(|| format!("running kubectl flux {words:?}"))?;
        let [out, err] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let is_expected = status.code() == Some(code);
        ensure!(is_expected, "kubectl flux {words:?}: {status}, not {code}:\n{out}\n{err}");
        Ok(Printed { out, err })
    }

    /// Returns its output; fails unless it ends with 0.
    pub fn plugin_prints(&self, words: &[&str]) -> Result<String> {
        Ok(self.plugin_ends(0, words)?.out)
    }

    /// The same as JSON.
    pub fn plugin_json(&self, words: &[&str]) -> Result<Value> {
        let text = self.plugin_prints(&[words, &["--output", "json"]].concat())?;
        serde_json::from_str(&text).with_context(|| format!("reading {text}"))
    }
}
