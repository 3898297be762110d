//! `version`: the versions of this plugin and of the operator, and whether they fit.

use crate::error;
use crate::prelude::*;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use serde::Serialize;

const PLUGIN: &str = env!("CARGO_PKG_VERSION");
pub(super) const LABELS: &str =
    "app.kubernetes.io/name=flux-operator,app.kubernetes.io/component=operator";

#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Print only the version of this plugin, without a cluster
    #[arg(long)]
    client: bool,
    #[command(flatten)]
    format: FormatArgument,
}

#[derive(Debug, Serialize)]
struct Operator {
    namespace: String,
    version: String,
}

impl Version {
    pub(crate) async fn execute(
        &self,
        connect: impl AsyncFnOnce() -> Result<Connection>,
    ) -> Result<()> {
        let found = if self.client { Ok(Vec::new()) } else { operators(connect).await };
        let remark = match &found {
            Ok(_) if self.client => None,
            Ok(operators) => remark(operators),
            Err(error) => Some(format!(
                "the version of the operator is not known, because the Deployments of all namespaces cannot be listed: {}",
                error::line(error)
            )),
        };
        let operators = found.unwrap_or_default();
        let all = json!({ "plugin": PLUGIN, "operators": operators, "remark": remark });
        if !self.format.print(&all, [PLUGIN.to_owned()])? {
            print(&format!("plugin {PLUGIN}"));
            for Operator { namespace, version } in operators {
                print(&format!("operator {version} in the namespace {namespace}"));
            }
            if let Some(remark) = remark {
                print_stderr(&remark);
            }
        }
        Ok(())
    }
}

async fn operators(connect: impl AsyncFnOnce() -> Result<Connection>) -> Result<Vec<Operator>> {
    let api: Api<Deployment> = Api::all(connect().await?.client);
    let found = api.list(&ListParams::default().labels(LABELS)).await?;
    let operators = found.into_iter().map(|deployment| {
        let namespace = deployment.namespace().unwrap_or_default();
        let pod = deployment.spec.template.spec.unwrap_or_default();
        let image = pod.containers.into_iter().find_map(|it| it.image).unwrap_or_default();
        let name = image.split('@').next().and_then(|image| image.rsplit('/').next());
        let tag = name.and_then(|name| name.split(':').nth(1));
        Operator { namespace, version: tag.unwrap_or("of an unknown version").to_owned() }
    });
    Ok(operators.collect())
}

fn remark(operators: &[Operator]) -> Option<String> {
    let is_known =
        |it: &&Operator| it.version.trim_start_matches('v').starts_with(char::is_numeric);
    let mut known = operators.iter().filter(is_known);
    let other = known.find(|it| minor(&it.version) != minor(PLUGIN));
    if operators.is_empty() {
        return Some(format!("no operator is installed: no Deployment has the labels {LABELS}"));
    }
    let Operator { namespace, version } = other?;
    Some(format!(
        "the plugin {PLUGIN} and the operator {version} in {namespace} do not fit: install the plugin \
         of the operator's release"
    ))
}

fn minor(version: &str) -> Vec<&str> {
    version.trim_start_matches('v').split('.').take(2).collect()
}
