//! Names of objects, and references to images as container runtimes read them (the grammar of
//! `github.com/distribution/reference`): `[<host>[:<port>]/]<path>[:<tag>][@<digest>]`.

use crate::cluster::validate::{Faults, is_label};

/// A DNS subdomain, as Kubernetes has it.
pub(super) fn is_object_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Longest repository, in bytes.
const REPOSITORY_LIMIT: usize = 255;

/// Checks that an image can be asked of a registry.
pub(super) fn image(path: &str, image: &str, faults: &mut Faults) {
    if image.is_empty() {
        faults.add(path, "empty: name an image");
    } else if image.contains(char::is_whitespace) {
        faults.add(path, format!("{image:?} has a blank in it: remove it"));
    } else if !is_reference(image) {
        let lower = image.to_ascii_lowercase();
        let remedy = if is_reference(&lower) {
            "write the name in lower-case letters"
        } else {
            "write it as [<host>[:<port>]/]<path>[:<tag>][@<digest>]"
        };
        faults.add(path, format!("{image:?} cannot be the name of an image: {remedy}"));
    }
}

fn is_reference(text: &str) -> bool {
    let (text, digest) = match text.split_once('@') {
        Some((text, digest)) => (text, Some(digest)),
        None => (text, None),
    };
    let (repository, tag) = match text.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        Some(_) | None => (text, None),
    };
    let path = match repository.split_once('/') {
        Some((host, path)) if is_host_like(host) => Some(path).filter(|_| is_host(host)),
        Some(_) | None => Some(repository),
    };
    repository.len() <= REPOSITORY_LIMIT
        && path.is_some_and(|path| path.split('/').all(is_component))
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
}

/// Whether what is before the first `/` is a host, and not the begin of a path.
fn is_host_like(text: &str) -> bool {
    text.contains(['.', ':']) || text == "localhost" || text.contains(|c: char| c.is_uppercase())
}

fn is_host(text: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.chars().all(|c| c.is_ascii_digit());
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        Some(_) | None => (text, None),
    };
    let edge = |c: char| c.is_ascii_alphanumeric();
    let is_label = |label: &str| {
        label.starts_with(edge)
            && label.ends_with(edge)
            && label.chars().all(|c| edge(c) || c == '-')
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_name = match address {
        Some(address) => {
            !address.is_empty() && address.chars().all(|c| c.is_ascii_hexdigit() || c == ':')
        }
        None => name.split('.').all(is_label),
    };
    is_name && port.is_none_or(is_port)
}

/// A part of a path: lower-case letters and digits, with `.`, `_`, `__` or dashes between them.
fn is_component(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators: Vec<&str> = text.split(inner).filter(|part| !part.is_empty()).collect();
    let is_separator =
        |part: &&str| matches!(*part, "." | "_" | "__") || part.chars().all(|c| c == '-');
    text.starts_with(inner) && text.ends_with(inner) && separators.iter().all(is_separator)
}

fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128
        && text.starts_with(word)
        && text.chars().all(|c| word(c) || matches!(c, '.' | '-'))
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, hash)| {
        algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
            && algorithm.chars().all(|c| c.is_ascii_alphanumeric() || "-_+.".contains(c))
            && hash.len() >= 32
            && hash.chars().all(|c| c.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_told_from_what_only_looks_like_them() {
        let digest = format!("a@sha256:{}", "0".repeat(64));
        for text in [
            "ubuntu",
            "ubuntu:24.04",
            "library/ubuntu:Noble_1",
            "ghcr.io/rse-ops/accounting:app-latest",
            "localhost/a",
            "localhost:5000/a/b__c/d.e/f---g",
            "Registry/a",
            "[fd00::1]:5000/a:1",
            &digest,
            &format!("quay.io:443/{digest}"),
        ] {
            assert!(is_reference(text), "{text}");
        }
        for text in [
            "Ubuntu:24.04",
            "ghcr.io/Owner/a",
            "a:",
            ":a",
            "a//b",
            "/a",
            "a/",
            "a..b",
            "a_-b",
            "-a",
            "https://ghcr.io/a",
            "ghcr.io:x/a",
            "a@sha256:0",
            "a@b@c",
            "a:b:c",
            "a:.b",
            "${IMAGE}",
            &"a".repeat(256),
        ] {
            assert!(!is_reference(text), "{text}");
        }
    }

    #[test]
    fn the_fault_says_what_to_do() {
        for (text, remedy) in [
            ("", "name an image"),
            ("ubuntu:24.04 ", "has a blank in it"),
            ("Ubuntu:24.04", "lower-case letters"),
            ("a:b:c", "write it as"),
        ] {
            let mut faults = Faults::default();
            image("spec.containers[0].image", text, &mut faults);
            let said = faults.end().unwrap_err().to_string();
            assert!(said.contains(remedy), "{said}");
        }
    }
}
