//! Making sure of the account that the broker runs as.

use crate::accounts::ensure::{Account, ensure_user};
use crate::accounts::error::AccountError;
use crate::execute::context::Context;
use crate::execute::error::StepError;
use crate::execute::session::Identity;
use crate::plan::step::AccountChoice;
use crate::system::files;
use crate::system::output::chain;
use std::path::Path;

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
            let identity = |name, uid, gid, home, groups: Vec<u32>| Identity {
                name,
                uid,
                gid,
                groups: [groups.as_slice(), more_groups].concat(),
                capabilities: capabilities.clone(),
                home,
                switch: uid != 0,
            };
            match ensure(context, name, *uid, home).await? {
                Ok(Account { name, uid, gid, home, groups, notes, .. }) => {
                    notes.iter().for_each(|note| context.log.warn(note));
                    identity(name, uid, gid, home, groups)
                }
                // With a read-only root file system there is a uid but no name for it. Flux itself runs so.
                Err(error) => {
                    context.log.warn(&format!(
                        "{}; running Flux as uid {uid} without an entry in /etc/passwd",
                        chain(&error)
                    ));
                    identity(name.clone(), *uid, *uid, fallback_home.to_owned(), vec![*uid])
                }
            }
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
        Ok(result) => Ok(Ok(result?)),
        Err(_) => Err(StepError::Order { what: "the answer of the account thread" }),
    }
}
