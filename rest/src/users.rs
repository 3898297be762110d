//! The users of the container, by passwd(5). A static program cannot ask NSS.

use std::fs;
use std::path::Path;

/// Names and numbers, in the order of the file.
pub(crate) struct Users(Vec<(String, u32)>);

impl Users {
    /// The users in this file; none where it cannot be read.
    pub(crate) fn read(path: &Path) -> Self {
        Self::parse(&fs::read(path).unwrap_or_default())
    }

    fn parse(text: &[u8]) -> Self {
        let user = |line: &[u8]| {
            let mut fields = std::str::from_utf8(line).ok()?.split(':');
            // Comments, and the lines of NIS, are no users.
            let name =
                fields.next().filter(|it| !it.is_empty() && !it.starts_with(['#', '+', '-']));
            let _password = fields.next()?;
            Some((name?.to_owned(), fields.next()?.parse().ok()?))
        };
        Self(text.split(|byte| *byte == b'\n').filter_map(user).collect())
    }

    pub(crate) fn uid_of(&self, name: &str) -> Option<u32> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, uid)| *uid)
    }

    /// The name of the user, or the number where there is no name.
    pub(crate) fn name_of(&self, uid: u32) -> String {
        let user = self.0.iter().find(|(_, known)| *known == uid);
        user.map_or_else(|| uid.to_string(), |(name, _)| name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_user_counts() {
        let users =
            Users::parse(b"#no:x:7:7::/:\n+::::::\n\xff:x:7:7\na:x:7:7::/:\nb:x:7:8::/:\na:x:8:8");
        assert_eq!(
            (users.uid_of("a"), users.uid_of("b"), users.uid_of("#no")),
            (Some(7), Some(7), None)
        );
        assert_eq!((users.name_of(7), users.name_of(9)), ("a".to_owned(), "9".to_owned()));
    }
}
