//! What real Flux refuses; and what is not simulated, with exit code 64.

use crate::site::{Site, answer, skipped_with_real_flux};

/// Runs a broker that is to be refused, with exit code 1 and a text.
fn refused(site: &Site, more: &[&str], text: &str) {
    let answer = answer(site.broker("broker", 0, more));
    assert_eq!(answer.code, Some(1), "{more:?}: {answer:?}");
    assert!(answer.err.contains(text), "{more:?}: {answer:?}");
}

/// Runs a broker with each of these changes to a file: what there is, what takes its place, and the text of the
/// refusal.
fn refused_with(site: &Site, file: &str, changes: &[(&str, &str, &str)]) {
    let good = site.read(file);
    for (from, to, text) in changes {
        site.write(file, &good.replace(from, to));
        refused(site, &[], text);
    }
    site.write(file, &good);
}

#[test]
fn attributes_that_make_no_sense() {
    let site = Site::new(1);
    for (more, text) in [
        ("-Sbroker.quorum=2", "Error parsing broker.quorum attribute"),
        ("-Sbroker.cleanup-timeout=x", "Error parsing broker.cleanup-timeout attribute"),
        ("-Sstatedir=/nowhere/state", "statedir error creating /nowhere/state"),
        ("-Slocal-uri=/x", "local-uri is malformed"),
        ("-Slocal-uri=local:///nowhere/local", "local-uri directory cannot stat /nowhere"),
    ] {
        refused(&site, &[more], text);
    }
    let long = format!("-Srundir={}", site.text(&"x".repeat(105)));
    refused(&site, &[&long], "");
}

#[test]
fn configuration_that_makes_no_sense() {
    let site = Site::new(2);
    let _taken = std::net::TcpListener::bind(("127.0.0.1", site.port)).expect("binds");
    let changes = [
        ("default_port", "nope = 1\ndefault_port", "nope"),
        ("curve_cert", "# ", "curve_cert must be defined for size > 1"),
        ("a[0-1]", "b[0-1]", "a0 not found in hosts"),
        ("a[0-1]", "a[0", "host key is not a valid RFC 29 hostlist"),
        ("tcp://127", "udp://127", "udp://127"),
        ("bind = \"tcp://127.0.0.1", "bind = \"tcp://nobody", "error binding to tcp://nobody"),
        ("[bootstrap]", "[bootstrap]", "Address already in use"),
        ("[resource]", "[access]\nnope = 1\n[resource]", "nope"),
        ("[resource]", "[x]\na = 1\na = 2\n[resource]", "broker.toml"),
    ];
    refused_with(&site, "broker.toml", &changes);
}

#[test]
fn certificates_that_make_no_sense() {
    let site = Site::new(2);
    let load = format!("Error loading certificate: {}", site.text("curve.cert"));
    site.set_mode("curve.cert", 0o640);
    refused(&site, &[], &format!("{load}: readable by group/other"));
    site.set_mode("curve.cert", 0o600);
    let changes =
        [("    name = \"test\"\n", "", "overlay.err[0]"), ("secret-key", "private-key", &load)];
    refused_with(&site, "curve.cert", &changes);
    std::fs::remove_file(site.path("curve.cert")).expect("removes");
    refused(&site, &[], &format!("{load}: No such file or directory"));
}

#[test]
fn resources_that_make_no_sense() {
    let site = Site::new(1);
    let changes = [
        ("noverify = true", "nope = true", "nope"),
        ("[resource]", "[resource]\nexclude = \"7\"", "exclude"),
        ("/R\"", "/nowhere\"", "No such file or directory"),
    ];
    refused_with(&site, "broker.toml", &changes);
    let set = site.read("R");
    let changes = [
        ("a[0-0]", "b0", "error reranking R: "),
        ("\"0\"", "\"0-0\"", "rc1-fail: init->shutdown"),
        (&set, "no JSON", "rc1-fail: init->shutdown"),
    ];
    refused_with(&site, "R", &changes);
}

#[test]
fn what_real_flux_could_do_is_not_simulated() {
    if skipped_with_real_flux("it can") {
        return;
    }
    let site = Site::new(1);
    let config = site.read("broker.toml");
    site.write("broker.toml", &format!("{config}[queues]\n"));
    for words in [
        vec!["exec", "true"],
        vec!["module", "list"],
        vec!["overlay", "status"],
        vec!["start", "-s2", "true"],
        vec!["R", "decode"],
        vec!["jobs", "--json"],
        vec!["submit", "--cc=1-2", "true"],
    ] {
        let answer = site.ask(0, &words);
        assert_eq!(answer.code, Some(64), "{words:?}: {answer:?}");
        assert!(answer.err.ends_with("not simulated by the stand-in\n"), "{words:?}");
    }
    for more in ["-Sbroker.rc1_path=", "-Stbon.topo=kary:0", "true"] {
        assert_eq!(answer(site.broker("broker", 0, &[more])).code, Some(64), "{more}");
    }
}

#[test]
fn without_a_broker_commands_fail_after_a_while() {
    let site = Site::new(1);
    for words in [&["getattr", "size"][..], &["jobs"]] {
        assert_eq!(site.ask(0, words).code, Some(1), "{words:?}");
    }
}
