//! Shell syntax in command lines.

/// Whether a POSIX shell can export a variable of this name.
pub fn is_shell_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(fits) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// A description of the first syntax in `text` that needs a shell (POSIX.1-2024, Shell Command Language, 2.2). The
/// container's `sh` runs such a command.
pub fn shell_syntax(text: &str) -> Option<String> {
    let text = text.trim();
    let first = text.split_whitespace().next().and_then(|first| first.split_once('='));
    let assigns = first.is_some_and(|(name, _)| is_shell_name(name));
    special_character(text).or_else(|| assigns.then(|| "assignment (NAME=value)".to_owned()))
}

fn special_character(text: &str) -> Option<String> {
    /// The place of a character in a command line.
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
        let found = || Some(format!("`{character}`"));
        if character == '\\' && place != Place::Single {
            characters.next();
            place = if place == Place::Start { Place::Word } else { place };
            continue;
        }
        place = match place {
            Place::Single if character == '\'' => Place::Word,
            Place::Single => Place::Single,
            Place::Double => match character {
                '$' | '`' => return found(),
                '"' => Place::Word,
                _ => Place::Double,
            },
            Place::Start | Place::Word => match character {
                '\n' => return Some("second line".to_owned()),
                '$' | '`' | ';' | '|' | '&' | '<' | '>' | '(' | ')' | '*' | '?' | '[' => {
                    return found();
                }
                '#' | '~' if place == Place::Start => return found(),
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
    fn shell_syntax_is_described() {
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
            assert_eq!(shell_syntax(text).as_deref(), Some(name), "{text}");
        }
    }

    #[test]
    fn quoted_text_needs_no_shell() {
        for text in ["echo '$HOME; *'", "echo \\$x a#b x=1", "sh -c \"exit 7\""] {
            assert_eq!(shell_syntax(text), None, "{text}");
        }
    }
}
