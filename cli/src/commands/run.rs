//! `run`: runs a command in a new MiniCluster, as if it ran in this terminal.

mod follow;
mod options;
mod specification;

use crate::commands::explain::explanation;
use crate::commands::status::{summary, without_log_command};
use crate::error::{line, misuse};
use crate::exec;
use crate::minicluster::layout;
use crate::output::DryRun;
use crate::prelude::*;
use crate::progress::Progress;
use crate::retry::{is_of_connection, is_refusal, repeated};
use crate::signals::{Guarded, Signals, guarded};
use anyhow::anyhow;
use flux_api::crd::served::{DOCUMENT_PATH, lacking_fields, message};
use follow::follow;
use http::Request;
use kube::api::PostParams;
use specification::{Made, RunSpec};

/// How often a creation is tried whose answer does not come.
const ATTEMPTS: u32 = 3;

/// How often the deletion after a run that has ended is requested while the API server is away.
const DELETION_ATTEMPTS: u32 = 5;

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
    /// Print the MiniCluster and do not create it; with `server`, as the API server would store it
    #[arg(long = "dry-run", value_enum, value_name = "WHERE", num_args = 0..=1, default_missing_value = "client")]
    checker: Option<DryRun>,
}

struct Outcome {
    code: Result<u8>,
    kept: Option<String>,
}

impl Run {
    pub(crate) async fn execute(
        self,
        connect: impl AsyncFnOnce() -> Result<Connection>,
    ) -> Result<ExitCode> {
        let made = match self.made() {
            Ok(made) => made,
            Err(error) => return Ok(misuse(&error)),
        };
        if self.checker == Some(DryRun::Client) {
            print_object(&made.object)?;
            return Ok(ExitCode::SUCCESS);
        }
        let connection = connect().await?;
        if let Err(error) = made.check_namespace(&connection.namespace) {
            return Ok(misuse(&error));
        }
        check_crd(&connection).await?;
        if self.checker == Some(DryRun::Server) {
            print_object(&create(&connection, &made, true).await?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let target = MiniClusterRef::new(connection, made.name());
        let mut signals = Signals::catch()?;
        let created = create(&target.connection, &made, false);
        let name = &target.name;
        let stop = async {
            print_stopping(name);
            Ok(())
        };
        let interrupted = match guarded(&mut signals, created, stop).await {
            Guarded::Done(created, signal) => created.map(|_| signal)?,
            Guarded::Left(code, _) => {
                print_stderr(&format!(
                    "the API server has not answered whether {name} was created: `kubectl flux list` shows it"
                ));
                return Ok(code.into());
            }
        };
        if self.detach {
            print(&target.full_name());
            return Ok(ExitCode::SUCCESS);
        }
        let code = match interrupted {
            Some(code) => {
                delete(&target, false, &mut signals).await;
                code
            }
            None => self.wait(&target, &mut signals).await?,
        };
        Ok(ExitCode::from(code))
    }

    fn made(&self) -> Result<Made> {
        let mut made = self.spec.minicluster(&mut getrandom::u32)?;
        if !self.keep && !self.detach && self.checker.is_none() {
            made.limit_leftovers();
        }
        made.check()?;
        Ok(made)
    }

    /// Waits for the end of the run, and deletes its MiniCluster, sooner after a signal.
    async fn wait(&self, target: &MiniClusterRef, signals: &mut Signals) -> Result<u8> {
        let name = &target.name;
        let work = async {
            if self.spec.interactive {
                Box::pin(self.session(target)).await
            } else {
                Box::pin(self.follow(target)).await
            }
        };
        let stop = async {
            print_stopping(name);
            begin_deletion(target, u32::MAX).await
        };
        let outcome = match guarded(signals, work, stop).await {
            Guarded::Done(outcome, None) => outcome,
            Guarded::Done(_, Some(code)) => {
                if self.keep {
                    print_stderr(&format!("deleted {name}, as you interrupted it"));
                }
                return Ok(code);
            }
            Guarded::Left(code, None) => {
                print_unconfirmed(name);
                return Ok(code);
            }
            Guarded::Left(code, Some(error)) => {
                print_stderr(&format!("kubectl flux: {}: {name} continues to run", line(&error)));
                return Ok(code);
            }
        };
        if let Some(kept) = &outcome.kept {
            print_stderr(kept);
        } else if !self.keep {
            delete(target, self.spec.interactive, signals).await;
        }
        outcome.code
    }

    async fn follow(&self, target: &MiniClusterRef) -> Outcome {
        let name = &target.name;
        let mut progress = progress(name);
        let (cluster, missing) = match Box::pin(follow(target, self.spec.broker, &mut progress))
            .await
        {
            Ok((Some(cluster), missing)) => (cluster, missing),
            Ok((None, _)) => {
                return Outcome { code: Err(anyhow!("somebody else deleted {name}")), kept: None };
            }
            Err(error) => {
                let kept = format!(
                    "{name} is not deleted and may run: `kubectl flux logs --follow {name}` prints its output, \
                     `kubectl flux delete {name}` ends it"
                );
                return Outcome { code: Err(error), kept: Some(kept) };
            }
        };
        let code = code(&cluster);
        let is_of_command = is_of_command(&cluster);
        if !is_of_command {
            print_stderr(&self.explanation(target, &cluster).await);
        } else if code != Some(0) {
            print_stderr(&format!("kubectl flux: {}", self.summary(&cluster)));
        }
        // The output of a run that never began is empty.
        let kept = missing.filter(|_| is_of_command).map(|missing| {
            format!(
                "output is missing: {missing}; {name} is kept for {}: read it with `kubectl flux logs {name}`, then \
                 `kubectl flux delete {name}`",
                if self.keep { "later" } else { "an hour" }
            )
        });
        Outcome { code: code.with_context(|| format!("{name} did not run")), kept }
    }

    /// Why the run has failed. Only pods that are kept have a log that can be read later.
    async fn explanation(&self, target: &MiniClusterRef, cluster: &MiniCluster) -> String {
        match explanation(target).await {
            Ok(explanation) if self.keep => explanation.text(),
            Ok(explanation) => explanation.without_pods().text(),
            Err(error) => format!("{}\n{}", self.summary(cluster), line(&error)),
        }
    }

    fn summary(&self, cluster: &MiniCluster) -> String {
        let text = summary(cluster);
        if self.keep { text } else { without_log_command(&text, &cluster.name_any()) }
    }

    /// Runs a shell, or the command, in a new instance, which outlives a connection that breaks.
    async fn session(&self, target: &MiniClusterRef) -> Outcome {
        let code = self.interact(target).await;
        let is_cut = code.as_ref().is_err_and(is_of_connection);
        let name = &target.name;
        let kept = is_cut.then(|| {
            format!(
                "{name} is not deleted: `kubectl flux shell {name}` enters it again, `kubectl flux delete {name}` ends it; \
                 it ends by itself when it has not been used for its idle limit"
            )
        });
        Outcome { code, kept }
    }

    async fn interact(&self, target: &MiniClusterRef) -> Result<u8> {
        let mut progress = progress(&target.name);
        let pod = Box::pin(follow::until_ready(target, &mut progress)).await?;
        drop(progress);
        let agent = layout(&target.get().await?).agent();
        let mut argv = vec![agent.as_str(), "connect"];
        if !self.spec.command.is_empty() {
            argv.push("--");
            argv.extend(self.spec.command.iter().map(String::as_str));
        }
        exec::pass_through(target, &pod.name_any(), &argv, true).await
    }
}

fn progress(name: &str) -> Progress {
    let mut progress = Progress::new(name);
    progress.print("created");
    progress
}

/// Prints that the MiniCluster may still be there: the API server may not have answered the request to delete it.
fn print_unconfirmed(name: &str) {
    print_stderr(&format!(
        "{name} may not be deleted yet: `kubectl flux delete {name}` waits for it"
    ));
}

fn print_stopping(name: &str) {
    print_stderr(&format!("Stopping {name}. Press Ctrl-C again to exit without waiting."));
}

async fn begin_deletion(target: &MiniClusterRef, times: u32) -> Result<()> {
    repeated(times, "trying again", async || target.delete(false).await).await.map(drop)
}

/// Deletes the MiniCluster of a run that has ended, whose exit code does not depend on it. A signal ends only the wait.
async fn delete(target: &MiniClusterRef, wait: bool, signals: &mut Signals) {
    let name = &target.name;
    let deletion = async {
        begin_deletion(target, DELETION_ATTEMPTS).await?;
        if wait { target.until_gone(None).await } else { Ok(()) }
    };
    tokio::select! {
        deleted = deletion => if let Err(error) = deleted {
            print_stderr(&format!(
                "warning: {}; {name} is still there: `kubectl flux delete {name}` deletes it",
                line(&error)
            ));
        },
        _ = signals.next() => print_unconfirmed(name),
    }
}

fn print_object(object: &Value) -> Result<()> {
    print(&serde_saphyr::to_string(object).context("write YAML")?);
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

/// Creates the MiniCluster and returns it as it is stored; with `dry_run` the API server only checks it.
async fn create(connection: &Connection, made: &Made, dry_run: bool) -> Result<Value> {
    let api = objects(connection, false);
    let object = serde_json::from_value(made.object.clone()).context("make the MiniCluster")?;
    let parameters = PostParams { dry_run, ..PostParams::default() };
    let name = made.name();
    let creating = || format!("create the MiniCluster {name}");
    let mut attempts = 0;
    let create = async || {
        attempts += 1;
        let created = match api.create(&parameters, &object).await {
            // A name with a random suffix is taken because an earlier attempt without an answer has created it.
            Err(kube::Error::Api(status))
                if status.code == 409 && attempts > 1 && made.has_random_name =>
            {
                api.get(name).await
            }
            created => created,
        };
        created.with_context(creating)
    };
    let created = match repeated(ATTEMPTS, "trying again", create).await {
        Err(error) if attempts > 1 && is_refusal(&error) => bail!(
            "{}: look with `kubectl flux status {name}` whether an earlier attempt, to which no answer came, has created it",
            line(&error)
        ),
        created => created?,
    };
    serde_json::to_value(created).context("read the MiniCluster")
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
