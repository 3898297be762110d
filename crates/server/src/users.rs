//! The users of a container, by passwd(5). A static program cannot ask NSS.

use std::path::PathBuf;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// Number.
    pub uid: u32,
    /// Number of the primary group.
    pub gid: u32,
    /// Home directory.
    pub home: PathBuf,
}

/// The users in the text `passwd`, in order. Entries that cannot be read are skipped.
pub fn users(passwd: &[u8]) -> impl Iterator<Item = User> {
    lines(passwd).filter_map(|line| {
        let mut fields = line.split(':');
        let name = entry_name(fields.next()?)?;
        let _password = fields.next()?;
        let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let _comment = fields.next()?;
        let home = fields.next()?.into();
        Some(User { name, uid, gid, home })
    })
}

/// The name of the first of the `users` with number `uid`, or the number where there is none.
pub fn name_of(mut users: impl Iterator<Item = User>, uid: u32) -> String {
    users.find(|user| user.uid == uid).map_or_else(|| uid.to_string(), |user| user.name)
}

/// The lines of a user database in UTF-8. Flux's user is in none of the others.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &str> {
    text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}

/// The name of an entry, unless the line is a comment or a `+` or `-` line of NIS.
pub fn entry_name(name: &str) -> Option<String> {
    (!name.is_empty() && !name.starts_with(['#', '+', '-'])).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_user_counts() {
        let text = b"#no:x:7:7::/:\n+::::::\n+f:x:7:7::/:\n\xff:x:7:7::/:\na:x:7:7::/:\nb:x:7:8::/:\na:x:8:8::/:";
        let found: Vec<_> = users(text).map(|user| (user.name, user.uid)).collect();
        assert_eq!(found, [("a".to_owned(), 7), ("b".to_owned(), 7), ("a".to_owned(), 8)]);
        assert_eq!([name_of(users(text), 7), name_of(users(text), 9)], ["a", "9"]);
    }
}
