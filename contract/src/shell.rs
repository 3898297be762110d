//! What of a command line only a shell understands.

use std::fmt;

/// What makes a shell do more with a text than split it into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellSyntax {
    /// A character that means something to a shell where it stands.
    Character(char),
    /// It begins with an assignment to a variable.
    Assignment,
    /// It has more than one line.
    Lines,
}

impl fmt::Display for ShellSyntax {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(character) => write!(formatter, "`{character}`"),
            Self::Assignment => formatter.write_str("assignment (NAME=value)"),
            Self::Lines => formatter.write_str("second line"),
        }
    }
}

/// A name that a POSIX shell can export.
pub fn is_shell_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(fits) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// The first thing in `text` that asks for a shell (POSIX.1-2024, Shell Command Language, 2.2): the
/// operator hands such a command to the container's `sh`, and the agent says so where there is none.
pub fn shell_syntax(text: &str) -> Option<ShellSyntax> {
    let text = text.trim();
    let first = text.split_whitespace().next().and_then(|first| first.split_once('='));
    let assigns = first.is_some_and(|(name, _)| is_shell_name(name));
    special_character(text).or_else(|| assigns.then_some(ShellSyntax::Assignment))
}

fn special_character(text: &str) -> Option<ShellSyntax> {
    /// Where in a command line a character stands.
    #[derive(PartialEq)]
    enum Place {
        Start,
        Word,
        Single,
        Double,
    }
    let mut place = Place::Start;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let found = Some(ShellSyntax::Character(character));
        if character == '\\' && place != Place::Single {
            characters.next();
            place = if place == Place::Start { Place::Word } else { place };
            continue;
        }
        place = match place {
            Place::Single if character == '\'' => Place::Word,
            Place::Single => Place::Single,
            Place::Double => match character {
                '$' | '`' => return found,
                '"' => Place::Word,
                _ => Place::Double,
            },
            Place::Start | Place::Word => match character {
                '\n' => return Some(ShellSyntax::Lines),
                '$' | '`' | ';' | '|' | '&' | '<' | '>' | '(' | ')' | '*' | '?' | '[' => {
                    return found;
                }
                '#' | '~' if place == Place::Start => return found,
                '\'' => Place::Single,
                '"' => Place::Double,
                ' ' | '\t' => Place::Start,
                _ => Place::Word,
            },
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_for_a_shell_is_named() {
        for (text, name) in [
            ("echo $HOME", "`$`"),
            ("echo \"$HOME\"", "`$`"),
            ("a; b", "`;`"),
            ("a && b", "`&`"),
            ("a > b", "`>`"),
            ("(a)", "`(`"),
            ("echo `a`", "```"),
            ("ls *.txt", "`*`"),
            ("a # comment", "`#`"),
            ("a | b", "`|`"),
            ("ls ~/x", "`~`"),
            ("a\nb", "second line"),
            ("A=1 env", "assignment (NAME=value)"),
        ] {
            let syntax = shell_syntax(text).map(|syntax| syntax.to_string());
            assert_eq!(syntax.as_deref(), Some(name), "{text}");
        }
    }

    #[test]
    fn what_is_quoted_asks_for_none() {
        for text in ["echo '$HOME; *'", "echo \\$x a#b x=1", "sh -c \"exit 7\""] {
            assert_eq!(shell_syntax(text), None, "{text}");
        }
    }
}
