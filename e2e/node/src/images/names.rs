//! What an image's short name stands for.

/// The name with registry and tag, as container runtimes complete it: `debian` is
/// `docker.io/library/debian:latest`.
pub fn full_name(name: &str) -> String {
    let (first, rest) = name.split_once('/').unwrap_or(("", name));
    // A first part with a dot or a port, and `localhost`, is a registry.
    let is_registry = first.contains(['.', ':']) || first == "localhost";
    let mut full = match (is_registry, first.is_empty()) {
        (true, _) => name.to_owned(),
        (false, true) => format!("docker.io/library/{name}"),
        (false, false) => format!("docker.io/{name}"),
    };
    let last = rest.rsplit('/').next().unwrap_or(rest);
    if !last.contains([':', '@']) {
        full.push_str(":latest");
    }
    full
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_completed_and_full_ones_are_kept() {
        for (name, full) in [
            ("debian", "docker.io/library/debian:latest"),
            ("debian:12", "docker.io/library/debian:12"),
            ("someone/app", "docker.io/someone/app:latest"),
            ("ghcr.io/a/b:1", "ghcr.io/a/b:1"),
            ("localhost/a", "localhost/a:latest"),
            ("host:5000/a", "host:5000/a:latest"),
            ("a@sha256:00", "docker.io/library/a@sha256:00"),
        ] {
            assert_eq!(full_name(name), full);
        }
    }
}
