//! What the agent gives to each release of Flux: its command lines, its configuration, its requests. Each stand-in
//! refuses what its release refuses.

use crate::settings::{facts, plain, submission, words};
use crate::site::{Answer, Broker, Site, answer, skipped_with_real_flux, wait_for};
use flux_agent::plan::{Facts, Plan, broker_config, plan};
use flux_contract::{AgentConfig, Bootstrap, ClusterName, Layout, Rest, Workload};
use flux_protocol::Hostlist;
use flux_protocol::client::{BrokerAddress, job_list, job_manager, resource};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// The minor numbers of the releases in the table of the page on custom views.
const RELEASES: [u32; 20] =
    [48, 49, 50, 51, 53, 61, 64, 66, 68, 69, 72, 73, 75, 77, 79, 80, 82, 84, 87, 88];

/// A lead without workers, whose Flux is of one release.
struct Lead {
    site: Site,
    config: AgentConfig,
    facts: Facts,
}

impl Lead {
    fn new(minor: u32) -> Self {
        let site = Site::new(1);
        let submission = submission(&["-n1", "-ocpu-affinity=off"], &["echo", "hello"]);
        let mut config = plain(Workload::Submit { submission });
        config.cluster.name = ClusterName::new("hello").expect("a name");
        config.layout = Layout::new(site.text("mnt")).with_private(site.text("private"));
        config.network.bootstrap = Bootstrap::Root { hosts: Hostlist::of_range("hello", 0..1) };
        config.network.port = site.port;
        config.broker.quorum = Some(1);
        config.broker.topology = Some("kary:2".to_owned());
        config.broker.zeromq_debug = true;
        config.broker.log_level = 6;
        config.rest = Some(Rest { port: 8080, token_sha256: "0".repeat(64) });
        let mut facts = facts(&config, "hello-0", nix::unistd::getuid().as_raw());
        facts.flux_version = Some(format!("0.{minor}.0"));
        let lead = Self { site, config, facts };
        lead.install(minor);
        lead
    }

    /// Puts Flux into the view, and makes what the agent makes before it starts the broker.
    fn install(&self, minor: u32) {
        let layout = &self.config.layout;
        let view = layout.view();
        let directories = [layout.broker_config_dir(), layout.cron_dir(), layout.run_dir()];
        let of_view = ["bin", "libexec/flux/cmd"].map(|path| format!("{view}/{path}"));
        let system = format!("{}/config/etc/flux/system", layout.mount());
        for directory in directories.into_iter().chain([layout.state_dir(), system]).chain(of_view)
        {
            fs::create_dir_all(directory).expect("creates");
        }
        let flux = format!("{view}/bin/flux");
        let mut copy = Command::new(env!("CARGO_BIN_EXE_flux-stand-in"));
        copy.args(["--release", &format!("0.{minor}.0"), &flux]);
        assert_eq!(answer(copy).code, Some(0));
        fs::hard_link(&flux, format!("{view}/libexec/flux/cmd/flux-job")).expect("links");
        let set = self.site.read("R").replace("a[0-0]", "hello-0");
        fs::write(layout.resource_file(), set).expect("writes");
    }

    fn plan(&self) -> Plan {
        plan(&self.config, &self.facts).expect("a plan")
    }

    /// The planned broker, not started yet.
    fn broker(&self) -> Command {
        let file = broker_config(&self.config, &self.facts, None).expect("a configuration");
        fs::write(file.path, file.content).expect("writes");
        let mut words = self.plan().broker.command;
        words.push("-o-Shostname=hello-0".to_owned());
        self.command(&words)
    }

    fn start(&self) -> Broker {
        let mut broker = self.site.spawn(self.broker(), 0);
        wait_for("the broker", || {
            let log = self.site.read("0.err");
            assert!(broker.runs(), "{log}");
            log.contains("quorum->run").then_some(())
        });
        broker
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = self.site.command(&[]);
        let mut of_view = Command::new(&words[0]);
        of_view.args(&words[1..]).current_dir(self.site.path("."));
        for (name, value) in command.env("FLUX_URI", self.config.layout.local_uri()).get_envs() {
            match value {
                Some(value) => of_view.env(name, value),
                None => of_view.env_remove(name),
            };
        }
        of_view
    }

    /// Runs `flux` with these words.
    fn flux(&self, arguments: &[&str]) -> Answer {
        let flux = format!("{}/bin/flux", self.config.layout.view());
        answer(self.command(&words(&[&[flux.as_str()], arguments].concat())))
    }

    fn address(&self) -> BrokerAddress {
        BrokerAddress { socket: self.config.layout.local_socket().into(), owner: None }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().expect("a runtime").block_on(future)
}

/// Asks what the agent asks of an instance with one job, and ends the job.
async fn requests(broker: &BrokerAddress, minor: u32) {
    let mut socket = broker.connect().await.expect("a connection");
    let jobs = job_list::running_on(&mut socket, &[0], 9).await.expect("the jobs of the rank");
    assert_eq!(job_manager::newest(broker, 1).await, Some(jobs.clone()), "0.{minor}");
    assert_eq!(job_manager::active(broker).await.is_some(), minor >= 49, "0.{minor}");
    assert_eq!(resource::ranks(&mut socket).await.is_ok(), minor >= 61, "0.{minor}");
    resource::drain(&mut socket, &[0], "fan").await.expect("drains");
    let status = resource::status(&mut socket).await.expect("a status");
    assert_eq!(status.drain_reason(0), Some("fan"));
    resource::undrain(&mut socket, 0).await.expect("undrains");
    job_manager::signal(broker, jobs[0], Signal::SIGTERM as i32).await.expect("signals");
}

#[test]
fn every_release_accepts_what_the_agent_gives_it() {
    if skipped_with_real_flux("it has one release") {
        return;
    }
    for minor in RELEASES {
        let mut lead = Lead::new(minor);
        let mut broker = lead.start();
        let run = lead.plan().broker.lead_command.expect("a command").words;
        let ran = answer(lead.command(&run));
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "hello\n"), "0.{minor}: {ran:?}");
        let submission = submission(&["-n1"], &["sleep", "600"]);
        lead.config.workload = Workload::Interactive { submission: Some(submission) };
        let submitted = answer(lead.command(&lead.plan().broker.submission.expect("words")));
        assert_eq!(submitted.code, Some(0), "0.{minor}: {submitted:?}");
        let running = || (lead.flux(&["jobs", "-no", "{state}"]).out == "RUN\n").then_some(());
        wait_for("the job", running);
        block_on(requests(&lead.address(), minor));
        assert!(lead.flux(&["version"]).out.contains(&format!("0.{minor}.0")));
        assert_eq!(broker.end(), Some(0), "0.{minor}: {}", lead.site.read("0.err"));
    }
}

#[test]
fn older_releases_refuse_what_newer_ones_get() {
    if skipped_with_real_flux("it has one release") {
        return;
    }
    let refused = |answer: &Answer, code, text: &str| {
        assert_eq!(answer.code, Some(code), "{text}: {answer:?}");
        assert!(answer.err.contains(text), "{text}: {answer:?}");
    };
    let with = |minor, change: fn(&mut Lead)| {
        let mut lead = Lead::new(minor);
        change(&mut lead);
        answer(lead.broker())
    };
    let newer = |lead: &mut Lead| lead.facts.flux_version = Some("0.51.0".to_owned());
    refused(&with(50, newer), 1, "Error parsing broker.quorum attribute");
    let mincrit = |lead: &mut Lead| lead.config.broker.topology = Some("mincrit".to_owned());
    refused(&with(74, mincrit), 1, "unknown topology scheme 'mincrit'");
    refused(&Lead::new(68).flux(&["start", "-Sa=b"]), 1, "unrecognized option '--setattr'");
    refused(&Lead::new(67).flux(&["jobs", "--sort=t_run"]), 2, "unrecognized arguments: --sort");
    let oldest = Lead::new(47);
    assert!(plan(&oldest.config, &oldest.facts).is_err());
    refused(&oldest.flux(&["run", "true"]), 1, "`run' is not a flux command");
}

#[test]
fn older_releases_refuse_constraints_of_jobs() {
    if skipped_with_real_flux("it has one release") {
        return;
    }
    for (minor, constraint, is_known) in [
        (52, json!({ "states": ["running"] }), false),
        (53, json!({ "states": ["running"] }), true),
        (63, json!({ "and": [{ "states": ["running"] }, { "ranks": ["0"] }] }), false),
        (64, json!({ "and": [{ "states": ["running"] }, { "ranks": ["0"] }] }), true),
    ] {
        let lead = Lead::new(minor);
        let _broker = lead.start();
        let listed = block_on(async {
            let mut socket = lead.address().connect().await.expect("a connection");
            job_list::list::<Value>(&mut socket, 9, "", &constraint).await
        });
        assert_eq!(listed.is_ok(), is_known, "0.{minor}: {listed:?}");
    }
}

#[test]
fn flux_run_passes_signals_on_since_073() {
    if skipped_with_real_flux("it has one release") {
        return;
    }
    let script = "trap 'echo saved; exit 3' TERM; touch up; while :; do sleep 0.05; done";
    for (minor, code, output) in [(72, None, ""), (73, Some(3), "saved\n")] {
        let lead = Lead::new(minor);
        let _broker = lead.start();
        let flux = format!("{}/bin/flux", lead.config.layout.view());
        let run = lead.command(&words(&[&flux, "run", "-n1", "sh", "-c", script]));
        let mut run = lead.site.spawn(run, 9);
        wait_for("the task", || lead.site.path("up").exists().then_some(()));
        let process = i32::try_from(run.0.id()).expect("a process id");
        kill(Pid::from_raw(process), Signal::SIGTERM).expect("signals");
        assert_eq!((run.code(), lead.site.read("9.out").as_str()), (code, output), "0.{minor}");
    }
}
