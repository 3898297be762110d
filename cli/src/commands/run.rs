//! `run`: a command in a new MiniCluster, as if it ran here.

mod follow;
mod specification;

use crate::commands::delete::{begin_deletion, wait_until_gone};
use crate::commands::explain::explain;
use crate::commands::status::summary;
use crate::connection::Connection;
use crate::exec::{self, INTERRUPTED};
use crate::output::{complain, print};
use crate::target::{Target, agent};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use flux_api::crd::served::{DOCUMENT_PATH, lacking_fields, message};
use flux_api::crd::{MiniCluster, State};
use follow::{End, Progress, follow};
use http::Request;
use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::Value;
use specification::Wanted;
use std::process::ExitCode;

/// `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    wanted: Wanted,
    /// Only create it, and print its name
    #[arg(long, short, conflicts_with = "interactive")]
    detach: bool,
    /// Do not delete it in the end
    #[arg(long)]
    keep: bool,
    /// Only print the MiniCluster
    #[arg(long = "dry-run")]
    only_prints: bool,
}

impl Run {
    pub(crate) async fn execute(
        self,
        connect: impl AsyncFnOnce() -> Result<Connection>,
    ) -> Result<ExitCode> {
        let cluster = self.wanted.minicluster(&mut getrandom::u32)?;
        if self.only_prints {
            print(&serde_saphyr::to_string(&cluster).context("write YAML")?);
            return Ok(ExitCode::SUCCESS);
        }
        let connection = connect().await?;
        // Nobody would see the end of a run without these. A server that does not tell is no reason not to try.
        let request = Request::get(DOCUMENT_PATH).body(Vec::new()).context("make a request")?;
        let served: Value = connection.client.request(request).await.unwrap_or_default();
        let lacking = lacking_fields(&served);
        let waits_for =
            |field: &String| ["status.state", "status.exitCode"].contains(&field.as_str());
        ensure!(!lacking.iter().any(waits_for), "{}", message(&lacking));
        let api = connection.api::<MiniCluster>();
        let name = cluster.name_any();
        let made = api.create(&PostParams::default(), &cluster).await;
        let made = made.with_context(|| format!("create the MiniCluster {name}"))?;
        let target = Target::new(connection, &name);
        if self.detach {
            print(&format!("minicluster/{name}"));
            return Ok(ExitCode::SUCCESS);
        }
        let code = if self.wanted.interactive {
            Box::pin(self.interact(&target)).await
        } else {
            Box::pin(self.to_the_end(&target)).await
        };
        if !self.keep {
            begin_deletion(&target).await?;
            if self.wanted.interactive {
                wait_until_gone(&target, &made.uid().unwrap_or_default()).await?;
            }
        }
        code.map(ExitCode::from)
    }

    /// Prints what the command prints, and returns its exit code.
    async fn to_the_end(&self, target: &Target) -> Result<u8> {
        let mut progress = Progress::new(&target.name);
        match Box::pin(follow(target, &mut progress)).await? {
            End::Run(cluster) => {
                let code = code(&cluster);
                if !is_of_command(&cluster) {
                    complain(&explain(target).await?);
                } else if code != Some(0) {
                    complain(&format!("kubectl flux: {}", summary(&cluster)));
                }
                code.with_context(|| format!("{} did not run", target.name))
            }
            End::Interrupted => {
                if self.keep {
                    complain(&format!("{} was deleted: it was interrupted", target.name));
                }
                Ok(INTERRUPTED)
            }
            End::Left => {
                complain(&format!("{} is still being deleted", target.name));
                Ok(INTERRUPTED)
            }
        }
    }

    /// A shell, or the command, in an instance that is up.
    async fn interact(&self, target: &Target) -> Result<u8> {
        let mut progress = Progress::new(&target.name);
        let pod = Box::pin(follow::until_ready(target, &mut progress)).await?;
        drop(progress);
        let agent = agent(&target.get().await?);
        let mut words = vec![agent.as_str(), "connect"];
        if !self.wanted.command.is_empty() {
            words.push("--");
            words.extend(self.wanted.command.iter().map(String::as_str));
        }
        exec::pass_through(target, &pod.name_any(), &words, true).await
    }
}

/// Whether the command itself has ended the run: what it printed says more than anybody else.
fn is_of_command(cluster: &MiniCluster) -> bool {
    let reason = cluster.status.as_ref().and_then(|status| status.reason.as_deref());
    reason.is_some_and(|reason| ["CommandSucceeded", "CommandFailed"].contains(&reason))
}

/// The exit code of a run that has ended, where it is that of a failure or nothing else has failed.
fn code(cluster: &MiniCluster) -> Option<u8> {
    let status = cluster.status.as_ref()?;
    let code = u8::try_from(status.exit_code?).ok()?;
    (code != 0 || status.state == Some(State::Complete)).then_some(code)
}
