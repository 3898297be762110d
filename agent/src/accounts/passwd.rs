//! The user database as values: passwd(5) and group(5). A static binary cannot use NSS, and the broker's user is a local one.
//! The agent only appends to the files, so entries that it cannot read stay the same.

use flux_server::users::{self, User, entry_name, lines};
use std::path::Path;

/// Lowest number of a new user whose requested number is taken (login.defs(5), `UID_MIN`).
pub(super) const FIRST_FREE: u32 = 1000;
/// Highest number of such a user (login.defs(5), `UID_MAX`), below that of `nobody`.
pub(super) const LAST_FREE: u32 = 60_000;

struct Group {
    name: String,
    gid: u32,
    /// Names of users with this supplementary group.
    members: Vec<String>,
}

/// The texts of the user database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Databases {
    /// /etc/passwd.
    pub passwd: Vec<u8>,
    /// /etc/group.
    pub group: Vec<u8>,
}

impl Databases {
    pub(crate) fn users(&self) -> impl Iterator<Item = User> {
        users::users(&self.passwd)
    }

    /// The user `name`, in the first such line as for getpwnam(3).
    pub(crate) fn find_user(&self, name: &str) -> Option<User> {
        self.users().find(|user| user.name == name)
    }

    /// The user with number `uid`, in the first such line as for getpwuid(3).
    pub(crate) fn find_uid(&self, uid: u32) -> Option<User> {
        self.users().find(|user| user.uid == uid)
    }

    /// The name of the user with number `uid`, or the number where there is none.
    pub(crate) fn name_of(&self, uid: u32) -> String {
        users::name_of(self.users(), uid)
    }

    fn groups(&self) -> impl Iterator<Item = Group> {
        lines(&self.group).filter_map(group)
    }

    /// The groups that initgroups(3) would set for `user`, the primary one first.
    pub(crate) fn groups_of(&self, user: &User) -> Vec<u32> {
        let mut groups = vec![user.gid];
        for group in self.groups() {
            if group.members.contains(&user.name) && !groups.contains(&group.gid) {
                groups.push(group.gid);
            }
        }
        groups
    }

    /// The entries of a new user `name` with number `uid` and home directory `home`; `None` if no number is free.
    ///
    /// If another user has `uid`, the new user gets the next number that neither a user nor a group has, because two users
    /// with one number would share their files. The primary group is the group `name`; else the group with the number of
    /// the user, as users expect `uid:gid` on volumes; else a new group.
    pub(crate) fn new_user(&self, name: &str, uid: u32, home: &Path) -> Option<NewUser> {
        let uid = if self.find_uid(uid).is_some() { self.free_id()? } else { uid };
        let mut added = Vec::new();
        let mut add = |file, text: &[u8], line: String| {
            let end = if text.last().is_none_or(|byte| *byte == b'\n') { "" } else { "\n" };
            added.push((file, format!("{end}{line}\n")));
        };
        let named = self.groups().find(|group| group.name == name);
        let gid =
            named.or_else(|| self.groups().find(|group| group.gid == uid)).map(|group| group.gid);
        if gid.is_none() {
            add("group", &self.group, format!("{name}:x:{uid}:"));
        }
        let gid = gid.unwrap_or(uid);
        // No password matches `*`.
        let line = format!("{name}:*:{uid}:{gid}::{}:/bin/sh", home.display());
        add("passwd", &self.passwd, line);
        let user = User { name: name.to_owned(), uid, gid, home: home.to_owned() };
        Some(NewUser { user, added })
    }

    fn free_id(&self) -> Option<u32> {
        (FIRST_FREE..=LAST_FREE)
            .find(|id| self.find_uid(*id).is_none() && self.groups().all(|group| group.gid != *id))
    }
}

#[derive(Debug)]
pub(crate) struct NewUser {
    pub(crate) user: User,
    /// Files below /etc with the text to append; passwd comes last, so that a user in it is complete.
    pub(crate) added: Vec<(&'static str, String)>,
}

pub(crate) fn fits_field(text: &str) -> bool {
    !text.contains([':', '\n', '\0'])
}

fn group(line: &str) -> Option<Group> {
    let mut fields = line.split(':');
    let name = entry_name(fields.next()?)?;
    let _password = fields.next()?;
    let gid = fields.next()?.parse().ok()?;
    let members = fields.next().unwrap_or_default().split(',').map(str::trim);
    let members = members.filter(|member| !member.is_empty()).map(str::to_owned).collect();
    Some(Group { name, gid, members })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOME: &str = "/home/flux";

    fn databases(passwd: &str, group: &str) -> Databases {
        Databases { passwd: passwd.into(), group: group.into() }
    }

    fn flux(databases: &Databases) -> NewUser {
        databases.new_user("flux", 1000, Path::new(HOME)).unwrap()
    }

    #[test]
    fn a_group_of_the_name_or_number_is_reused() {
        for (group, gid) in [("flux:x:500:\nusers:x:1000:\n", 500), ("users:x:1000:\n", 1000)] {
            let new = flux(&databases("", group));
            assert_eq!((new.user.gid, new.added[0].0), (gid, "passwd"));
        }
    }

    proptest! {
        #[test]
        fn a_new_user_is_found_in_any_database(
            passwd: Vec<u8>, group: Vec<u8>, uid in 1u32..70_000,
        ) {
            let mut databases = Databases { passwd, group };
            let NewUser { user, added } = databases.new_user("flux", uid, Path::new(HOME)).unwrap();
            for (file, text) in added {
                let is_group = file == "group";
                let database =
                    if is_group { &mut databases.group } else { &mut databases.passwd };
                database.extend(text.into_bytes());
            }
            prop_assert_eq!(databases.find_user("flux"), Some(user));
        }
    }
}
