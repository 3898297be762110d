//! `flux-agent rc`: does the tasks of rc1 or rc3, each as soon as those before it are done.

use crate::accounts::become_user::exec;
use crate::failure::{Failure, NO};
use crate::plan::variables::DISABLE_JOB_CLEANUP;
use crate::process::exit_status::end_text;
use crate::rc::broker::Broker;
use crate::rc::order::{Order, Tasks};
use crate::rc::release::{Prefix, check_config};
use crate::rc::steps::{CRON_DIRECTORY, DUMP, RECOVERY, RESTORE};
use crate::rc::task::{Action, RcStep, Task};
use crate::system::files::is_executable;
use crate::system::output::{chain, log_line, print_line, print_stderr};
use crate::system::root::Root;
use clap::{Args, ValueEnum};
use flux_protocol::client::SocketError;
use nix::errno::Errno;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::process::Command;
use tokio::task::JoinSet;

/// Set for Flux's scripts: those of older releases would load modules themselves.
const USES_MODPROBE: (&str, &str) = ("FLUX_RC_USE_MODPROBE", "t");
/// What Flux's `rc1.py` registers (flux-core 0.88, `push-cleanup`): the last is run first.
const CLEANUP: [&str; 4] = [
    "flux queue idle --quiet",
    "flux cancel --user=all --quiet --states RUN",
    "flux resource acquire-mute",
    "flux queue stop --quiet --all --nocheckpoint",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    Start,
    End,
}

impl Stage {
    /// As Flux calls it.
    const fn name(self) -> &'static str {
        match self {
            Self::Start => "rc1",
            Self::End => "rc3",
        }
    }
}

/// What a broker runs as its rc1 or rc3.
#[derive(Debug, Args)]
pub(crate) struct Rc {
    /// Load the modules, or remove them
    #[arg(value_enum)]
    stage: Stage,
    /// Where Flux is installed
    prefix: PathBuf,
    /// Print the tasks, each with those that it waits for, and do nothing
    #[arg(long)]
    show_deps: bool,
}

/// Does the tasks of a stage. Where that is not certain to be what Flux does, this becomes Flux's own program.
pub(crate) async fn run(rc: &Rc) -> Result<(), Failure> {
    let broker = Broker::from_environment()?;
    let prefix = Prefix::new(rc.prefix.clone(), Root::new("/"));
    let Decided { tasks, order, scheduler } = match decide(rc.stage, &prefix, &broker).await {
        Ok(decided) => decided,
        Err(why) => {
            let stage = rc.stage.name();
            log_line(&format!("flux modprobe {stage} takes over: {why}"));
            return exec(None, &[prefix.flux(), "modprobe".to_owned(), stage.to_owned()]);
        }
    };
    if rc.show_deps {
        print_line(&json!(order).to_string());
        return Ok(());
    }
    let restored = AtomicBool::new(false);
    let performance = Performance { broker, prefix, stage: rc.stage, tasks, scheduler, restored };
    if all_done(Arc::new(performance), order).await {
        return Ok(());
    }
    Err(Failure::with_code(NO, ""))
}

struct Decided {
    tasks: Tasks,
    order: Order,
    /// The scheduler, if nothing waits until it runs.
    scheduler: Option<String>,
}

async fn decide(stage: Stage, prefix: &Prefix, broker: &Broker) -> Result<Decided, String> {
    let facts = broker.facts().await?;
    check_config(&facts.config)?;
    let is_auto = |name: &&str| facts.attributes.get(name).is_some_and(|value| value == "auto");
    let auto = [RESTORE, DUMP].into_iter().find(is_auto);
    let recovers = Some(RECOVERY).filter(|name| facts.attributes.contains_key(name));
    if let Some(name) = auto.or(recovers) {
        return Err(format!("the attribute {name} is {:?}", facts.attributes[name]));
    }
    let mut tasks = Tasks::new(prefix.modules()?, facts)?;
    let order = match stage {
        Stage::Start => tasks.start()?,
        Stage::End => tasks.end(&broker.loaded().await?)?,
    };
    let waits = prefix.scripts(&format!("{}.d", stage.name()))?.iter().any(|it| is_executable(it));
    let scheduler = tasks.scheduler(&order).filter(|_| stage == Stage::Start && !waits);
    Ok(Decided { tasks, order, scheduler })
}

/// Does all tasks; whether each went well. After one that failed no other is started.
async fn all_done(performance: Arc<Performance>, order: Order) -> bool {
    let mut waiting: BTreeMap<String, BTreeSet<String>> = order;
    let mut running = JoinSet::new();
    let mut well = true;
    loop {
        let ready: Vec<String> =
            waiting.iter().filter(|(_, before)| before.is_empty()).map(|it| it.0.clone()).collect();
        for name in ready {
            waiting.remove(&name);
            let performance = performance.clone();
            running.spawn(async move {
                let done = performance.perform(&name).await;
                (name, done)
            });
        }
        match running.join_next().await {
            Some(Ok((name, Ok(())))) => {
                for before in waiting.values_mut() {
                    before.remove(&name);
                }
            }
            Some(failed) => {
                let text = failed.map_or_else(
                    |error| error.to_string(),
                    |(name, done)| format!("{name}: {}", done.err().unwrap_or_default()),
                );
                print_stderr(&text);
                well = false;
                waiting.clear();
            }
            None if waiting.is_empty() => return well,
            None => {
                let names: Vec<_> = waiting.into_keys().collect();
                print_stderr(&format!("these wait for each other: {}", names.join(", ")));
                return false;
            }
        }
    }
}

struct Performance {
    broker: Broker,
    prefix: Prefix,
    stage: Stage,
    tasks: Tasks,
    scheduler: Option<String>,
    /// The content is that of an archive, which is whole: there is nothing to check.
    restored: AtomicBool,
}

impl Performance {
    async fn perform(&self, name: &str) -> Result<(), String> {
        let task = self.tasks.get(name).ok_or("there is no such task")?;
        match task.action {
            Action::Load => self.load(task).await,
            Action::Remove => self.remove(name).await,
            Action::Step(step) => self.step(step).await,
        }
    }

    async fn load(&self, task: &Task) -> Result<(), String> {
        let truncates = task.is("content-backing") && self.attribute(RESTORE).is_some();
        let more: Vec<String> = truncates.then(|| "truncate".to_owned()).into_iter().collect();
        let request = task.load_request(&more);
        let loaded = self.ask("module.load", Some(&request));
        let done = if self.scheduler.as_ref() == Some(&task.name) {
            // That of Flux 0.88 takes as long to start as all other modules. Jobs wait for it in the job manager, and
            // PID 1 looks whether it comes.
            tokio::select! {
                loaded = loaded => loaded,
                listed = self.broker.lists(&task.name) => listed,
            }
        } else {
            loaded.await
        };
        done.map_err(|error| chain(&error))
    }

    async fn remove(&self, name: &str) -> Result<(), String> {
        match self.ask("module.remove", Some(&json!({ "name": name }))).await {
            Err(error) if !error.is(Errno::ENOENT) => Err(chain(&error)),
            _ => Ok(()),
        }
    }

    async fn ask(
        &self,
        topic: &str,
        payload: Option<&serde_json::Value>,
    ) -> Result<(), SocketError> {
        let _: serde_json::Value = self.broker.ask(topic, payload).await?;
        Ok(())
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.tasks.broker().attributes.get(name).map(String::as_str)
    }

    async fn step(&self, step: RcStep) -> Result<(), String> {
        match step {
            // The argument is given when the module is loaded.
            RcStep::CheckRestore => Ok(()),
            RcStep::Restore => self.restore().await,
            RcStep::PostStartEvent => self.flux(&["startlog", "--post-start-event"], None).await,
            RcStep::CheckCleanShutdown => self.check_clean_shutdown().await,
            RcStep::Fsck => self.fsck().await,
            RcStep::CronLoad => self.load_cron().await,
            RcStep::PushCleanup => self.push_cleanup().await,
            RcStep::Scripts => self.scripts().await,
            RcStep::PostFinishEvent => self.flux(&["startlog", "--post-finish-event"], None).await,
            RcStep::ContentFlush => self.ask("content.flush", None).await.map_err(|it| chain(&it)),
            RcStep::ContentDump => self.dump().await,
        }
    }

    async fn restore(&self) -> Result<(), String> {
        let file = self.attribute(RESTORE).unwrap_or_default();
        print_line(&format!("restoring content from {file}"));
        if !Path::new(file).exists() {
            return Ok(());
        }
        let words =
            ["restore", "--sd-notify", "--quiet", "--checkpoint", "--size-limit=100M", file];
        self.flux(&words, None).await?;
        self.restored.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn dump(&self) -> Result<(), String> {
        let file = self.attribute(DUMP).unwrap_or_default();
        print_line(&format!("dumping content to {file}"));
        let words = ["dump", "--sd-notify", "--quiet", "--ignore-failed-read", "--no-cache"];
        self.flux(&[&words[..], &["--maxreqs=128", "--checkpoint", file]].concat(), None).await
    }

    /// There is a log to check where there is content of an earlier instance.
    async fn check_clean_shutdown(&self) -> Result<(), String> {
        if !self.has_checkpoint().await? {
            return Ok(());
        }
        if self.flux(&["startlog", "--check", "--quiet"], None).await.is_err() {
            print_line("Flux was not shut down properly.  Data may have been lost.");
        }
        Ok(())
    }

    /// Repairs the content where there is any of an earlier instance. What cannot be repaired is not dumped in the end.
    async fn fsck(&self) -> Result<(), String> {
        if self.restored.load(Ordering::Relaxed) || !self.has_checkpoint().await? {
            return Ok(());
        }
        let repaired = self.flux(&["fsck", "--repair", "--job-aware", "--quiet"], None).await;
        if repaired.is_err() {
            let removed = self.ask("attr.rm", Some(&json!({ "name": DUMP }))).await;
            removed.map_err(|error| format!("remove attribute {DUMP}: {}", chain(&error)))?;
        }
        repaired
    }

    async fn has_checkpoint(&self) -> Result<bool, String> {
        match self.ask("content.checkpoint-get", None).await {
            Err(error) if error.is(Errno::ENOENT) => Ok(false),
            other => other.map(|()| true).map_err(|error| chain(&error)),
        }
    }

    async fn load_cron(&self) -> Result<(), String> {
        let directory = Path::new(self.attribute(CRON_DIRECTORY).unwrap_or_default());
        if !directory.is_dir() {
            return Ok(());
        }
        let failed = |error| format!("read directory {}: {error}", directory.display());
        for entry in fs::read_dir(directory).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            if file.is_file() {
                self.flux(&["cron", "tab"], Some(&file)).await?;
            }
        }
        Ok(())
    }

    async fn push_cleanup(&self) -> Result<(), String> {
        if std::env::var_os(DISABLE_JOB_CLEANUP.0).is_some() {
            return Ok(());
        }
        let request = json!({ "name": "cleanup", "commands": CLEANUP });
        self.ask("runat.push", Some(&request)).await.map_err(|error| chain(&error))
    }

    /// Runs all scripts, whatever becomes of each.
    async fn scripts(&self) -> Result<(), String> {
        let stage = self.stage.name();
        let mut well = true;
        for script in self.prefix.scripts(&format!("{stage}.d"))? {
            if !is_executable(&script) {
                continue;
            }
            print_line(&format!("running {}", script.display()));
            let mut command = Command::new(&script);
            if let Err(why) =
                run_to_end(&script, command.env(USES_MODPROBE.0, USES_MODPROBE.1)).await
            {
                print_stderr(&why);
                well = false;
            }
        }
        if well { Ok(()) } else { Err(format!("one or more {stage}.d scripts failed")) }
    }

    /// Runs `flux` with `arguments`, and `input` as its standard input.
    async fn flux(&self, arguments: &[&str], input: Option<&Path>) -> Result<(), String> {
        let flux = self.prefix.flux();
        let mut command = Command::new(&flux);
        command.args(arguments);
        if let Some(path) = input {
            let file = File::open(path);
            command.stdin(file.map_err(|error| format!("open {}: {error}", path.display()))?);
        } else {
            command.stdin(Stdio::null());
        }
        let shown = [&[flux.as_str()], arguments].concat().join(" ");
        run_to_end(&shown, &mut command).await
    }
}

async fn run_to_end(program: impl AsRef<OsStr>, command: &mut Command) -> Result<(), String> {
    let program = program.as_ref().display();
    let status = command.status().await.map_err(|error| format!("start {program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} {}", end_text(status))) }
}
