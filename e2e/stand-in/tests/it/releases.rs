//! What the agent gives to each release of Flux: its command lines, its configuration, its requests. Each stand-in
//! refuses what its release refuses.

use crate::settings::{facts, plain, submission};
use crate::site::{Answer, Site, answer, wait_for};
use flux_agent::plan::{Facts, Plan, broker_config, plan};
use flux_contract::{AgentConfig, Bootstrap, ClusterName, Layout, Rest, Workload};
use flux_protocol::Hostlist;
use flux_protocol::client::{BrokerAddress, job_list, job_manager, resource};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// The minor numbers of the releases in the table of the page on custom views.
const RELEASES: [u32; 21] =
    [48, 49, 50, 51, 53, 57, 61, 64, 66, 68, 69, 72, 73, 75, 77, 79, 80, 82, 84, 87, 88];

/// Ends at SIGTERM with what is lost where nobody prints it.
const SAVES: &str = "trap 'echo saved; exit 3' TERM; touch up; while :; do sleep 0.05; done";

/// A lead without workers, whose Flux is of one release.
struct Lead {
    site: Site,
    config: AgentConfig,
    facts: Facts,
}

/// Makes `flux` the Flux of the site, a stand-in for this release.
fn use_release(site: &mut Site, release: &str, flux: String) {
    let mut copy = Command::new(env!("CARGO_BIN_EXE_flux-stand-in"));
    copy.args(["--release", release, &flux]);
    assert_eq!(answer(copy).code, Some(0));
    site.flux = flux.into();
}

impl Lead {
    fn new(minor: u32) -> Self {
        let mut site = Site::new(1);
        let submission = submission(&["-n1", "-ocpu-affinity=off"], &["sh", "-c", SAVES]);
        let mut config = plain(Workload::Submit { submission });
        config.cluster.name = ClusterName::new("hello").expect("a name");
        config.layout = Layout::new(site.text("mnt")).with_private(site.text("private"));
        config.network.bootstrap = Bootstrap::Root { hosts: Hostlist::of_range("hello", 0..1) };
        config.network.port = site.port;
        config.broker.quorum = Some(1);
        config.broker.topology = Some("kary:2".to_owned());
        config.broker.zeromq_debug = true;
        config.broker.log_level = 6;
        config.rest = Some(Rest { port: 8080, ..Rest::default() });
        let mut facts = facts(&config, "hello-0", nix::unistd::getuid().as_raw());
        facts.flux_version = Some(format!("0.{minor}.0"));

        let (layout, bin) = (&config.layout, format!("{}/bin", config.layout.view()));
        let directories = [layout.broker_config_dir(), layout.cron_dir(), bin.clone()];
        for directory in directories.into_iter().chain([layout.run_dir(), layout.state_dir()]) {
            fs::create_dir_all(directory).expect("creates");
        }
        use_release(&mut site, &format!("0.{minor}.0"), format!("{bin}/flux"));
        let set = site.read("R").replace("a[0-0]", "hello-0");
        fs::write(layout.resource_file(), set).expect("writes");
        Self { site, config, facts }
    }

    fn plan(&self) -> Plan {
        plan(&self.config, &self.facts).expect("a plan")
    }

    /// The words of a plan, of which the first is `flux`, as a command.
    fn planned(&self, words: &[String]) -> Command {
        let mut command = self.site.command(&[]);
        command.args(&words[1..]).env("FLUX_URI", self.config.layout.local_uri());
        command
    }

    fn broker(&self) -> Command {
        let file = broker_config(&self.config, &self.facts, None).expect("a configuration");
        fs::write(file.path, file.content).expect("writes");
        let mut command = self.planned(&self.plan().broker.command);
        command.arg("-o-Shostname=hello-0");
        command
    }
}

/// Asks what the agent and the API ask of an instance with one job, and returns that.
async fn requests(broker: &BrokerAddress, minor: u32) -> u64 {
    let mut socket = broker.connect().await.expect("a connection");
    let jobs = job_list::running_on(&mut socket, &[0], 9).await.expect("the jobs of the rank");
    assert_eq!(job_manager::newest(broker, 1).await, Some(jobs.clone()), "0.{minor}");
    assert_eq!(job_manager::active(broker).await.is_some(), minor >= 49, "0.{minor}");
    assert_eq!(resource::ranks(&mut socket).await.is_ok(), minor >= 61, "0.{minor}");
    let running = json!({ "states": ["running"] });
    let of_rank = json!({ "and": [running, { "ranks": ["0"] }] });
    for (constraint, since) in [(running, 53), (of_rank, 64)] {
        let listed = job_list::list::<Value>(&mut socket, 9, "", &constraint).await;
        assert_eq!(listed.is_ok(), minor >= since, "0.{minor}: {constraint}");
    }
    resource::drain(&mut socket, &[0], "fan").await.expect("drains");
    let status = resource::status(&mut socket).await.expect("a status");
    assert_eq!(status.drain_reason(0), Some("fan"));
    resource::undrain(&mut socket, 0).await.expect("undrains");
    jobs[0]
}

#[test]
fn every_release_accepts_what_the_agent_gives_it() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for minor in RELEASES {
        let mut lead = Lead::new(minor);
        let address =
            BrokerAddress { socket: lead.config.layout.local_socket().into(), owner: None };
        let mut broker = lead.site.spawn(lead.broker(), 0);
        lead.site.wait_for_log(0, "quorum->run");
        let run = lead.plan().broker.lead_command.expect("a command").words;
        let mut run = lead.site.spawn(lead.planned(&run), 9);
        wait_for("the task", || lead.site.path("up").exists().then_some(()));
        let job = runtime.block_on(requests(&address, minor));
        if minor < 72 {
            let asked = job_manager::signal(&address, job, Signal::SIGTERM as i32);
            runtime.block_on(asked).expect("signals");
        }
        // To show the difference, that of 0.72 gets a signal, which it does not pass on.
        let ended = if minor < 72 { run.code() } else { run.end() };
        assert_eq!(ended, (minor != 72).then_some(3), "0.{minor}");
        assert_eq!(lead.site.read("9.out").is_empty(), minor == 72, "0.{minor}");
        let submission = submission(&["-n1"], &["true"]);
        lead.config.workload = Workload::Interactive { submission: Some(submission) };
        let submit = lead.plan().broker.submission.expect("a command");
        assert_eq!(answer(lead.planned(&submit)).code, Some(0), "0.{minor}");
        let marked = answer(lead.planned(&["flux", "run", "--", "true"].map(str::to_owned))).code;
        assert_eq!(marked, Some(if minor < 66 { 127 } else { 0 }), "0.{minor}");
        let version = answer(lead.site.command(&["version"])).out;
        assert!(version.contains(&format!("0.{minor}.0")), "{version}");
        assert_eq!(broker.end(), Some(0), "0.{minor}: {}", lead.site.read("0.err"));
    }
}

#[test]
fn older_releases_refuse_what_newer_ones_get() {
    let refused = |answer: &Answer, code, text: &str| {
        assert!(answer.code == Some(code) && answer.err.contains(text), "{text}: {answer:?}");
    };
    let mut lead = Lead::new(50);
    lead.facts.flux_version = Some("0.51.0".to_owned());
    refused(&answer(lead.broker()), 1, "Error parsing broker.quorum attribute");
    let mut lead = Lead::new(74);
    lead.config.broker.topology = Some("mincrit".to_owned());
    refused(&answer(lead.broker()), 1, "unknown topology scheme 'mincrit'");
    let flux = |minor, words: &[&str]| answer(Lead::new(minor).site.command(words));
    refused(&flux(68, &["start", "-Sa=b"]), 1, "unrecognized option '--setattr'");
    refused(&flux(67, &["jobs", "--sort=t_run"]), 2, "unrecognized arguments: --sort");
    refused(&flux(47, &["run", "true"]), 1, "`run' is not a flux command");
    let oldest = Lead::new(47);
    assert!(plan(&oldest.config, &oldest.facts).is_err());
}

/// Two brokers need the first two numbers of their releases in common.
#[test]
fn a_worker_of_another_release_is_refused() {
    let mut site = Site::new(3);
    let brokers = [(0, "0.88.0"), (1, "0.88.1"), (2, "0.84.0")];
    let [_lead, _worker, mut other] = brokers.map(|(rank, release)| {
        let bin = site.path(release);
        fs::create_dir(&bin).expect("creates");
        use_release(&mut site, release, format!("{}/flux", bin.display()));
        site.start(rank, &["-Sbroker.quorum=2"])
    });
    site.wait_for_log(1, "quorum->run");
    assert_eq!(other.code(), Some(1));
    let text = "overlay.hello: client (0.84.0) version mismatched with server (0.88.0)";
    site.wait_for_log(2, text);
    assert!(!site.read("0.err").contains("a2"), "{}", site.read("0.err"));
}
