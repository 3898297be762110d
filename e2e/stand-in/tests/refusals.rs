//! What real Flux refuses, with its texts and exit code 1; and what is not simulated, with 64.

mod support;

use std::os::unix::fs::PermissionsExt;

use support::{Site, stderr};

fn refused(site: &Site, rank: u32, more: &[&str], text: &str) {
    let (code, error) = site.refusal(rank, more);
    assert_eq!(code, Some(1), "{more:?}: {error}");
    assert!(error.contains(text), "{more:?}: {error}");
}

#[test]
fn options_and_attributes_that_real_flux_does_not_know() {
    let site = Site::new(1);
    refused(&site, 0, &["--nope"], "flux-broker: unrecognized option '--nope'");
    refused(&site, 0, &["-Snope=1"], "broker: nope: unknown attribute");
    refused(&site, 0, &["-Srank=1"], "broker: rank: attribute may not be set on the command line");
    refused(&site, 0, &["-Sbroker.quorum=2", "x"], "Error parsing broker.quorum attribute");
    refused(&site, 0, &["-Sbroker.quorum-warn=x"], "Error parsing broker.quorum-warn attribute");
    refused(
        &site,
        0,
        &["-Sbroker.boot-method=nope"],
        "bootstrap: plugin matching 'nope' not found",
    );
    refused(&site, 0, &[], "stdin is not a tty - can't run interactive shell");
}

#[test]
fn local_resources_are_taken_as_they_are() {
    let site = Site::new(1);
    for more in ["--cores=0", "--gpus=0"] {
        let output = site.flux(&["R", "encode", "--local", more]);
        assert_eq!(output.status.code(), Some(1), "{more}");
        let text = "flux-R: do not specify --cores or --gpus with --local or --xml";
        assert!(stderr(&output).contains(text), "{}", stderr(&output));
    }
}

#[test]
fn flux_start_splits_attributes_at_commas_and_flux_broker_does_not() {
    let site = Site::new(1);
    let split = "-Sbroker.rc2_none,nope=1";
    let words = site.words("start", 0, &[split]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert!(stderr(&site.flux(&words)).contains("broker: nope: unknown attribute"));
    refused(&site, 0, &[split], "broker: broker.rc2_none,nope: unknown attribute");
}

#[test]
fn bootstrap_faults() {
    let site = Site::new(2);
    let prefix = "bootstrap: config: initialize: Config file error [bootstrap]: ";
    let config = site.read("broker.toml");
    for (from, to, text) in [
        ("default_port", "nope = 1\ndefault_port", "1 object item(s) left unpacked: nope"),
        ("curve_cert", "# ", "curve_cert must be defined for size > 1"),
        ("a[0-1]", "b[0-1]", "a0 not found in hosts"),
        (
            "tcp://lo:%p",
            "tcp://*:*",
            "invalid hosts[0]: bind key tcp://*:* contains 0MQ port wildcard",
        ),
    ] {
        site.write("broker.toml", &config.replace(from, to));
        refused(&site, 0, &["true"], &format!("broker.crit[a0]: {prefix}{text}"));
    }
    site.write("broker.toml", &config.replace("a[0-1]", "a_0"));
    let (code, error) = site.refusal(0, &["-Shostname=a_0", "true"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("a_0 domain label contains invalid character '_' (0x5f)"), "{error}");
}

#[test]
fn endpoint_faults() {
    let site = Site::new(2);
    let config = site.read("broker.toml");
    let port = site.port;
    for (from, to, text) in [
        (
            "tcp://lo:%p",
            "tcp://localhost:%p",
            format!("error binding to tcp://localhost:{port}: No such device"),
        ),
        ("default_bind", "# ", "bind URI is undefined for rank 0".to_owned()),
        ("default_connect", "# ", "connect URI is undefined for rank 0".to_owned()),
    ] {
        site.write("broker.toml", &config.replace(from, to));
        refused(&site, 0, &["true"], &format!("overlay.err[0]: {text}"));
    }
    site.write("broker.toml", &config);
    let _holder = std::net::TcpListener::bind(("127.0.0.1", port)).expect("binds");
    let text = format!("error binding to tcp://lo:{port}: Address already in use");
    refused(&site, 0, &["true"], &text);
    refused(&site, 0, &["true"], "error loading builtins: overlay is unexpectedly finalizing");
}

#[test]
fn certificate_faults() {
    let site = Site::new(2);
    let path = site.text("curve.cert");
    let fault = |text: &str| format!("overlay.err[0]: {text}");
    let mode =
        |bits| std::fs::set_permissions(&path, PermissionsExt::from_mode(bits)).expect("chmod");
    let load = format!("Error loading certificate: {path}");
    mode(0o640);
    refused(&site, 0, &["true"], &fault(&format!("{load}: readable by group/other")));
    mode(0o600);
    let good = site.read("curve.cert");
    site.write("curve.cert", &good.replace("    name = \"test\"\n", ""));
    refused(&site, 0, &["true"], &fault("overlay_authorize: Invalid argument"));
    site.write("curve.cert", &good.replace("secret-key", "private-key"));
    refused(&site, 0, &["true"], &fault(&format!("{load}: Invalid argument")));
    std::fs::remove_file(&path).expect("removes");
    refused(&site, 0, &["true"], &fault(&format!("{load}: No such file or directory")));
}

#[test]
fn strict_tables() {
    let site = Site::new(1);
    let config = site.read("broker.toml");
    for (extra, text) in [
        (
            "[access]\nnope = 1\n",
            "connector-local.err[0]: error parsing [access] configuration: 1 object",
        ),
        (
            "[tbon]\nconnect_timeout = 5\n",
            "overlay.err[0]: Config file error [tbon]: Expected string",
        ),
        ("[heartbeat]\nnope = 1\n", "1 object item(s) left unpacked: nope"),
    ] {
        site.write("broker.toml", &format!("{config}{extra}"));
        refused(&site, 0, &["true"], text);
    }
    site.write("broker.toml", &config.replace("noverify = true", "nope = true"));
    refused(
        &site,
        0,
        &["true"],
        "resource.err[0]: error parsing [resource] configuration: 1 object",
    );
    site.write("broker.toml", &config.replace(r#"hosts = "a[0-0]""#, r#"hosts = "a[0-3]""#));
    refused(
        &site,
        0,
        &["true"],
        "error reranking R: Number of hosts (1) is less than node count (4)",
    );
    site.write("broker.toml", "[x]\na = 1\na = 2\n");
    let line =
        format!("broker.crit[a0]: Config file error: {}:3: key a exists", site.text("broker.toml"));
    refused(&site, 0, &["true"], &line);
    site.write("broker.toml", &format!("{config}[tbon]\nnope = 1\n[foo]\nx = 1\n"));
    assert_eq!(site.start(0, &["true", "x"]).code(), Some(0));
}

#[test]
fn a_cron_directory_may_be_empty_or_missing() {
    let site = Site::new(1);
    std::fs::create_dir(site.path("cron")).expect("creates");
    for path in [site.text("cron"), "/nowhere/cron".to_owned()] {
        let option = format!("-Scron.directory={path}");
        assert_eq!(site.start(0, &[&option, "true"]).code(), Some(0), "{path}");
    }
    assert_eq!(site.start(0, &["-Scron.directory", "true"]).code(), Some(0));
}

/// The worker has the leader's configuration, and its own file system.
#[test]
fn a_resource_file_that_is_missing_on_a_worker_fails_its_rc1() {
    let site = Site::new(2);
    let path = site.text("R");
    let set = site.flux(&["R", "encode", "--hosts=a[0-1]", "--cores=0-1"]);
    site.write("R", &String::from_utf8_lossy(&set.stdout));
    let config = site.read("broker.toml");
    let (bootstrap, _) = config.split_once("[[resource.config]]").expect("a table");
    site.write("broker.toml", &format!("{bootstrap}path = \"{path}\"\n"));
    let mut lead = site.start(0, &["sleep", "600"]);
    site.wait_for_log(0, "rc1-success: init->quorum");
    std::fs::remove_file(&path).expect("removes");
    let mut worker = site.start(1, &[]);
    assert_eq!(worker.code(), Some(1));
    let log = site.read("1.err");
    let reason = format!("{path}: unable to open {path}: No such file or directory on line -1");
    for line in [
        &format!("<3>resource.err[1]: {reason}\n"),
        "<2>resource.crit[1]: module exiting abnormally\n",
        "<3>broker.err[1]: resource: No such file or directory\n",
        "<3>broker.err[1]: rc1.0: resource: [Errno 2] No such file or directory\n",
        "<3>broker.err[1]: rc1.0: flux modprobe rc1 Exited (rc=1) ",
        "rc1-fail: init->shutdown",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert!(lead.runs());
    assert_eq!(site.read("0.err").matches("online: a0 (ranks 0)").count(), 1);
}

#[test]
fn directories_that_cannot_be_used() {
    let site = Site::new(1);
    let long = format!("-Srundir=/tmp/{}", "x".repeat(105));
    refused(&site, 0, &[&long, "true"], "rundir length of 110 bytes exceeds max 96");
    refused(
        &site,
        0,
        &["-Sstatedir=/nowhere/state", "true"],
        "statedir error creating /nowhere/state",
    );
    refused(&site, 0, &["-Slocal-uri=/x", "true"], "local-uri is malformed");
}

#[test]
fn what_real_flux_could_do_is_not_simulated() {
    let site = Site::new(1);
    let crontabs = format!("-Scron.directory={}", site.text(""));
    for words in [
        vec!["exec", "true"],
        vec!["module", "list"],
        vec!["start", "-s2", "true"],
        vec!["start", "--recovery"],
        vec!["R", "decode"],
        vec!["broker", "-Sbroker.rc1_path=", "true"],
        vec!["broker", crontabs.as_str(), "true"],
        vec!["broker", "--conf=queues.a.requires=x", "true"],
    ] {
        let output = site.flux(&words);
        assert_eq!(output.status.code(), Some(64), "{words:?}");
        assert!(stderr(&output).contains("not simulated by the stand-in"), "{words:?}");
    }
}

#[test]
fn without_a_broker_commands_fail_after_a_while() {
    let site = Site::new(1);
    let output = site.ask(0, &["uptime"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "flux: flux_open: No such file or directory\n");
}
