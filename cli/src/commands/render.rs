//! `render`: prints the objects that the operator would create from a MiniCluster, without a cluster.

use crate::output::{print, print_remarks};
use anyhow::{Context as _, Result, anyhow};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueEnum, ValueHint};
use flux_api::cluster::validate::Defaults;
use flux_api::crd::{Install, MiniCluster};
use flux_api::images::{AGENT_IMAGE, VIEW_IMAGE};
use flux_api::objects::AGENT_CONFIG_KEY;
use flux_api::objects::Images;
use flux_api::offline::{Checker, Document};
use flux_api::render::{cluster, render};
use serde_json::{Value, json};
use std::io::stdin;
use std::path::PathBuf;
use std::process::ExitCode;

const NOTE: &str = "\
# The objects that the operator would create. These values are known only in a cluster: the uid and, from it, the name of
# the Secret; the address of the lead's Service in agent.toml; the content of the Secret, a CURVE certificate that is
# random unless the file has one. Without --install, all nodes are assumed to mount images.
";

#[derive(Debug, Args)]
#[command(
    after_help = "If a MiniCluster is not valid, prints its faults as `validate` does, and ends with 1."
)]
pub(crate) struct Render {
    /// YAML or JSON file, or - for standard input; objects of other kinds are skipped
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// How agent and view get into the pods of MiniClusters that do not choose
    #[arg(long, value_name = "METHOD", default_value = "Auto", ignore_case = true)]
    #[arg(value_parser = PossibleValuesParser::new(Install::NAMES).try_map(|name| name.parse::<Install>()))]
    install: Install,
    /// Image that holds the agent
    #[arg(long, value_name = "IMAGE", default_value = AGENT_IMAGE)]
    agent_image: String,
    /// View image of MiniClusters that name none
    #[arg(long, value_name = "IMAGE", default_value = VIEW_IMAGE)]
    view_image: String,
    /// Print only agent.toml, the configuration of the agents
    #[arg(long = "agent-toml", conflicts_with = "output")]
    only_agent_config: bool,
    /// Format of the output
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One List object.
    Json,
    /// One document for each object.
    Yaml,
}

impl Render {
    /// `namespace` is the namespace of MiniClusters that name none.
    pub(crate) fn execute(&self, namespace: &str) -> Result<ExitCode> {
        let defaults = Defaults::new(self.view_image.clone(), None, self.install);
        let read = Checker::new(defaults.clone()).documents_of(&self.file, &mut stdin())?;
        let (documents, mut faults) = match read {
            Ok(documents) => (documents, Vec::new()),
            Err(findings) => (Vec::new(), findings.faults),
        };
        faults.extend(documents.iter().flat_map(|it| it.findings.faults.clone()));
        if !faults.is_empty() {
            print_remarks(&faults);
            return Ok(ExitCode::FAILURE);
        }
        let objects = self.objects(documents, &defaults, namespace)?;
        print(&self.text(&objects)?);
        Ok(ExitCode::SUCCESS)
    }

    fn objects(
        &self,
        documents: Vec<Document>,
        defaults: &Defaults,
        namespace: &str,
    ) -> Result<Vec<Value>> {
        // The policy of the operator is not known here.
        let agent_pull_policy = "IfNotPresent".to_owned();
        let images = Images { agent: self.agent_image.clone(), agent_pull_policy };
        let mut all = Vec::new();
        for object in documents.into_iter().filter_map(|document| document.object) {
            all.extend(objects_of(object, defaults, &images, namespace)?);
        }
        Ok(all)
    }

    fn text(&self, objects: &[Value]) -> Result<String> {
        if self.only_agent_config {
            let data = objects.iter().filter_map(|it| it["data"][AGENT_CONFIG_KEY].as_str());
            return Ok(data.collect::<Vec<_>>().join("\n"));
        }
        match self.output {
            Format::Json => {
                let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
                serde_json::to_string_pretty(&list).context("write JSON")
            }
            Format::Yaml => {
                let text = serde_saphyr::to_string_multiple(objects).context("write YAML")?;
                Ok(format!("{NOTE}{text}"))
            }
        }
    }
}

/// The objects that an operator with these `defaults` and `images` creates from `object`.
pub(crate) fn objects_of(
    mut object: MiniCluster,
    defaults: &Defaults,
    images: &Images,
    namespace: &str,
) -> Result<Vec<Value>> {
    object.metadata.namespace.get_or_insert_with(|| namespace.to_owned());
    let name = object.metadata.name.clone().unwrap_or_default();
    let doing = || format!("render the MiniCluster {name}");
    let cluster = cluster(&object, defaults).map_err(|faults| anyhow!("{faults}"));
    cluster.and_then(|cluster| render(&cluster, images)).with_context(doing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use std::path::Path;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        render: Render,
    }

    fn rendered(options: &[&str]) -> String {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/hello-world/minicluster.yaml");
        let render = Line::parse_from(["render", file].iter().chain(options)).render;
        let defaults = Defaults::new(render.view_image.clone(), None, render.install);
        let read = Checker::new(defaults.clone()).documents_of(Path::new(file), &mut stdin());
        let objects = render.objects(read.unwrap().unwrap(), &defaults, "work").unwrap();
        render.text(&objects).unwrap()
    }

    #[test]
    fn objects_are_documents_or_a_list_or_agent_toml() {
        let yaml = rendered(&["--agent-image", "mirror/agent:1", "--view-image", "mirror/view:1"]);
        assert!(yaml.starts_with("# The objects") && yaml.contains("namespace: work"), "{yaml}");
        for image in ["mirror/agent:1", "mirror/view:1"] {
            assert!(yaml.contains(&format!("reference: {image}")), "{yaml}");
        }
        assert_eq!(yaml.matches("\n---\n").count(), 4, "{yaml}");
        // Paths in pods have slashes on Windows, too.
        assert!(!yaml.contains('\\'), "{yaml}");
        let list: Value = serde_json::from_str(&rendered(&["-o", "json"])).unwrap();
        assert_eq!(list["items"].as_array().unwrap().len(), 5);
        let config = rendered(&["--agent-toml", "--install", "Copy"]);
        assert!(config.starts_with("version = ") && !config.contains("install"), "{config}");
    }
}
