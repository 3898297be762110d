//! The user database as values: /etc/passwd, /etc/group and /etc/shadow (passwd(5), group(5),
//! shadow(5)).
//!
//! Nothing here asks NSS: a static binary cannot, and the broker's user is a local one. Texts are
//! bytes and only ever appended to, so what is not understood survives as it was.

use std::path::{Path, PathBuf};

/// Lowest number given to a user or group that had to be moved (login.defs(5), `UID_MIN`).
const FIRST_FREE: u32 = 1000;
/// Highest number given to one (login.defs(5), `UID_MAX`); `nobody` lies above.
const LAST_FREE: u32 = 60_000;

/// One readable line of passwd(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Home directory.
    pub home: PathBuf,
    /// Login shell; empty stands for /bin/sh.
    pub shell: String,
}

/// One readable line of group(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Group name.
    pub name: String,
    /// Group id.
    pub gid: u32,
    /// Names of the users for whom this is a supplementary group.
    pub members: Vec<String>,
}

/// A number was asked for and none is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no user id from {FIRST_FREE} to {LAST_FREE} is free")]
pub struct NoFreeId;

/// The three texts of the user database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Databases {
    /// /etc/passwd.
    pub passwd: Vec<u8>,
    /// /etc/group.
    pub group: Vec<u8>,
    /// /etc/shadow, if the image has one.
    pub shadow: Option<Vec<u8>>,
}

impl Databases {
    /// All users.
    pub(crate) fn users(&self) -> impl Iterator<Item = User> {
        lines(&self.passwd).filter_map(user)
    }

    /// The user called `name`: the first such line, as getpwnam(3) finds it.
    pub fn find_user(&self, name: &str) -> Option<User> {
        self.users().find(|user| user.name == name)
    }

    /// The user with number `uid`: the first such line, as getpwuid(3) finds it.
    pub fn find_uid(&self, uid: u32) -> Option<User> {
        self.users().find(|user| user.uid == uid)
    }

    /// The group called `name`.
    pub fn find_group(&self, name: &str) -> Option<Group> {
        lines(&self.group).filter_map(group).find(|group| group.name == name)
    }

    /// The group with number `gid`.
    pub fn find_gid(&self, gid: u32) -> Option<Group> {
        lines(&self.group).filter_map(group).find(|group| group.gid == gid)
    }

    /// What initgroups(3) would set for `user`: its primary group first, then every group that
    /// lists it as a member, each once, in the order of the text.
    pub fn groups_of(&self, user: &User) -> Vec<u32> {
        let mut groups = vec![user.gid];
        for group in lines(&self.group).filter_map(group) {
            if group.members.contains(&user.name) && !groups.contains(&group.gid) {
                groups.push(group.gid);
            }
        }
        groups
    }

    /// Adds user `name` with number `uid` and home directory `home`, and returns the line made.
    /// A user of that name stays as it is and is returned instead.
    ///
    /// When another user has `uid`, the next number from 1000 that neither a user nor a group has
    /// is taken: images come with a user 1000 of their own (`ubuntu` in those of Ubuntu 24.04),
    /// and sharing its number would be sharing its files. The primary group is the one called
    /// `name`; else the one with the user's number, whoever owns it, so that `uid:gid` is the pair
    /// people expect on volumes; else a new one.
    pub fn add_user(&mut self, name: &str, uid: u32, home: &Path) -> Result<User, NoFreeId> {
        if let Some(user) = self.find_user(name) {
            return Ok(user);
        }
        let uid = if self.find_uid(uid).is_some() { self.free_id().ok_or(NoFreeId)? } else { uid };
        let gid = match (self.find_group(name), self.find_gid(uid)) {
            (Some(group), _) | (None, Some(group)) => group.gid,
            (None, None) => {
                append(&mut self.group, &format!("{name}:x:{uid}:"));
                uid
            }
        };
        let home = home.to_owned();
        let user = User { name: name.to_owned(), uid, gid, home, shell: "/bin/sh".to_owned() };
        // `x` sends the reader to the shadow text; without one, `*` is a password nobody can type.
        let password = if self.shadow.is_some() { "x" } else { "*" };
        append(
            &mut self.passwd,
            &format!("{name}:{password}:{uid}:{gid}::{}:{}", user.home.display(), user.shell),
        );
        if let Some(shadow) = self.shadow.as_mut() {
            let exists = lines(shadow).any(|line| line.split(':').next() == Some(name));
            if !exists {
                append(shadow, &format!("{name}:!:::::::"));
            }
        }
        Ok(user)
    }

    fn free_id(&self) -> Option<u32> {
        (FIRST_FREE..=LAST_FREE)
            .find(|id| self.find_uid(*id).is_none() && self.find_gid(*id).is_none())
    }
}

/// Whether `text` can stand in a field of these files.
pub(crate) fn fits_field(text: &str) -> bool {
    !text.contains([':', '\n', '\0'])
}

/// The lines that are text; others cannot be a user of ours.
fn lines(text: &[u8]) -> impl Iterator<Item = &str> {
    text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}

fn user(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name = entry_name(fields.next()?)?;
    let _password = fields.next()?;
    let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let _comment = fields.next()?;
    let home = PathBuf::from(fields.next()?);
    let shell = fields.next().unwrap_or_default().to_owned();
    Some(User { name, uid, gid, home, shell })
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

/// Names of entries; comments and the `+`/`-` lines of NIS are none.
fn entry_name(name: &str) -> Option<String> {
    (!name.is_empty() && !name.starts_with(['#', '+', '-'])).then(|| name.to_owned())
}

fn append(text: &mut Vec<u8>, line: &str) {
    if text.last().is_some_and(|byte| *byte != b'\n') {
        text.push(b'\n');
    }
    text.extend_from_slice(line.as_bytes());
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn databases(passwd: &str, group: &str) -> Databases {
        Databases {
            passwd: passwd.as_bytes().to_vec(),
            group: group.as_bytes().to_vec(),
            shadow: Some(b"root:*:19000:0:99999:7:::\n".to_vec()),
        }
    }

    fn ubuntu() -> Databases {
        databases(
            "root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000:1000:Ubuntu:/home/ubuntu:/bin/bash\n",
            "root:x:0:\nadm:x:4:syslog,ubuntu\nubuntu:x:1000:\nsudo:x:27:ubuntu,flux\n",
        )
    }

    #[test]
    fn users_and_groups_are_found_by_name_and_number() {
        let databases = ubuntu();
        let ubuntu = databases.find_user("ubuntu").unwrap();
        assert_eq!((ubuntu.uid, ubuntu.home.as_path()), (1000, Path::new("/home/ubuntu")));
        assert_eq!(databases.find_uid(1000), Some(ubuntu));
        assert_eq!(databases.find_user("flux"), None);
        assert_eq!(databases.find_gid(27).unwrap().members, ["ubuntu", "flux"]);
    }

    #[test]
    fn groups_of_a_user_begin_with_the_primary_one() {
        let databases = ubuntu();
        let user = databases.find_user("ubuntu").unwrap();
        assert_eq!(databases.groups_of(&user), [1000, 4, 27]);
    }

    #[test]
    fn a_new_user_gets_the_number_asked_for_and_a_group_of_its_own() {
        let mut databases = databases("root:x:0:0:root:/root:/bin/sh", "root:x:0:");
        let user = databases.add_user("flux", 1000, Path::new("/home/flux")).unwrap();
        assert_eq!((user.uid, user.gid), (1000, 1000));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        assert_eq!(
            text(&databases.passwd),
            "root:x:0:0:root:/root:/bin/sh\nflux:x:1000:1000::/home/flux:/bin/sh\n"
        );
        assert_eq!(text(&databases.group), "root:x:0:\nflux:x:1000:\n");
        assert!(text(databases.shadow.as_ref().unwrap()).ends_with("\nflux:!:::::::\n"));
    }

    #[test]
    fn a_taken_number_moves_the_user_to_the_next_that_is_free_of_users_and_groups() {
        let mut databases = ubuntu();
        append(&mut databases.group, "staff:x:1001:");
        let user = databases.add_user("flux", 1000, Path::new("/home/flux")).unwrap();
        assert_eq!((user.uid, user.gid), (1002, 1002));
        assert_eq!(databases.groups_of(&user), [1002, 27]);
    }

    #[test]
    fn a_group_of_that_name_or_else_of_that_number_is_reused() {
        let mut named = databases("", "flux:x:500:\nusers:x:1000:\n");
        assert_eq!(named.add_user("flux", 1000, Path::new("/h")).unwrap().gid, 500);
        let mut numbered = databases("", "users:x:1000:\n");
        assert_eq!(numbered.add_user("flux", 1000, Path::new("/h")).unwrap().gid, 1000);
        assert_eq!(numbered.group, b"users:x:1000:\n");
    }

    #[test]
    fn an_image_without_shadow_gets_no_shadow_and_a_password_nobody_can_type() {
        let mut databases = Databases::default();
        databases.add_user("flux", 1000, Path::new("/home/flux")).unwrap();
        assert_eq!(databases.passwd, b"flux:*:1000:1000::/home/flux:/bin/sh\n");
        assert_eq!(databases.shadow, None);
    }

    #[test]
    fn lines_of_nis_and_comments_are_no_users() {
        let databases = databases("#flux:x:1:1::/:\n+flux:x:1:1::/:\n+::::::\n", "");
        assert_eq!((databases.find_user("flux"), databases.find_uid(1)), (None, None));
    }

    #[test]
    fn when_every_number_is_taken_that_is_an_error() {
        let mut databases = Databases::default();
        for id in FIRST_FREE..=FIRST_FREE + 3 {
            append(&mut databases.passwd, &format!("u{id}:x:{id}:{id}::/:"));
        }
        assert_eq!(databases.free_id(), Some(FIRST_FREE + 4));
        assert_eq!(NoFreeId.to_string(), "no user id from 1000 to 60000 is free");
    }

    proptest! {
        #[test]
        fn unknown_lines_survive_byte_for_byte_and_adding_twice_changes_nothing(
            passwd: Vec<u8>, group: Vec<u8>, shadow: Option<Vec<u8>>, uid in 1u32..70_000,
        ) {
            let before = Databases { passwd, group, shadow };
            let mut after = before.clone();
            let added = after.add_user("flux", uid, Path::new("/home/flux")).unwrap();
            prop_assert!(after.passwd.starts_with(&before.passwd));
            prop_assert!(after.group.starts_with(&before.group));
            prop_assert_eq!(after.shadow.is_some(), before.shadow.is_some());
            prop_assert!(after.shadow.clone().unwrap_or_default()
                .starts_with(&before.shadow.clone().unwrap_or_default()));
            prop_assert_eq!(after.find_user("flux"), Some(added.clone()));
            let mut again = after.clone();
            prop_assert_eq!(again.add_user("flux", uid, Path::new("/elsewhere")).unwrap(), added);
            prop_assert_eq!(again, after);
        }
    }
}
