//! Performs the steps of a plan. What touches files runs off PID 1's thread, which applies the result to the session.

use crate::accounts::become_user::{Target, check_capabilities};
use crate::accounts::ensure::{Account, ensure_user};
use crate::execute::hook::run_hook;
use crate::execute::run::{Files, Run};
use crate::execute::session::Identity;
use crate::execute::working_directory::{adopt, adopt_own, takes_files};
use crate::failure::{Failure, Result, failed};
use crate::lead::wait::wait_for_lead;
use crate::plan::decide::lead_route;
use crate::plan::step::{
    AccountChoice, AwaitLead, BATCH_SCRIPT, BATCH_SCRIPT_VARIABLE, Owner, Step,
};
use crate::system::environment::{Environment, find_program};
use crate::system::files::{self, is_executable};
use flux_contract::obstacle::Obstacle;
use flux_contract::{Exit, phase};
use flux_protocol::CurveCertificate;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a step changes in what later processes inherit.
enum SessionChange {
    None,
    Identity(Identity),
    Certificate(CurveCertificate),
    WorkingDirectory(PathBuf),
    BatchScript(PathBuf),
}

pub(crate) async fn execute_all(run: &mut Run, steps: &[Step]) -> Result<()> {
    for step in steps {
        tokio::select! {
            biased;
            stop = run.signals.stop() => return Err(stop.into()),
            // Gives the runtime the time to notice a signal.
            () = tokio::task::yield_now() => {}
        }
        let hook = matches!(step, Step::RunHook(_));
        run.progress.enter(if hook { phase::HOOKS } else { phase::PREPARE });
        execute(run, step).await?;
    }
    Ok(())
}

pub(crate) async fn execute(run: &mut Run, step: &Step) -> Result<()> {
    let hook = if let Step::RunHook(hook) = step { Some(hook.name) } else { None };
    run.progress.doing(hook);
    if step.is_detail() {
        run.log.debug(&step.to_string());
    } else {
        run.log.info(&step.to_string());
    }
    match step {
        Step::RunHook(hook) => run_hook(run, hook).await,
        Step::ChangeEnvironment(changes) => {
            run.session.change(changes);
            Ok(())
        }
        // It is in the shared volume, and has to be there also after a stop.
        Step::MarkComplete(path) => {
            let code = format!("{}\n", run.exit_code);
            run.files().write(path, code.as_bytes(), 0o644, Owner::Container)
        }
        Step::UseAccount(_)
        | Step::MakeDirectory { .. }
        | Step::RemoveFile(_)
        | Step::WriteFile(_)
        | Step::InstallCertificate { .. }
        | Step::InstallMungeKey { .. }
        | Step::FindFlux
        | Step::AdoptWorkingDirectory
        | Step::WriteBatchScript { .. } => {
            let (files, owned) = (run.files(), step.clone());
            let work = move || files.execute(&owned);
            let change = run.off_thread(&step.to_string(), Duration::ZERO, work).await??;
            apply(run, change);
            Ok(())
        }
    }
}

fn apply(run: &mut Run, change: SessionChange) {
    match change {
        SessionChange::None => {}
        SessionChange::Identity(identity) => run.session.identity = Some(identity),
        SessionChange::Certificate(certificate) => run.session.certificate = Some(certificate),
        SessionChange::WorkingDirectory(path) => {
            run.session.environment.insert("PWD".into(), path.clone().into());
            run.session.working_directory = path;
        }
        SessionChange::BatchScript(path) => {
            run.session.environment.insert(BATCH_SCRIPT_VARIABLE.into(), path.into());
        }
    }
}

impl Files {
    fn execute(&self, step: &Step) -> Result<SessionChange> {
        match step {
            Step::UseAccount(choice) => return self.use_account(choice),
            Step::MakeDirectory { path, mode, owner, ours, required } => {
                self.make_directory(path, (*mode, *owner), *ours, *required)?;
            }
            Step::RemoveFile(path) => {
                files::remove(&self.root.at(path)).map_err(failed("remove", path))?;
            }
            Step::WriteFile(file) => {
                self.write(&file.path, file.content.as_bytes(), file.mode, Owner::Container)?;
            }
            Step::InstallCertificate { from, to, link } => {
                let certificate = self.install_certificate(from, to)?;
                let linked = files::link(&self.root.at(link), &self.root.at(to));
                linked.map_err(failed("make the link", link))?;
                return Ok(SessionChange::Certificate(certificate));
            }
            Step::InstallMungeKey { from, to, owner } => {
                self.install_munge_key(from, to, *owner)?;
            }
            Step::FindFlux => find_flux(&self.session.environment)?,
            Step::AdoptWorkingDirectory => {
                let home = adopt_own(self, &self.session.working_directory);
                return Ok(home.map_or(SessionChange::None, SessionChange::WorkingDirectory));
            }
            Step::WriteBatchScript { fallback_directory, script } => {
                let path = self.write_batch_script(fallback_directory, script)?;
                return Ok(SessionChange::BatchScript(path));
            }
            Step::RunHook(_) | Step::ChangeEnvironment(_) | Step::MarkComplete(_) => {}
        }
        Ok(SessionChange::None)
    }

    fn make_directory(
        &self,
        path: &Path,
        (mode, owner): (u32, Owner),
        ours: bool,
        required: bool,
    ) -> Result<()> {
        let place = self.root.at(path);
        if !ours && files::is_directory(&place) {
            adopt(self, &place);
            return Ok(());
        }
        let result = files::make_directory(&place, mode, self.ids(owner));
        match result.map_err(failed("make directory", path)) {
            Err(error) if !required => {
                self.log.info(&format!("going on without: {error}"));
                Ok(())
            }
            result => result,
        }
    }

    /// Flux refuses a certificate that others can read, and Kubernetes makes mounted Secrets readable for a group as soon
    /// as a pod has an `fsGroup`: hence the copy.
    fn install_certificate(&self, from: &Path, to: &Path) -> Result<CurveCertificate> {
        let reading = "read the CURVE certificate";
        let text = fs::read_to_string(self.root.at(from)).map_err(failed(reading, from))?;
        // The message has what is wrong with it, and never its content.
        let certificate = CurveCertificate::parse(&text).map_err(|error| {
            Failure::because(Exit::Prepare, format!("{reading} {}", from.display()), &error)
        })?;
        self.write(to, text.as_bytes(), 0o600, Owner::Broker)?;
        Ok(certificate)
    }

    fn install_munge_key(&self, from: &Path, to: &Path, owner: Option<(u32, u32)>) -> Result<()> {
        let root = &self.root;
        let key = fs::read(root.at(from)).map_err(failed("read the munge key", from))?;
        let directory = to.parent().unwrap_or(to);
        if !root.at(directory).is_dir() {
            files::make_directory(&root.at(directory), 0o700, owner)
                .map_err(failed("make directory", directory))?;
        }
        files::write(&root.at(to), &key, 0o400, owner).map_err(failed("write", to))
    }

    /// Writes `script` into the working directory, or into `fallback` where the broker's user cannot.
    fn write_batch_script(&self, fallback: &Path, script: &str) -> Result<PathBuf> {
        let own = &self.session.working_directory;
        let write = |directory: &Path| {
            let path = directory.join(BATCH_SCRIPT);
            self.write(&path, script.as_bytes(), 0o755, Owner::Broker).map(|()| path)
        };
        if takes_files(self, own) {
            match write(own) {
                Ok(path) => return Ok(path),
                Err(error) => self.log.info(&error.to_string()),
            }
        }
        write(fallback)
    }

    fn use_account(&self, choice: &AccountChoice) -> Result<SessionChange> {
        // For an account whose own home is not there and cannot be made.
        let fallback_home = PathBuf::from(self.layout.home());
        let mut identity = match choice {
            AccountChoice::Keep { name, home, .. } => {
                Identity { name: name.clone(), home: home.clone(), user: None }
            }
            AccountChoice::Ensure { name, uid, home, extra_groups, capabilities } => {
                let root = self.root.directory();
                let account = ensure_user(root, name, *uid, home, &fallback_home)?;
                let Account { name, uid, gid, home, groups, notes } = account;
                for note in &notes {
                    self.log.warn(note);
                }
                let groups = [groups.as_slice(), extra_groups].concat();
                let user = Target { uid, gid, groups, capabilities: capabilities.clone() };
                let user = Some(user).filter(|user| user.uid != 0);
                user.iter().try_for_each(|user| check_capabilities(&name, user.uid))?;
                Identity { name, home, user }
            }
        };
        if !files::is_directory(&self.root.at(&identity.home)) {
            identity.home.clone_from(&fallback_home);
        }
        if identity.home == fallback_home {
            let home = self.root.at(&fallback_home);
            let owner = identity.user.as_ref().map(|user| (user.uid, user.gid));
            if let Err(error) = files::make_directory(&home, 0o700, owner) {
                self.log.warn(&format!("could not make home {}: {error}", home.display()));
            }
        }
        Ok(SessionChange::Identity(identity))
    }
}

fn find_flux(environment: &Environment) -> Result<()> {
    if find_program(environment, "flux", is_executable).is_some() {
        return Ok(());
    }
    let path = environment.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    let path = path.to_string_lossy();
    let text = format!(
        "flux is not on the PATH {path:?}: flux.container.disable is set, so the image must bring its own"
    );
    Err(Failure::new(Exit::View, text))
}

/// Waits until the lead lets this pod in, and configures the broker for the address at which the lead was found. The
/// status has what was seen last all along.
pub(crate) async fn await_lead(run: &mut Run, lead: &AwaitLead) -> Result<()> {
    run.progress.enter(phase::WAIT_FOR_LEAD);
    run.log.info(&lead.to_string());
    let certificate = run.session.certificate.clone();
    let missing = "the CURVE certificate is missing: a mistake in the agent";
    let certificate = certificate.ok_or_else(|| Failure::new(Exit::Internal, missing))?;
    let deadline = Duration::from_secs(lead.deadline_seconds);
    let before = (run.progress.last_error(), run.progress.obstacle());
    let (log, progress) = (run.log, &run.progress);
    let mut report = |line: &str, obstacle: Obstacle| {
        log.info(line);
        progress.failed(line);
        progress.set_obstacle(Some(obstacle));
    };
    let wait = wait_for_lead(lead, &certificate, deadline, &mut report);
    let found = run.signals.unless_stopped(wait).await?.map_err(|error| {
        Failure::because(Exit::LeadUnreachable, "wait for the lead broker", &error)
    })?;
    run.progress.set_last_error(before.0);
    run.progress.set_obstacle(before.1);
    let (address, seconds) = (found.address, found.elapsed.as_secs_f64());
    log.info(&format!(
        "the lead broker answers at {address} after {seconds:.1} s ({} attempts)",
        found.attempts
    ));
    let found = address.ip();
    let route = lead_route(&run.config, &run.facts, run.session.lead, found)?;
    run.session.lead = Some(found);
    match route {
        None => Ok(()),
        Some(route) => {
            if let Some(note) = route.note {
                log.info(note);
            }
            execute(run, &Step::WriteFile(route.file)).await
        }
    }
}
