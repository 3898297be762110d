//! `validate`: checks files as the API server and the operator do, without either.

mod server;

use crate::error::print_error;
use crate::prelude::*;
use clap::ValueHint;
use flux_api::cluster::validate::Defaults;
use flux_api::offline::{self, Checker, Findings};
use std::io::stdin;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "Ends with 0 if all files are valid, 1 if there is a fault, 2 if a file cannot be read."
)]
pub(crate) struct Validate {
    /// YAML or JSON files, directories of such files, or - for standard input; objects of other kinds are skipped
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    files: Vec<PathBuf>,
    /// Also let the API server check all objects with a dry run; needs the right to create them
    #[arg(long, require_equals = true, value_parser = ["server"], value_name = "server")]
    dry_run: Option<String>,
    #[command(flatten)]
    format: FormatArgument,
}

impl Validate {
    pub(crate) async fn execute(
        &self,
        connect: impl AsyncFnOnce() -> Result<Connection>,
    ) -> Result<ExitCode> {
        let all = if self.dry_run.is_some() {
            self.check_with(&connect().await?).await
        } else {
            checker().check_all(&self.files, &mut stdin())
        };
        let read: Vec<_> = all.iter().flatten().collect();
        if self.format.print(&read, read.iter().map(|it| it.file.display().to_string()))? {
            all.iter().filter_map(|it| it.as_ref().err()).for_each(print_error);
        } else {
            offline::print(&all, print, print_stderr, print_error);
        }
        Ok(ExitCode::from(offline::exit_code(&all)))
    }

    async fn check_with(&self, connection: &Connection) -> Vec<Result<Findings>> {
        let mut all = Vec::new();
        for file in &self.files {
            let documents = match checker().documents_of(file, &mut stdin()) {
                Ok(Ok(documents)) => documents,
                unread => {
                    all.extend(unread.map(Result::err).transpose());
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

pub(crate) fn checker() -> Checker {
    Checker::new(Defaults::default())
}
