//! Instances of two and three brokers: forming, running a program, ending.

mod support;

use nix::sys::signal::Signal;
use support::{Site, provide, stderr, stdout, wait_for};

#[test]
fn three_brokers_run_a_program_and_its_exit_code_passes() {
    let site = Site::new(3);
    let program =
        site.script("program", "#!/bin/bash\nflux getattr size\nflux overlay status\nexit 7\n");
    let mut workers = [site.start(2, &[]), site.start(1, &["ignored", "program"])];
    let mut lead = site.start(0, &[&program]);
    assert_eq!(lead.code(), Some(7));
    assert_eq!(workers.each_mut().map(support::Broker::code), [Some(0), Some(0)]);
    assert_eq!(site.read("0.out"), "3\n0 a0: full\n├─ 1 a1: full\n└─ 2 a2: full\n");
    assert!(site.read("1.err").contains("<6>broker.info[1]: parent-ready: join->config-sync"));
    assert!(!site.path("run0").exists() && !site.path("run1").exists());
}

#[test]
fn a_program_that_is_missing_or_not_executable_has_the_codes_of_a_shell() {
    let site = Site::new(1);
    let plain = site.write("plain", "");
    for (words, code) in [
        (vec!["/nowhere/program", "x"], 127),
        (vec!["no-such-program", "x"], 127),
        (vec![plain.as_str(), "x"], 126),
        (vec!["bash", "-c", "kill -9 $$"], 137),
        (vec!["exit 3"], 3),
    ] {
        assert_eq!(site.start(0, &words).code(), Some(code), "{words:?}");
    }
}

#[test]
fn the_environment_of_the_program_is_that_of_an_initial_program() {
    let site = Site::new(1);
    let words = site.words("start", 0, &["bash", "-c", "env; command -v flux"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = site.command(&words);
    command.env("NOTIFY_SOCKET", "/nowhere").env("PMI_RANK", "3").env("KEPT", "yes");
    assert_eq!(site.spawn(command, 0).code(), Some(0));
    let output = site.read("0.out");
    assert!(output.contains("KEPT=yes\n"));
    assert!(output.contains(&format!("FLUX_URI=local://{}\n", site.text("run0/local-0"))));
    assert!(!output.contains("NOTIFY_SOCKET") && !output.contains("PMI_RANK"));
    assert!(output.ends_with("/flux\n"), "{output}");
}

#[test]
fn a_worker_with_another_certificate_stays_in_join_and_nobody_says_why() {
    let site = Site::new(3);
    assert!(site.flux(&["keygen", "--name=other", &site.text("other.cert")]).status.success());
    let config = site.read("broker.toml").replace("curve.cert", "other.cert");
    let other = site.write("other.toml", &config);
    let mut stranger = site.start(2, &["-c", &other]);
    let _worker = site.start(1, &[]);
    let _lead = site.start(0, &["-Sbroker.quorum=2", "sleep", "600"]);
    site.wait_for_log(0, "quorum->run");
    let uptime = stdout(&site.ask(2, &["uptime"]));
    assert!(uptime.contains(" join ") && uptime.ends_with("size 3\n"), "{uptime}");
    let refused = site.ask(2, &["submit", "true"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("Upstream Flux broker is offline. Try again later."));
    assert_eq!(stdout(&site.ask(0, &["overlay", "status", "--summary"])), "partial\n");
    assert!(stranger.runs());
    assert!(!site.read("0.err").contains("a2"), "{}", site.read("0.err"));
    assert_eq!(site.read("2.err").lines().count(), 2, "{}", site.read("2.err"));
}

#[test]
fn a_missing_host_delays_the_quorum_without_end() {
    let site = Site::new(3);
    let mut lead = site.start(0, &["-Sbroker.quorum-warn=100ms", "true"]);
    let _worker = site.start(1, &[]);
    site.wait_for_log(0, "<3>broker.err[0]: quorum delayed: waiting for a2 (rank 2)");
    assert!(lead.runs());
    let mut late = site.start(2, &[]);
    assert_eq!(lead.code(), Some(0));
    assert_eq!(late.code(), Some(0));
    assert!(site.read("0.err").contains("quorum reached"));
}

#[test]
fn signals_end_a_broker_as_the_table_says() {
    let site = Site::new(2);
    let mut lead = site.start(0, &["true"]);
    site.wait_for_log(0, "init->quorum");
    lead.signal(Signal::SIGTERM);
    assert_eq!(lead.code(), Some(0), "in quorum");
    let mut worker = site.start(1, &[]);
    site.wait_for_log(1, "load-builtins->join");
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.code(), Some(0), "in join");

    let single = Site::new(1);
    let handler = "trap 'exit 0' HUP; echo ready; while :; do sleep 0.05; done";
    for (program, code) in [("echo ready; exec sleep 600", 129), (handler, 1)] {
        let mut lead = single.start(0, &["bash", "-c", program]);
        wait_for("the program", || single.read("0.out").contains("ready").then_some(()));
        lead.signal(Signal::SIGUSR1);
        lead.signal(Signal::SIGTERM);
        assert_eq!(lead.code(), Some(code), "{program}");
    }
    let mut lead = single.start(0, &["-Sbroker.rc2_none"]);
    single.wait_for_log(0, "quorum->run");
    lead.signal(Signal::SIGTERM);
    assert_eq!(lead.code(), Some(0), "without a program");
}

#[test]
fn shutdown_ends_the_instance_from_rank_0_only() {
    let site = Site::new(2);
    let mut lead = site.start(0, &["sleep", "600"]);
    site.wait_for_log(0, "init->quorum");
    let early = site.ask(0, &["shutdown"]);
    assert_eq!(early.status.code(), Some(1));
    assert!(stderr(&early).contains("shutdown cannot be initiated in state quorum"));
    let mut worker = site.start(1, &[]);
    site.wait_for_log(1, "quorum->run");
    let wrong = site.ask(1, &["shutdown"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("shutdown may only be initiated on rank 0"));
    let shutdown = site.ask(0, &["shutdown"]);
    assert!(shutdown.status.success(), "{}", stderr(&shutdown));
    assert!(stderr(&shutdown).contains("broker.info[0]: children-complete: shutdown->finalize"));
    assert_eq!(lead.code(), Some(129));
    assert_eq!(worker.code(), Some(0));
}

#[test]
fn a_worker_outlives_its_lead_until_a_new_one_sends_it_away() {
    let site = Site::new(2);
    let mut worker = site.start(1, &["-Stbon.torpid_min=100ms"]);
    let lead = site.start(0, &["sleep", "600"]);
    site.wait_for_log(1, "quorum->run");
    lead.signal(Signal::SIGKILL);
    drop(lead);
    assert!(worker.runs());
    let _new = site.start(0, &["sleep", "600"]);
    assert_eq!(worker.code(), Some(1));
    let log = site.read("1.err");
    assert!(log.contains("overlay.crit[1]: a0 (rank 0) sent disconnect control message"), "{log}");
    let mut again = site.start(1, &[]);
    site.wait_for_log(0, "quorum->run");
    assert!(again.runs());
}

#[test]
fn a_lost_worker_is_noticed_and_may_come_back() {
    let site = Site::new(2);
    let worker = site.start(1, &[]);
    let _lead = site.start(0, &["sleep", "600"]);
    site.wait_for_log(0, "quorum->run");
    worker.signal(Signal::SIGKILL);
    drop(worker);
    site.wait_for_log(0, "overlay.err[0]: a1 (rank 1) failed");
    site.wait_for_log(0, "broker.err[0]: dead to Flux: a1 (rank 1)");
    assert_eq!(stdout(&site.ask(0, &["overlay", "status", "--summary"])), "degraded\n");
    let _worker = site.start(1, &[]);
    let status = site.ask(0, &["overlay", "status", "--wait=full", "--timeout=30s"]);
    assert!(status.status.success(), "{}", stderr(&status));
}

#[test]
fn a_mismatched_configuration_is_refused_at_hello() {
    let site = Site::new(2);
    let config = site.read("broker.toml");
    let config =
        config.replace(r#"hosts = [{ host = "a[0-1]" }]"#, r#"hosts = [{ host = "a0,b1" }]"#);
    let other =
        site.write("other.toml", &config.replace(r#"hosts = "a[0-1]""#, r#"hosts = "a0,b1""#));
    let _lead = site.start(0, &["true"]);
    let mut worker = site.start(1, &["-Shostname=b1", "-c", &other]);
    assert_eq!(worker.code(), Some(1));
    site.wait_for_log(1, "overlay.err[1]: overlay.hello: Invalid argument");
    let text =
        "rejecting connection from b1 (rank 1): a1 is configured as rank 1: mismatched config?";
    site.wait_for_log(0, text);
}

#[test]
fn a_broker_that_leads_its_process_group_takes_the_group_along() {
    let site = Site::new(1);
    let program = "sleep 600 & echo $!; flux getattr rank";
    let words = site.words("start", 0, &["bash", "-c", program]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = site.command(&words);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    assert_eq!(site.spawn(command, 0).code(), Some(0));
    let process = site.read("0.out").lines().next().unwrap_or_default().to_owned();
    wait_for("the end of the program's child", || {
        let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
        status.map_or(Some(()), |status| status.contains(") Z ").then_some(()))
    });
}

#[test]
fn states_are_reported_to_a_service_manager() {
    let site = Site::new(1);
    let socket = std::os::unix::net::UnixDatagram::bind(site.path("notify")).expect("binds");
    let words = site.words("start", 0, &["-Sbroker.sd-notify=1", "true", "x"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = site.command(&words);
    command.env("NOTIFY_SOCKET", site.path("notify"));
    assert_eq!(site.spawn(command, 0).code(), Some(0));
    socket.set_nonblocking(true).expect("sets");
    let mut buffer = [0_u8; 256];
    let mut reports = Vec::new();
    while let Ok(count) = socket.recv(&mut buffer) {
        reports.push(String::from_utf8_lossy(&buffer[..count]).into_owned());
    }
    assert_eq!(reports.first().map(String::as_str), Some("READY=1"));
    let run = "STATUS=Running as leader of 1 node Flux instance";
    assert!(reports.iter().any(|report| report == run), "{reports:?}");
    assert_eq!(reports.last().map(String::as_str), Some("STATUS=Exiting"));
}

#[test]
fn no_shell_no_rc1() {
    let site = Site::new(1);
    let words = site.words("broker", 0, &["/bin/true"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let bare = |shell: Option<&str>| {
        let mut command = site.command(&words);
        command.env_clear().env("PATH", site.text("bin"));
        command.envs(shell.map(|shell| ("SHELL", shell)));
        site.spawn(command, 0).code()
    };
    assert_eq!(bare(Some("/nowhere/bash")), Some(127));
    assert_eq!(bare(Some(&site.text("bin/flux"))), Some(1), "bash is not in PATH");
    provide(&site, "bash", "flux");
    assert_eq!(bare(Some(&site.text("bin/bash"))), Some(0));
    let bash = std::process::Command::new(site.path("bin/bash")).args(["-c", "true"]).output();
    let bash = bash.expect("runs");
    assert_eq!(bash.status.code(), Some(64));
    assert_eq!(stderr(&bash), "bash: not simulated by the stand-in\n");
}

#[test]
fn ipc_endpoints_work_too() {
    let site = Site::new(2);
    let socket = site.text("overlay.sock");
    let config = site.read("broker.toml");
    let config = config
        .replace("tcp://lo:%p", &format!("ipc://{socket}"))
        .replace("tcp://127.0.0.1:%p", &format!("ipc://{socket}"));
    site.write("broker.toml", &config);
    let mut worker = site.start(1, &[]);
    assert_eq!(site.start(0, &["true", "x"]).code(), Some(0));
    assert_eq!(worker.code(), Some(0));
}
