//! `flux-agent rc`: runs the tasks of rc1 or rc3, each as soon as the tasks before it have ended.

use crate::accounts::become_user::exec;
use crate::failure::{NO, Result, ended_with};
use crate::flux::client::CLEANUP;
use crate::plan::variables::DISABLE_JOB_CLEANUP;
use crate::process::exit_status::end_text;
use crate::rc::broker;
use crate::rc::order::{Order, Tasks};
use crate::rc::release::{Prefix, check_config};
use crate::rc::steps::{CRON_DIRECTORY, DUMP, RECOVERY, RESTORE, SCRIPTS};
use crate::rc::task::{Action, Task};
use crate::system::files::is_executable;
use crate::system::output::{chain, log_line, print_line, print_stderr};
use crate::system::root::Root;
use clap::{Args, ValueEnum};
use flux_protocol::client::modules::wait_for_module;
use flux_protocol::client::{BrokerAddress, NODE_ANY, SocketError};
use nix::errno::Errno;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::process::Command;
use tokio::task::JoinSet;

/// Set for Flux's scripts, because scripts of older releases would load modules themselves without it.
const USES_MODPROBE: (&str, &str) = ("FLUX_RC_USE_MODPROBE", "t");
/// The command of Flux's own cleanup that is not in [`CLEANUP`].
const MUTE: &str = "flux resource acquire-mute";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    Start,
    End,
}

impl Stage {
    /// The name that Flux gives the stage.
    const fn name(self) -> &'static str {
        match self {
            Self::Start => "rc1",
            Self::End => "rc3",
        }
    }
}

/// The arguments of `flux-agent rc`, which a broker runs as its rc1 or rc3.
#[derive(Debug, Args)]
pub(crate) struct Rc {
    /// Load the modules, or remove them
    #[arg(value_enum)]
    stage: Stage,
    /// The prefix of the Flux installation
    prefix: PathBuf,
    /// Print the tasks, each with those that it waits for, and do nothing
    #[arg(long)]
    show_deps: bool,
}

/// Runs the tasks of a stage. If they may differ from those of Flux, this process becomes Flux's own program instead.
pub(crate) async fn run(rc: &Rc) -> Result<()> {
    let broker = broker::from_environment()?;
    let prefix = Prefix::new(rc.prefix.clone(), Root::new("/"));
    let flux = prefix.flux();
    let (runner, order) = match TaskRunner::prepare(rc.stage, prefix, broker).await {
        Ok(prepared) => prepared,
        Err(why) => {
            let stage = rc.stage.name();
            log_line(&format!("flux modprobe {stage} takes over: {why}"));
            return exec(None, &[flux, "modprobe".to_owned(), stage.to_owned()]);
        }
    };
    if rc.show_deps {
        print_line(&json!(order).to_string());
        return Ok(());
    }
    ended_with(if run_all(Arc::new(runner), order).await { 0 } else { NO })
}

/// Runs each task as soon as the tasks before it have ended, and returns whether all succeeded. After a failure no task is
/// started.
async fn run_all(runner: Arc<TaskRunner>, order: Order) -> bool {
    let mut waiting: BTreeMap<String, BTreeSet<String>> = order;
    let mut running = JoinSet::new();
    let mut succeeded = true;
    loop {
        for (name, _) in waiting.extract_if(.., |_, before| before.is_empty()) {
            let runner = runner.clone();
            running.spawn(async move {
                let ended = runner.run_task(&name).await;
                (name, ended)
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
                    |(name, ended)| format!("{name}: {}", ended.err().unwrap_or_default()),
                );
                print_stderr(&text);
                succeeded = false;
                waiting.clear();
            }
            None if waiting.is_empty() => return succeeded,
            None => {
                let names: Vec<_> = waiting.into_keys().collect();
                print_stderr(&format!("these wait for each other: {}", names.join(", ")));
                return false;
            }
        }
    }
}

struct TaskRunner {
    broker: BrokerAddress,
    prefix: Prefix,
    stage: Stage,
    tasks: Tasks,
    /// The scheduler, if no task waits until it runs.
    scheduler: Option<String>,
    /// Whether the content is that of an archive, which needs no check.
    restored: AtomicBool,
}

impl TaskRunner {
    /// Decides which tasks run in which order. The error is why Flux has to run its own program.
    async fn prepare(
        stage: Stage,
        prefix: Prefix,
        broker: BrokerAddress,
    ) -> Result<(Self, Order), String> {
        let facts = broker::facts(&broker).await?;
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
            Stage::End => tasks.end(&broker::loaded(&broker).await?)?,
        };
        let scripts = prefix.scripts(&format!("{}.d", stage.name()))?;
        let has_scripts = scripts.iter().any(|script| is_executable(script));
        let scheduler = tasks.scheduler(&order).filter(|_| stage == Stage::Start && !has_scripts);
        let restored = AtomicBool::new(false);
        Ok((Self { broker, prefix, stage, tasks, scheduler, restored }, order))
    }

    async fn run_task(&self, name: &str) -> Result<(), String> {
        let task = self.tasks.get(name).ok_or("there is no such task")?;
        match task.action {
            Action::Load => self.load(task).await,
            Action::Remove => self.remove(name).await,
            Action::Step => self.run_step(name).await,
        }
    }

    async fn load(&self, task: &Task) -> Result<(), String> {
        let truncates = task.provides("content-backing") && self.attribute(RESTORE).is_some();
        let extra: Vec<String> = truncates.then(|| "truncate".to_owned()).into_iter().collect();
        let request = task.load_request(&extra);
        let loaded = self.ask("module.load", Some(&request));
        let ended = if self.scheduler.as_ref() == Some(&task.name) {
            // The scheduler of Flux 0.88 takes as long to start as all other modules together. Jobs wait for it in the
            // job manager, and PID 1 checks that it starts.
            tokio::select! {
                loaded = loaded => loaded,
                listed = wait_for_module(&self.broker, &task.name) => listed,
            }
        } else {
            loaded.await
        };
        ended.map_err(|error| chain(&error))
    }

    async fn remove(&self, name: &str) -> Result<(), String> {
        match self.ask("module.remove", Some(&json!({ "name": name }))).await {
            Err(error) if !error.is(Errno::ENOENT) => Err(chain(&error)),
            _ => Ok(()),
        }
    }

    /// Sends a request over a connection of its own, as several tasks run at once.
    async fn ask(&self, topic: &str, payload: Option<&Value>) -> Result<(), SocketError> {
        self.broker.ask(topic, NODE_ANY, payload).await.map(|_: Value| ())
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.tasks.broker().attributes.get(name).map(String::as_str)
    }

    /// Runs a step of `steps.toml`.
    async fn run_step(&self, name: &str) -> Result<(), String> {
        match name {
            // An argument of the module empties the backing store, see `load`.
            "check-restore" => Ok(()),
            "restore" => self.restore().await,
            "post-start-event" => self.flux(&["startlog", "--post-start-event"], None).await,
            "check-clean-shutdown" => self.check_clean_shutdown().await,
            "fsck" => self.fsck().await,
            "cron-load" => self.load_cron().await,
            "push-cleanup" => self.push_cleanup().await,
            "post-finish-event" => self.flux(&["startlog", "--post-finish-event"], None).await,
            "content-flush" => self.ask("content.flush", None).await.map_err(|error| chain(&error)),
            "content-dump" => self.dump().await,
            name if SCRIPTS.contains(&name) => self.scripts().await,
            _ => Err("there is no such step".to_owned()),
        }
    }

    async fn restore(&self) -> Result<(), String> {
        let file = self.attribute(RESTORE).unwrap_or_default();
        print_line(&format!("restoring content from {file}"));
        if !Path::new(file).exists() {
            return Ok(());
        }
        let argv = ["restore", "--sd-notify", "--quiet", "--checkpoint", "--size-limit=100M", file];
        self.flux(&argv, None).await?;
        self.restored.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn dump(&self) -> Result<(), String> {
        let file = self.attribute(DUMP).unwrap_or_default();
        print_line(&format!("dumping content to {file}"));
        let argv = ["dump", "--sd-notify", "--quiet", "--ignore-failed-read", "--no-cache"];
        self.flux(&[&argv[..], &["--maxreqs=128", "--checkpoint", file]].concat(), None).await
    }

    /// Checks the log of an earlier instance, if there is content of one.
    async fn check_clean_shutdown(&self) -> Result<(), String> {
        if !self.has_checkpoint().await? {
            return Ok(());
        }
        if self.flux(&["startlog", "--check", "--quiet"], None).await.is_err() {
            print_line("Flux was not shut down properly.  Data may have been lost.");
        }
        Ok(())
    }

    /// Repairs the content of an earlier instance. If that fails, the content is not dumped at the end.
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
        let [idle, cancel, stop] = CLEANUP;
        let pushed = self.broker.push_cleanup(&[idle, cancel, MUTE, stop]).await;
        pushed.map_err(|error| chain(&error))
    }

    /// Runs all scripts, also after a failed one.
    async fn scripts(&self) -> Result<(), String> {
        let stage = self.stage.name();
        let mut succeeded = true;
        for script in self.prefix.scripts(&format!("{stage}.d"))? {
            if !is_executable(&script) {
                continue;
            }
            print_line(&format!("running {}", script.display()));
            let mut command = Command::new(&script);
            command.env(USES_MODPROBE.0, USES_MODPROBE.1);
            if let Err(why) = run_to_end(&script, &mut command).await {
                print_stderr(&why);
                succeeded = false;
            }
        }
        if succeeded { Ok(()) } else { Err(format!("one or more {stage}.d scripts failed")) }
    }

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
