//! `flux-agent exec`: becomes another user and then another program, for `run`.

use crate::accounts::become_user::{self, Target};
use crate::system::output::complain;

/// Becomes `target`, if there is one, and then `words`; returns only when it failed.
pub(crate) fn run(target: Option<&Target>, words: &[String]) -> u8 {
    let error = become_user::exec(target, words);
    complain(&error.text());
    error.code()
}
