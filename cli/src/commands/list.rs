//! `list`: lists the MiniClusters of one namespace or of all.

use crate::connection::Connection;
use crate::output::{FormatArgument, age, coloured, print, print_stderr, table};
use anyhow::{Context as _, Result};
use clap::Args;
use flux_api::crd::MiniCluster;
use jiff::Timestamp;
use kube::api::{ListParams, ObjectList};
use kube::{Api, ResourceExt as _};

#[derive(Debug, Args)]
pub(crate) struct List {
    /// List the MiniClusters of all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// List only MiniClusters with these labels, as `kubectl get -l` does
    #[arg(long, short = 'l', value_name = "SELECTOR", default_value = "")]
    selector: String,
    #[command(flatten)]
    format: FormatArgument,
}

impl List {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let api: Api<MiniCluster> = if self.all_namespaces {
            Api::all(connection.client.clone())
        } else {
            connection.api()
        };
        let parameters = ListParams::default().labels(&self.selector);
        let list = api.list(&parameters).await.context("list MiniClusters")?;
        let names = list.iter().map(|it| format!("minicluster/{}", it.name_any()));
        if self.format.print(&list, names)? {
            return Ok(());
        }
        if list.items.is_empty() {
            let namespace = if self.all_namespaces { "any" } else { &connection.namespace };
            print_stderr(&format!("no MiniClusters found in {namespace} namespace"));
            return Ok(());
        }
        print(&self.table(list, Timestamp::now()));
        Ok(())
    }

    fn table(&self, list: ObjectList<MiniCluster>, now: Timestamp) -> String {
        let wide = self.format.is_wide();
        let mut header = Vec::new();
        header.extend(self.all_namespaces.then_some("NAMESPACE"));
        header.extend(["NAME", "SIZE", "READY", "STATUS", "EXIT", "AGE"]);
        header.extend(wide.then_some(["REASON", "QUEUE", "IMAGE"]).into_iter().flatten());
        let rows = list.items.into_iter().map(|cluster| {
            let mut row = Vec::new();
            row.extend(self.all_namespaces.then(|| cluster.namespace().unwrap_or_default()));
            row.extend(columns(&cluster, now));
            if wide {
                row.extend(wide_columns(&cluster));
            }
            row
        });
        table(&header, rows)
    }
}

fn columns(cluster: &MiniCluster, now: Timestamp) -> [String; 6] {
    let status = cluster.status.as_ref();
    let exit = status.and_then(|status| status.exit_code);
    let age = cluster.creation_timestamp().map(|since| age(since.0, now));
    [
        cluster.name_any(),
        cluster.size().to_string(),
        status.map_or(0, |status| status.ready_brokers).to_string(),
        coloured(cluster.state()),
        exit.map_or_else(|| "-".to_owned(), |code| code.to_string()),
        age.unwrap_or_else(|| "-".to_owned()),
    ]
}

fn wide_columns(cluster: &MiniCluster) -> [String; 3] {
    let or_none = |text: Option<&String>| text.cloned().unwrap_or_else(|| "-".to_owned());
    let status = cluster.status.as_ref();
    let image = cluster.spec.containers.first().and_then(|container| container.image.as_ref());
    [
        or_none(status.and_then(|status| status.reason.as_ref())),
        or_none(cluster.labels().get(flux_api::cluster::QUEUE_LABEL)),
        or_none(image),
    ]
}
