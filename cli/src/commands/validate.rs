//! `validate`: the checks of the API server and of the operator, without either.

mod server;

use crate::connection::Connection;
use crate::output::{FormatArgument, complain, print};
use anyhow::Result;
use clap::{Args, ValueHint};
use flux_api::cluster::validate::Defaults;
use flux_api::crd::Install;
use flux_api::images::VIEW_IMAGE;
use flux_api::offline::{self, Checker, Findings, Remark};
use std::io::stdin;
use std::path::PathBuf;
use std::process::ExitCode;

/// `validate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Ends with 0 if everything is valid, with 1 if there is a fault, with 2 if something cannot be read."
)]
pub(crate) struct Validate {
    /// YAML or JSON files, directories of such files, or - for the standard input; other kinds than MiniCluster are
    /// passed over
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    files: Vec<PathBuf>,
    /// Also have the cluster's API server check what would be made of each, without keeping it; takes the right to create it
    #[arg(long)]
    server: bool,
    #[command(flatten)]
    format: FormatArgument,
}

impl Validate {
    pub(crate) async fn execute(
        &self,
        connect: impl AsyncFnOnce() -> Result<Connection>,
    ) -> Result<ExitCode> {
        let all = if self.server {
            self.check_with(&connect().await?).await
        } else {
            checker().check_all(&self.files, &mut stdin())
        };
        let read: Vec<_> = all.iter().flatten().collect();
        let names: Vec<String> = read.iter().map(|it| it.file.display().to_string()).collect();
        if self.format.print(&read, &names)? {
            all.iter().filter_map(|it| it.as_ref().err()).for_each(fail);
        } else {
            offline::print(&all, print, complain, fail);
        }
        Ok(ExitCode::from(offline::exit_code(&all)))
    }

    /// What this checks and the API server, document by document.
    async fn check_with(&self, connection: &Connection) -> Vec<Result<Findings>> {
        let mut all = Vec::new();
        for file in &self.files {
            let documents = match checker().documents_of(file, &mut stdin()) {
                Ok(Ok(documents)) => documents,
                Ok(Err(findings)) => {
                    all.push(Ok(findings));
                    continue;
                }
                Err(error) => {
                    all.push(Err(error));
                    continue;
                }
            };
            for mut document in documents {
                let checked = server::check(connection, &mut document).await;
                if document.is_checked() || !document.findings.faults.is_empty() {
                    all.push(checked.map(|()| document.findings));
                }
            }
        }
        all
    }
}

/// A checker for an operator with the defaults of this release.
pub(crate) fn checker() -> Checker {
    Checker::new(Defaults::new(VIEW_IMAGE.to_owned(), None, Install::default()))
}

fn fail(error: &anyhow::Error) {
    complain(&format!("kubectl flux: {error:#}"));
}

/// Prints remarks, a line each.
pub(crate) fn complain_of(remarks: &[Remark]) {
    for remark in remarks {
        complain(&remark.to_string());
    }
}
