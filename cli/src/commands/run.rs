//! `run`: runs a command in a new MiniCluster, as if it ran in this terminal.

mod follow;
mod specification;

use crate::commands::delete::{begin_deletion, wait_until_gone};
use crate::commands::explain::explain;
use crate::commands::status::summary;
use crate::connection::Connection;
use crate::exec;
use crate::exit::INTERRUPTED;
use crate::minicluster::{MiniClusterRef, agent};
use crate::output::{print, print_stderr};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use flux_api::crd::served::{DOCUMENT_PATH, lacking_fields, message};
use flux_api::crd::{MiniCluster, State};
use follow::{End, Progress, follow};
use http::Request;
use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::Value;
use specification::RunSpec;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    spec: RunSpec,
    /// Create the MiniCluster, print its name, and do not wait
    #[arg(long, short, conflicts_with = "interactive")]
    detach: bool,
    /// Do not delete the MiniCluster after the run
    #[arg(long)]
    keep: bool,
    /// Print the MiniCluster, and do not create it
    #[arg(long = "dry-run")]
    only_prints: bool,
}

impl Run {
    pub(crate) async fn execute(
        self,
        connect: impl AsyncFnOnce() -> Result<Connection>,
    ) -> Result<ExitCode> {
        let cluster = self.spec.minicluster(&mut getrandom::u32)?;
        if self.only_prints {
            print(&serde_saphyr::to_string(&cluster).context("write YAML")?);
            return Ok(ExitCode::SUCCESS);
        }
        let connection = connect().await?;
        check_crd(&connection).await?;
        let api = connection.api::<MiniCluster>();
        let name = cluster.name_any();
        let made = api.create(&PostParams::default(), &cluster).await;
        let made = made.with_context(|| format!("create the MiniCluster {name}"))?;
        let target = MiniClusterRef::new(connection, &name);
        if self.detach {
            print(&format!("minicluster/{name}"));
            return Ok(ExitCode::SUCCESS);
        }
        let code = if self.spec.interactive {
            Box::pin(self.interact(&target)).await
        } else {
            Box::pin(self.follow(&target)).await
        };
        if !self.keep {
            begin_deletion(&target).await?;
            if self.spec.interactive {
                wait_until_gone(&target, made.uid().as_deref()).await?;
            }
        }
        code.map(ExitCode::from)
    }

    /// Prints the output of the command, and returns its exit code.
    async fn follow(&self, target: &MiniClusterRef) -> Result<u8> {
        let mut progress = Progress::new(&target.name);
        match Box::pin(follow(target, &mut progress)).await? {
            End::Run(cluster) => {
                let code = code(&cluster);
                if !is_of_command(&cluster) {
                    print_stderr(&explain(target).await?);
                } else if code != Some(0) {
                    print_stderr(&format!("kubectl flux: {}", summary(&cluster)));
                }
                code.with_context(|| format!("{} did not run", target.name))
            }
            End::Interrupted => {
                if self.keep {
                    print_stderr(&format!("deleted {}, as you interrupted it", target.name));
                }
                Ok(INTERRUPTED)
            }
            End::InterruptedTwice => {
                print_stderr(&format!("{} is still being deleted", target.name));
                Ok(INTERRUPTED)
            }
        }
    }

    /// Runs a shell, or the command, in the lead of a ready instance.
    async fn interact(&self, target: &MiniClusterRef) -> Result<u8> {
        let mut progress = Progress::new(&target.name);
        let pod = Box::pin(follow::until_ready(target, &mut progress)).await?;
        drop(progress);
        let agent = agent(&target.get().await?);
        let mut argv = vec![agent.as_str(), "connect"];
        if !self.spec.command.is_empty() {
            argv.push("--");
            argv.extend(self.spec.command.iter().map(String::as_str));
        }
        exec::pass_through(target, &pod.name_any(), &argv, true).await
    }
}

/// Fails if the cluster's CRD lacks the fields of the status that show the end of a run. An API server that does not
/// publish its schemas is accepted.
async fn check_crd(connection: &Connection) -> Result<()> {
    let request = Request::get(DOCUMENT_PATH).body(Vec::new()).context("make a request")?;
    let served: Value = connection.client.request(request).await.unwrap_or_default();
    let lacking = lacking_fields(&served);
    let is_needed = |field: &String| ["status.state", "status.exitCode"].contains(&field.as_str());
    ensure!(!lacking.iter().any(is_needed), "{}", message(&lacking));
    Ok(())
}

/// Whether the command itself has ended the run. Then its output explains more than the conditions do.
fn is_of_command(cluster: &MiniCluster) -> bool {
    let reason = cluster.status.as_ref().and_then(|status| status.reason.as_deref());
    reason.is_some_and(|reason| ["CommandSucceeded", "CommandFailed"].contains(&reason))
}

/// The exit code of a run that has ended; `None` if it is 0 and the run has failed all the same.
fn code(cluster: &MiniCluster) -> Option<u8> {
    let status = cluster.status.as_ref()?;
    let code = u8::try_from(status.exit_code?).ok()?;
    (code != 0 || status.state == Some(State::Complete)).then_some(code)
}
