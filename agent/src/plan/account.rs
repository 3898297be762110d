//! Who the broker runs as.

use crate::plan::pod::Pod;
use crate::plan::step::{AccountChoice, Step};
use std::path::{Path, PathBuf};

/// Started as root, Flux runs as its own user unless the specification says otherwise; started as
/// anybody else, nothing can or need be changed.
pub(super) fn account(pod: Pod<'_>) -> Step {
    let (user, facts) = (&pod.config.user, pod.facts);
    let choice = if facts.uid == 0 && !user.run_as_root {
        AccountChoice::Ensure {
            name: user.name.clone(),
            uid: user.uid,
            home: Path::new("/home").join(&user.name),
            more_groups: facts.pod_groups(),
            capabilities: user.capabilities.clone(),
        }
    } else {
        let account = facts.accounts.find_uid(facts.uid);
        let own = account.as_ref().map(|account| account.home.clone());
        AccountChoice::Keep {
            name: account.map_or_else(|| user.name.clone(), |account| account.name),
            uid: facts.uid,
            gid: facts.gid,
            home: [facts.environment.get("HOME").map(PathBuf::from), own]
                .into_iter()
                .flatten()
                // What a container runtime sets for a uid without an account.
                .find(|home| home != Path::new("/") && facts.homes.contains(home)),
        }
    };
    Step::UseAccount { choice, fallback_home: pod.config.layout.home() }
}
