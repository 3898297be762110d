//! `flux-agent rc`, which a broker runs as its rc1 and rc3: the real binary, a socket that answers as a broker does, and
//! a shell script in place of `flux`. All requests and commands are recorded in one list.

use crate::prelude::*;
use flux_protocol::client::BrokerAddress;
use flux_protocol::client::modules::wait_for_scheduler;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::atomic::AtomicUsize;

const FLUX: &str =
    "#!/bin/sh\necho \"flux $*\" >> $LIST\ncase $1 in startlog) test $2 != --check;; esac\n";

/// A broker with this rank and these attributes, which refuses to load one module.
struct Broker {
    pod: Pod,
    rank: u32,
    attributes: Vec<(&'static str, String)>,
    refused: Option<&'static str>,
    /// A module whose loading never ends.
    slow: Option<&'static str>,
    /// Whether there is content of an earlier instance.
    has_checkpoint: bool,
}

fn note(list: &Path, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(list).unwrap();
    // In one write, as several processes write at once.
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

impl Broker {
    fn new(rank: u32) -> Self {
        let pod = Pod::new();
        let modules = pod.at("mnt/flux/view/share/flux/modprobe");
        fs::create_dir_all(&modules).unwrap();
        fs::write(modules.join("modprobe.toml"), include_str!("pod/modprobe.toml")).unwrap();
        pod.write_executable("mnt/flux/view/bin/flux", FLUX);
        for stage in ["rc1", "rc3"] {
            let script =
                format!("#!/bin/sh\necho \"script {stage} $FLUX_RC_USE_MODPROBE\" >> $LIST\n");
            pod.write_executable(&format!("mnt/flux/view/etc/flux/{stage}.d/own"), &script);
        }
        Self { pod, rank, attributes: Vec::new(), refused: None, slow: None, has_checkpoint: false }
    }

    fn list(&self) -> PathBuf {
        self.pod.at("list")
    }

    /// Runs a stage, which succeeds, and returns its output and its actions.
    fn run_well(self, stage: &str) -> (String, Vec<String>) {
        let (ended, did) = self.run(stage);
        (ended.with_code(0).output, did)
    }

    fn run(self, stage: &str) -> (Ended, Vec<String>) {
        let (list, socket) = (self.list(), self.pod.at("local"));
        let prefix = self.pod.at("mnt/flux/view").display().to_string();
        let mut command = self.pod.agent(&["rc", stage, &prefix]);
        command.env("FLUX_URI", format!("local://{}", socket.display())).env("LIST", &list);
        broker_that(&socket, move |topic, payload| {
            let payload: Value = serde_json::from_str(payload).unwrap_or_default();
            self.answer(topic, &payload)
        });
        let ended = Background::start(command).end();
        let did = fs::read_to_string(&list).unwrap_or_default();
        (ended, did.lines().map(str::to_owned).collect())
    }

    fn answer(&self, topic: &str, payload: &Value) -> Result<String, u8> {
        let name =
            payload["name"].as_str().or_else(|| payload["path"].as_str()).unwrap_or_default();
        match topic {
            "attr.get" if name == "rank" => {
                Ok(json!({ "value": self.rank.to_string() }).to_string())
            }
            "attr.get" => {
                let value = self.attributes.iter().find(|(attribute, _)| *attribute == name);
                value.map(|(_, value)| json!({ "value": value }).to_string()).ok_or(2)
            }
            "config.get" => Ok("{}".to_owned()),
            "module.list" => {
                let module = |name| json!({ "name": name, "path": format!("/{name}.so") });
                let builtin = json!({ "name": "overlay", "path": "builtin" });
                let mut modules = ["kvs", "content", "sqlite"].map(module).to_vec();
                modules.extend(self.slow.map(module));
                modules.push(builtin);
                Ok(json!({ "mods": modules }).to_string())
            }
            "content.checkpoint-get" if !self.has_checkpoint => Err(2),
            "module.load" if self.refused == Some(name) => Err(1),
            "module.load" if self.slow == Some(name) => loop {
                std::thread::park();
            },
            _ => {
                let args = payload["args"].as_array().map(|args| json!(args).to_string());
                note(&self.list(), &format!("{topic} {name} {}", args.unwrap_or_default()));
                Ok(String::new())
            }
        }
    }
}

fn assert_in_order(did: &[String], lines: &[&str]) {
    let mut rest = did.iter();
    for line in lines {
        assert!(rest.any(|done| done.trim_end() == *line), "{line} in {did:#?}");
    }
}

#[test]
fn a_lead_loads_modules_restores_and_runs_scripts_last() {
    let mut broker = Broker::new(0);
    let archive = broker.pod.at("archive.tgz");
    fs::write(&archive, "").unwrap();
    broker.attributes.push(("content.restore", archive.display().to_string()));
    let crontab = broker.pod.at("cron/tab");
    fs::create_dir_all(crontab.parent().unwrap()).unwrap();
    fs::write(&crontab, "").unwrap();
    broker.attributes.push(("cron.directory", broker.pod.at("cron").display().to_string()));
    broker.has_checkpoint = true;
    let (output, did) = broker.run_well("start");
    let restore = format!(
        "flux restore --sd-notify --quiet --checkpoint --size-limit=100M {}",
        archive.display()
    );
    assert_in_order(
        &did,
        &[
            "module.load content []",
            "module.load sqlite [\"truncate\"]",
            &restore,
            "module.load kvs []",
            "flux startlog --post-start-event",
            "flux startlog --check --quiet",
            "script rc1 t",
        ],
    );
    assert_in_order(&did, &["module.load cron [\"sync=heartbeat.pulse\"]", "flux cron tab"]);
    assert!(did.iter().any(|line| line.starts_with("runat.push cleanup")), "{did:#?}");
    assert_eq!(did.last().unwrap(), "script rc1 t");
    assert!(output.contains("Flux was not shut down properly"), "{output}");
}

#[test]
fn a_lead_without_an_earlier_instance_checks_nothing() {
    let (_, did) = Broker::new(0).run_well("start");
    let checks = |line: &&String| line.contains("--check") || line.contains("fsck");
    assert_eq!(did.iter().find(checks), None);
}

#[test]
fn a_module_that_cannot_be_loaded_ends_the_start() {
    let broker = Broker { refused: Some("kvs"), ..Broker::new(0) };
    let (ended, did) = broker.run("start");
    let why = "kvs: the broker answered module.load with errno 1 (Operation not permitted)";
    ended.with_code(1).with_log(why);
    let is_late = |line: &&String| line.contains("kvs-watch") || line.contains("script");
    assert_eq!(did.iter().find(is_late), None);
}

#[test]
fn the_start_waits_for_the_scheduler_only_if_it_is_refused() {
    let without_scripts = || {
        let broker = Broker::new(0);
        fs::remove_dir_all(broker.pod.at("mnt/flux/view/etc/flux/rc1.d")).unwrap();
        broker
    };
    let (_, did) = Broker { slow: Some("queues"), ..without_scripts() }.run_well("start");
    assert!(did.iter().any(|line| line.starts_with("module.load job-list")), "{did:#?}");
    let (ended, _) = Broker { refused: Some("queues"), ..without_scripts() }.run("start");
    ended.with_code(1).with_log("queues: the broker answered module.load");
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_is_there_once_it_offers_its_service() {
    let module =
        |services: &[&str], status| json!({ "name": "a", "services": services, "status": status });
    let (loading, loaded) = (module(&["a"], 0), module(&["a", "sched"], 1));
    let running = module(&["a"], 1);
    for (first, then, comes) in [
        (&loading, Some(&loaded), Some(true)),
        (&running, Some(&loaded), Some(true)),
        (&loading, Some(&running), Some(false)),
        (&loading, None, None),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("local");
        let lists = [Some(first), then].map(|it| it.map(|it| json!({ "mods": [it] }).to_string()));
        let asked = AtomicUsize::new(0);
        broker_that(&socket, move |_, _| {
            lists[usize::from(asked.fetch_add(1, Ordering::SeqCst) > 2)].clone().ok_or(NO_SERVICE)
        });
        let broker = BrokerAddress { socket, owner: None };
        assert_eq!(wait_for_scheduler(broker).await, comes, "{first} {then:?}");
    }
}

#[test]
fn the_end_runs_scripts_first_and_dumps_before_unloading() {
    let mut broker = Broker::new(0);
    broker.attributes.push(("content.dump", "/archive".to_owned()));
    let (_, did) = broker.run_well("end");
    let dump = "flux dump --sd-notify --quiet --ignore-failed-read --no-cache --maxreqs=128 --checkpoint /archive";
    let expected = [
        "script rc3 t",
        "flux startlog --post-finish-event",
        "module.remove kvs",
        "content.flush",
        dump,
        "module.remove sqlite",
        "module.remove content",
    ];
    assert_eq!(did.iter().map(|line| line.trim_end()).collect::<Vec<_>>(), expected);
}

#[test]
fn flux_runs_its_own_program_in_unknown_cases() {
    let mut broker = Broker::new(0);
    broker.attributes.push(("content.restore", "auto".to_owned()));
    let (ended, did) = broker.run("start");
    assert_eq!(did, ["flux modprobe rc1"]);
    let why = "flux modprobe rc1 takes over: the attribute content.restore is \"auto\"";
    ended.with_code(0).with_log(why);
}
