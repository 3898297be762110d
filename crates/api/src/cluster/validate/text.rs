//! Syntax checks of names, paths, durations and commands.

pub(super) use flux_contract::is_shell_name;
use flux_contract::shell_syntax;

/// The text, unless it is absent or empty, which are the same in the API.
pub(super) fn non_empty(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

pub(super) fn non_empty_owned(text: Option<&String>) -> Option<String> {
    non_empty(text).map(str::to_owned)
}

/// True for a DNS label (RFC 1123), as in names of hosts and MiniClusters.
pub fn is_label(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 63
        && text.starts_with(edge)
        && text.ends_with(edge)
        && text.chars().all(|c| edge(c) || c == '-')
}

/// True for a DNS subdomain (RFC 1123), as in names of most objects of Kubernetes.
pub(super) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// True for the value of a label, or the last part of its key (Kubernetes, `qualifiedNameFmt`).
fn is_qualified(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.starts_with(edge)
        && text.ends_with(edge)
        && text.chars().all(|c| edge(c) || "-_.".contains(c))
}

pub(super) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_qualified(text)
}

/// True for the key of a label, an annotation or a resource: `name`, or `domain/name`.
pub(super) fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_subdomain(domain) && is_qualified(name),
        None => is_qualified(text),
    }
}

/// True for a key of a `ConfigMap` or Secret.
pub(super) fn is_data_key(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=253).contains(&text.len())
        && text.chars().all(fits)
        && !text.starts_with("..")
        && text != "."
}

/// True for a name of an environment variable that Kubernetes accepts.
pub(super) fn is_variable(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

/// The value of a quantity; `None` for an invalid or negative one.
pub(super) fn quantity(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '+');
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].into_iter().zip(-3..);
    let decimal = decimal.map(|(suffix, power)| (suffix, 1_000_f64.powi(power)));
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter().zip(1..);
    let binary = binary.map(|(suffix, power)| (suffix, 1_024_f64.powi(power)));
    let found = decimal.chain(binary).find(|(it, _)| *it == suffix).map(|(_, factor)| factor);
    let exponent = || Some(10_f64.powi(suffix.strip_prefix(['e', 'E'])?.parse().ok()?));
    Some(number.parse::<f64>().ok()? * found.or_else(exponent)?)
}

pub(super) fn is_absolute_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains('\0') && !text.split('/').any(|part| part == "..")
}

/// True for a Flux Standard Duration (RFC 23): a number with an optional unit, or `inf`.
pub(super) fn is_duration(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    matches!(text, "inf" | "infinity")
        || matches!(unit, "ms" | "" | "s" | "m" | "h" | "d") && number.parse::<f64>().is_ok()
}

/// The words of a command line without shell syntax; `None` if a quote or an escape is not closed.
pub(super) fn words(text: &str) -> Option<Vec<String>> {
    shlex::split(&joined_lines(text))
}

/// `text` without line breaks after a backslash, as a shell reads it.
fn joined_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let (mut single, mut double) = (false, false);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if !single => match characters.next() {
                Some('\n') => continue,
                Some(next) => {
                    joined.extend(['\\', next]);
                    continue;
                }
                None => {}
            },
            '\'' if !double => single = !single,
            '"' if !single => double = !double,
            _ => {}
        }
        joined.push(character);
    }
    joined
}

/// The argument vector of a command. A command without shell syntax is split, so that the image needs no shell; the
/// container's `sh` runs any other. `None` if a quote or an escape is not closed.
pub(super) fn argument_vector(text: &str) -> Option<Vec<String>> {
    let text = text.trim();
    let words = words(text);
    if words.is_some() && shell_syntax(text).is_some() {
        return Some(vec!["sh".to_owned(), "-c".to_owned(), text.to_owned()]);
    }
    words
}
