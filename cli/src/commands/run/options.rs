//! Options of `run` for resources, volumes and places, as fields of the MiniCluster.

use crate::duration::seconds;
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

const GPU: &str = "nvidia.com/gpu";

#[derive(Debug, Clone, Default, Args)]
pub(super) struct Options {
    /// Cores of each pod
    #[arg(long, value_name = "QUANTITY")]
    cpu: Option<String>,
    /// Memory of each pod, e.g. 8Gi
    #[arg(long, value_name = "QUANTITY")]
    memory: Option<String>,
    /// GPUs of each pod, which the command sees: a number for nvidia.com/gpu, or RESOURCE=NUMBER
    #[arg(long, value_name = "NUMBER", value_parser = gpus)]
    gpus: Vec<(String, u32)>,
    /// Longest run time, e.g. 90s or 1h30m
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    time: Option<i64>,
    /// With --interactive: end the instance when it has had no job and no session for this long [default: 30m, none
    /// with --keep]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    idle_limit: Option<i64>,
    /// Service account of the pods
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// Volume of each pod, as SOURCE:PATH or SOURCE:PATH:ro; the source is the name of a persistent volume claim,
    /// configmap/NAME, secret/NAME, an absolute path on the node, or `empty`
    #[arg(long, value_name = "SOURCE:PATH", value_parser = volume)]
    volume: Vec<Value>,
    /// Secret with which the image is pulled
    #[arg(long, value_name = "NAME")]
    image_pull_secret: Option<String>,
    /// Label that a node must have
    #[arg(long, value_name = "LABEL=VALUE", value_parser = pair)]
    node_selector: Vec<(String, String)>,
    /// Serve the HTTP API of the instance
    #[arg(long)]
    rest: bool,
}

impl Options {
    pub(super) fn change_spec(&self, spec: &mut Value) {
        if let Some(seconds) = self.time {
            spec["deadlineSeconds"] = json!(seconds);
        }
        if let Some(seconds) = self.idle_limit {
            spec["idleDeadlineSeconds"] = json!(seconds);
        }
        if let Some(account) = &self.service_account {
            spec["pod"]["serviceAccountName"] = json!(account);
        }
        for (label, value) in &self.node_selector {
            spec["pod"]["nodeSelector"][label] = json!(value);
        }
        if self.rest && spec["flux"]["rest"].is_null() {
            spec["flux"]["rest"] = json!({});
        }
    }

    /// Gives the job of the command the GPUs of its pods, which Flux hides from a job that does not ask for them.
    pub(super) fn request_gpus(&self, spec: &mut Value) {
        let gpus: u32 = self.gpus.iter().map(|(_, number)| number).sum();
        if gpus == 0 || !spec["flux"]["optionFlags"].is_null() {
            return;
        }
        let [size, tasks] = ["size", "tasks"].map(|field| spec[field].as_i64().unwrap_or(1));
        // Flux gives whole nodes only to a job that asks for a number of nodes.
        let has_nodes = tasks == 0 || tasks >= size;
        let flags = if has_nodes { "--exclusive".to_owned() } else { format!("-g {gpus}") };
        spec["flux"]["optionFlags"] = json!(flags);
    }

    pub(super) fn change_container(&self, container: &mut Value) {
        if let Some(secret) = &self.image_pull_secret {
            container["imagePullSecret"] = json!(secret);
        }
        let named = [("cpu", &self.cpu), ("memory", &self.memory)];
        let named = named.into_iter().filter_map(|(name, it)| Some((name, json!(it.as_ref()?))));
        let gpus = self.gpus.iter().map(|(name, number)| (name.as_str(), json!(number)));
        for (name, quantity) in named.chain(gpus) {
            // Kubernetes requests as much as a limit allows.
            container["resources"]["limits"][name] = quantity;
        }
        for (index, volume) in self.volume.iter().enumerate() {
            container["volumes"][format!("volume-{}", index + 1)] = volume.clone();
        }
    }
}

fn gpus(text: &str) -> Result<(String, u32)> {
    let (name, number) = text.split_once('=').unwrap_or((GPU, text));
    let number = number.parse().context("write a number, or RESOURCE=NUMBER")?;
    Ok((name.to_owned(), number))
}

pub(super) fn pair(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').context("there is no = in it")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn volume(text: &str) -> Result<Value> {
    let (text, read_only) = text.strip_suffix(":ro").map_or((text, false), |text| (text, true));
    let (source, path) = text.rsplit_once(':').context("write SOURCE:PATH")?;
    ensure!(path.starts_with('/'), "{path:?} is not an absolute path in the container");
    let mut volume = match source.split_once('/') {
        None if source == "empty" => json!({ "emptyDir": true }),
        None => json!({ "claimName": source }),
        Some(("", _)) => json!({ "hostPath": source }),
        Some(("pvc", name)) => json!({ "claimName": name }),
        Some(("configmap", name)) => json!({ "configMapName": name }),
        Some(("secret", name)) => json!({ "secretName": name }),
        Some(_) => anyhow::bail!(
            "{source:?} is no source: use the name of a claim, configmap/NAME, secret/NAME, /PATH or empty"
        ),
    };
    volume["path"] = json!(path);
    if read_only {
        volume["readOnly"] = json!(true);
    }
    Ok(volume)
}
