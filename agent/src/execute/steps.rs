//! Does what a plan says, step by step. No step decides anything that the plan could have decided.

use crate::accounts::become_user::{Target, check_capabilities};
use crate::accounts::ensure::{Account, AccountError, ensure_user};
use crate::execute::hook::run_hook;
use crate::execute::session::{Context, Identity};
use crate::execute::working_directory;
use crate::failure::{Failure, failed};
use crate::lead::wait::wait_for_lead;
use crate::plan::decide::broker_config;
use crate::plan::step::{
    AccountChoice, AwaitLead, BATCH_SCRIPT, BATCH_SCRIPT_VARIABLE, FileToWrite, Owner, Step,
};
use crate::system::environment::find_program;
use crate::system::files::{self, is_executable};
use crate::system::output::chain;
use flux_contract::{Exit, phase};
use flux_protocol::CurveCertificate;
use std::ffi::OsStr;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) async fn execute_all(context: &mut Context, steps: &[Step]) -> Result<(), Failure> {
    for step in steps {
        tokio::select! {
            biased;
            stop = context.signals.stop() => return Err(stop.into()),
            // Gives the runtime the time to notice a signal.
            () = tokio::task::yield_now() => {}
        }
        let hook = matches!(step, Step::RunHook(_));
        context.progress.enter(if hook { phase::HOOKS } else { phase::PREPARE });
        execute(context, step).await?;
    }
    Ok(())
}

pub(crate) async fn execute(context: &mut Context, step: &Step) -> Result<(), Failure> {
    let hook = if let Step::RunHook(hook) = step { Some(hook.name) } else { None };
    context.progress.doing(hook);
    if step.is_detail() {
        context.log.debug(&step.to_string());
    } else {
        context.log.info(&step.to_string());
    }
    match step {
        Step::RunHook(hook) => run_hook(context, hook).await,
        Step::UseAccount(choice) => use_account(context, choice),
        Step::MakeDirectory { path, ours: false, .. }
            if files::is_directory(&context.root.at(path)) =>
        {
            working_directory::adopt(context, &context.root.at(path));
            Ok(())
        }
        Step::MakeDirectory { path, mode, owner, ours: _, required } => {
            let made = files::make_directory(&context.root.at(path), *mode, context.ids(*owner));
            match made.map_err(failed("make directory", path)) {
                Err(error) if !required => {
                    context.log.info(&format!("going on without: {error}"));
                    Ok(())
                }
                made => made,
            }
        }
        Step::RemoveFile(path) => {
            files::remove(&context.root.at(path)).map_err(failed("remove", path))
        }
        Step::WriteFile(file) => write_file(context, file),
        Step::InstallCertificate { from, to, link } => {
            install_certificate(context, from, to)?;
            let linked = files::link(&context.root.at(link), &context.root.at(to));
            linked.map_err(failed("make the link", link))
        }
        Step::InstallMungeKey { from, to, owner } => install_munge_key(context, from, to, *owner),
        Step::ChangeEnvironment(changes) => {
            context.session.change(changes);
            Ok(())
        }
        Step::FindFlux => find_flux(context),
        Step::AdoptWorkingDirectory => {
            working_directory::adopt_own(context);
            Ok(())
        }
        Step::WriteBatchScript { fallback_directory, script } => {
            let path = write_batch_script(context, fallback_directory, script)?;
            context.session.environment.insert(BATCH_SCRIPT_VARIABLE.into(), path.into());
            Ok(())
        }
        Step::MarkComplete(path) => {
            let code = format!("{}\n", context.exit_code);
            write_at(context, path, code.as_bytes(), 0o644, Owner::Container)
        }
    }
}

fn write_file(context: &Context, file: &FileToWrite) -> Result<(), Failure> {
    write_at(context, &file.path, file.content.as_bytes(), file.mode, Owner::Container)
}

fn write_at(
    context: &Context,
    path: &Path,
    bytes: &[u8],
    mode: u32,
    owner: Owner,
) -> Result<(), Failure> {
    let written = files::write(&context.root.at(path), bytes, mode, context.ids(owner));
    written.map_err(failed("write", path))
}

/// Flux refuses a certificate that others can read, and Kubernetes makes mounted Secrets readable
/// for a group as soon as a pod has an `fsGroup`: hence the copy.
fn install_certificate(context: &mut Context, from: &Path, to: &Path) -> Result<(), Failure> {
    let reading = "read the CURVE certificate";
    let text = fs::read_to_string(context.root.at(from)).map_err(failed(reading, from))?;
    // What is wrong with it, and never its content.
    let certificate = CurveCertificate::parse(&text).map_err(|error| {
        Failure::because(Exit::Prepare, format!("{reading} {}", from.display()), &error)
    })?;
    write_at(context, to, text.as_bytes(), 0o600, Owner::Broker)?;
    context.session.certificate = Some(certificate);
    Ok(())
}

fn install_munge_key(
    context: &Context,
    from: &Path,
    to: &Path,
    owner: Option<(u32, u32)>,
) -> Result<(), Failure> {
    let key = fs::read(context.root.at(from)).map_err(failed("read the munge key", from))?;
    let directory = to.parent().unwrap_or(to);
    if !context.root.at(directory).is_dir() {
        files::make_directory(&context.root.at(directory), 0o700, owner)
            .map_err(failed("make directory", directory))?;
    }
    files::write(&context.root.at(to), &key, 0o400, owner).map_err(failed("write", to))
}

fn find_flux(context: &Context) -> Result<(), Failure> {
    let environment = &context.session.environment;
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

/// Writes `script` into the working directory, or into `fallback` where the broker's user cannot.
fn write_batch_script(
    context: &Context,
    fallback: &Path,
    script: &str,
) -> Result<PathBuf, Failure> {
    let write = |directory: &Path| {
        let path = directory.join(BATCH_SCRIPT);
        write_at(context, &path, script.as_bytes(), 0o755, Owner::Broker).map(|()| path)
    };
    match working_directory::own_place(context).map(write) {
        Some(Ok(path)) => return Ok(path),
        Some(Err(error)) => context.log.info(&error.to_string()),
        None => {}
    }
    write(fallback)
}

/// Waits until the lead lets this pod in, and has the broker go the way on which it was found; what was seen last is in
/// the status all along.
pub(crate) async fn await_lead(context: &mut Context, lead: &AwaitLead) -> Result<(), Failure> {
    context.progress.enter(phase::WAIT_FOR_LEAD);
    context.log.info(&lead.to_string());
    let certificate = context.session.certificate.clone();
    let missing = "the CURVE certificate is missing: a mistake in the agent";
    let certificate = certificate.ok_or_else(|| Failure::new(Exit::Internal, missing))?;
    let deadline = Duration::from_secs(lead.deadline_seconds);
    let before = context.progress.last_error();
    let (log, progress) = (context.log, &context.progress);
    let mut report = |line: &str| {
        log.info(line);
        progress.failed(line);
    };
    let wait = wait_for_lead(lead, &certificate, deadline, &mut report);
    let found = context.signals.unless_stopped(wait).await?.map_err(|error| {
        Failure::because(Exit::LeadUnreachable, "wait for the lead broker", &error)
    })?;
    context.progress.set_last_error(before);
    let (address, seconds) = (found.address, found.elapsed.as_secs_f64());
    log.info(&format!(
        "the lead broker answers at {address} after {seconds:.1} s ({} attempts)",
        found.attempts
    ));
    take_way(context, lead, address.ip())
}

/// Has the broker go the way on which the lead was `found`. The file that is there, which a hook may have changed, stays
/// where that is the way of before.
fn take_way(context: &mut Context, lead: &AwaitLead, found: IpAddr) -> Result<(), Failure> {
    let file = |found| broker_config(&context.config, &context.facts, found);
    let (before, now) = (file(context.session.lead)?, file(Some(found))?);
    context.session.lead = Some(found);
    if before == now {
        return Ok(());
    }
    if let Some(address) = lead.address {
        context.log.info(if address == found {
            "its address led there first: the broker will use the address"
        } else {
            "its name led there first: the broker will use the name"
        });
    }
    write_file(context, &now)
}

fn use_account(context: &mut Context, choice: &AccountChoice) -> Result<(), Failure> {
    // Where the account's own is neither there nor can be made.
    let fallback_home = context.config.layout.home();
    let mut identity = match choice {
        AccountChoice::Keep { name, home, .. } => {
            Identity { name: name.clone(), home: home.clone(), user: None }
        }
        AccountChoice::Ensure { name, uid, home, more_groups, capabilities } => {
            let account = account(context, name, *uid, home)?;
            let Account { name, uid, gid, home, groups, notes: _ } = account;
            let groups = [groups.as_slice(), more_groups].concat();
            let user = Target { uid, gid, groups, capabilities: capabilities.clone() };
            let user = Some(user).filter(|user| user.uid != 0);
            user.iter().try_for_each(|user| check_capabilities(&name, user.uid))?;
            Identity { name, home, user }
        }
    };
    if !files::is_directory(&context.root.at(&identity.home)) {
        identity.home.clone_from(&fallback_home);
    }
    if identity.home == fallback_home {
        let home = context.root.at(&fallback_home);
        let owner = identity.user.as_ref().map(|user| (user.uid, user.gid));
        if let Err(error) = files::make_directory(&home, 0o700, owner) {
            context.log.warn(&format!("could not make home {}: {error}", home.display()));
        }
    }
    context.session.identity = Some(identity);
    Ok(())
}

/// The account `name`, made if need be. With a read-only root file system there is a uid but no name for it. Flux itself
/// runs so.
fn account(context: &Context, name: &str, uid: u32, home: &Path) -> Result<Account, Failure> {
    match ensure_user(context.root.directory(), name, uid, home) {
        Ok(account) => {
            account.notes.iter().for_each(|note| context.log.warn(note));
            Ok(account)
        }
        Err(error @ AccountError::Write { .. }) => {
            let error = chain(&error);
            context.log.warn(&format!(
                "{error}; running Flux as uid {uid} without an entry in /etc/passwd"
            ));
            let (name, home) = (name.to_owned(), context.config.layout.home());
            Ok(Account { name, uid, gid: uid, home, groups: vec![uid], notes: Vec::new() })
        }
        Err(error) => {
            let doing = "prepare the account that Flux runs as";
            Err(Failure::because(Exit::Prepare, doing, &error))
        }
    }
}
