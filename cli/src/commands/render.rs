//! `render`: every object that would be made of a MiniCluster, without a cluster.

use crate::commands::validate::complain_of;
use crate::output::print;
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

/// What stands above the objects, for people.
const NOTE: &str = "\
# What the operator would make of it. Only a cluster knows the rest: the uid, from which the name of the Secret
# follows, the address of the lead's Service, which is in agent.toml then, and the content of the Secret, a CURVE
# certificate that is random unless given. Unless a method is asked for, all nodes are taken to mount images.
";

/// `render`.
#[derive(Debug, Args)]
#[command(
    after_help = "Ends with 1 if a MiniCluster is not valid, and prints its faults then as `validate` does."
)]
pub(crate) struct Render {
    /// YAML or JSON file, or - for the standard input; other kinds than MiniCluster are passed over
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// How agent and view come into the pods where a MiniCluster does not say
    #[arg(long, value_name = "METHOD", default_value = "Auto", ignore_case = true)]
    #[arg(value_parser = PossibleValuesParser::new(Install::NAMES).try_map(|name| name.parse::<Install>()))]
    install: Install,
    /// Image that holds the agent
    #[arg(long, value_name = "IMAGE", default_value = AGENT_IMAGE)]
    agent_image: String,
    /// View image where a MiniCluster names none
    #[arg(long, value_name = "IMAGE", default_value = VIEW_IMAGE)]
    view_image: String,
    /// Only what the agents read
    #[arg(long = "agent-toml", conflicts_with = "output")]
    only_agent_config: bool,
    /// Form of the objects
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One List.
    Json,
    /// A document each.
    Yaml,
}

impl Render {
    /// `namespace` is that of MiniClusters that name none.
    pub(crate) fn execute(&self, namespace: &str) -> Result<ExitCode> {
        let defaults = Defaults::new(self.view_image.clone(), None, self.install);
        let read = Checker::new(defaults.clone()).documents_of(&self.file, &mut stdin())?;
        let (documents, mut faults) = match read {
            Ok(documents) => (documents, Vec::new()),
            Err(findings) => (Vec::new(), findings.faults),
        };
        faults.extend(documents.iter().flat_map(|it| it.findings.faults.clone()));
        if !faults.is_empty() {
            complain_of(&faults);
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
        // It is never pulled here.
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

/// What `object` becomes with an operator of these `defaults` and `images`.
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
    fn objects_are_documents_a_list_or_what_the_agents_read() {
        let yaml = rendered(&["--agent-image", "mirror/agent:1", "--view-image", "mirror/view:1"]);
        assert!(yaml.starts_with("# What") && yaml.contains("namespace: work"), "{yaml}");
        for image in ["mirror/agent:1", "mirror/view:1"] {
            assert!(yaml.contains(&format!("reference: {image}")), "{yaml}");
        }
        assert_eq!(yaml.matches("\n---\n").count(), 4, "{yaml}");
        let list: Value = serde_json::from_str(&rendered(&["-o", "json"])).unwrap();
        assert_eq!(list["items"].as_array().unwrap().len(), 5);
        let config = rendered(&["--agent-toml", "--install", "Copy"]);
        assert!(config.starts_with("version = ") && !config.contains("install"), "{config}");
    }
}
