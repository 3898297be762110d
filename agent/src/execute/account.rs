//! Making sure of the account that the broker runs as.

use crate::accounts::ensure::{Account, AccountError, ensure_user};
use crate::execute::context::Context;
use crate::execute::error::StepError;
use crate::execute::session::Identity;
use crate::plan::step::AccountChoice;
use crate::system::files;
use std::path::Path;

/// Decides `session.identity`.
pub(super) async fn use_account(
    context: &mut Context,
    choice: &AccountChoice,
    fallback_home: &Path,
) -> Result<(), StepError> {
    let mut identity = match choice {
        AccountChoice::Keep { name, uid, gid, home } => Identity {
            name: name.clone(),
            uid: *uid,
            gid: *gid,
            groups: Vec::new(),
            capabilities: Vec::new(),
            home: home.as_deref().unwrap_or(fallback_home).to_owned(),
            switch: false,
        },
        AccountChoice::Ensure { name, uid, home, more_groups, capabilities } => {
            let mut identity = match ensure(context, name, *uid, home).await? {
                Ok(account) => identity_of(context, account),
                Err(error) => without_entry(context, name, *uid, fallback_home, &error),
            };
            identity.groups.extend(more_groups);
            identity.capabilities.clone_from(capabilities);
            identity
        }
    };
    if !context.root.at(&identity.home).is_dir() {
        fallback_home.clone_into(&mut identity.home);
    }
    let switched = identity.switch.then_some((identity.uid, identity.gid));
    if identity.home == fallback_home {
        let home = context.root.at(fallback_home);
        if let Err(error) = files::make_directory(&home, 0o700, switched) {
            context.log.warn(&format!("could not make home {}: {error}", home.display()));
        }
    }
    context.session.identity = Some(identity);
    Ok(())
}

/// On a thread of its own: the lock of the user database may be held for a while by another
/// program, and a signal must not have to wait for it.
async fn ensure(
    context: &mut Context,
    name: &str,
    uid: u32,
    home: &Path,
) -> Result<Result<Account, AccountError>, StepError> {
    let (root, name) = (context.root.directory().to_owned(), name.to_owned());
    let home = home.to_owned();
    let work = tokio::task::spawn_blocking(move || ensure_user(&root, &name, uid, &home));
    match context.signals.unless_stopped(work).await? {
        Ok(Err(error @ AccountError::Write { .. })) => Ok(Err(error)),
        Ok(result) => result.map(Ok).map_err(|source| StepError::Account { source }),
        Err(_) => Err(StepError::Order { what: "the answer of the account thread" }),
    }
}

fn identity_of(context: &Context, account: Account) -> Identity {
    for note in &account.notes {
        context.log.warn(note);
    }
    let Account { name, uid, gid, home, groups, .. } = account;
    Identity { name, uid, gid, groups, capabilities: Vec::new(), home, switch: uid != 0 }
}

/// With a read-only root file system there is a uid but no name for it. Flux itself runs so.
fn without_entry(
    context: &Context,
    name: &str,
    uid: u32,
    home: &Path,
    error: &AccountError,
) -> Identity {
    context.log.warn(&format!(
        "{}; running Flux as uid {uid} without an entry in /etc/passwd",
        crate::system::output::chain(error)
    ));
    Identity {
        name: name.to_owned(),
        uid,
        gid: uid,
        groups: vec![uid],
        capabilities: Vec::new(),
        home: home.to_owned(),
        switch: uid != 0,
    }
}
