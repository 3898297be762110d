//! The pods of a round: what Kubernetes and the operator would give to each agent.

use super::network::{SERVICE, of_pod};
use super::setup::{COMMAND, Round};
use e2e::prelude::*;
use flux_api::cluster::validate::{Defaults, validate};
use flux_api::crd::{self, Container, MiniClusterSpec};
use flux_api::objects::agent_config;
use flux_contract::{
    AGENT_CONFIG_PATH, AgentConfig, CURVE_MOUNT, CURVE_SECRET_KEY, Install, Layout, PRIVATE_MOUNT,
    Workload,
};
use flux_protocol::CurveCertificate;
use fs_err::{self as fs, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Makes the namespaces of a pod, whose root is a directory of [`PODS`], and starts its agent.
const POD: &str = include_str!("pod.sh");

/// The directory of the pods' own files.
const PODS: &str = "/run/pods";

/// The file whose opening for writing starts a worker, and the lead.
pub(super) const GATES: [&str; 2] = ["workers", "lead"];

/// Starts all pods of the round up to their gates; the result is the processes, that of the lead first.
pub(super) fn start(round: &Round) -> Result<Vec<Child>> {
    let config = configuration(round)?;
    let certificate = CurveCertificate::new("bench", [7; 32])?.to_text();
    fs::write("/run/pod.sh", POD)?;
    // One file for all.
    fs::copy(&round.agent, "/run/agent")?;
    let agent = PathBuf::from(config.layout.agent());
    fs::create_dir_all("/run/ready")?;
    let text = config.to_toml()?;
    let one = |index: u16| {
        let at = |path: &str| Path::new(PODS).join(index.to_string()).join(path);
        for path in ["etc", "dev/shm", "tmp", "var/tmp", "run", &PRIVATE_MOUNT[1..]] {
            fs::create_dir_all(at(path))?;
        }
        for (path, content) in [
            (&AGENT_CONFIG_PATH[1..], text.as_str()),
            (&format!("{CURVE_MOUNT}/{CURVE_SECRET_KEY}")[1..], certificate.expose()),
            ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
            ("etc/group", "root:x:0:\n"),
            ("etc/nsswitch.conf", "hosts: files dns\n"),
            ("etc/hosts", &fs::read_to_string("/etc/hosts")?),
            ("etc/resolv.conf", &fs::read_to_string("/etc/resolv.conf")?),
            ("network", &of_pod(index)),
        ] {
            fs::create_dir_all(at(path).parent().context("a directory")?)?;
            fs::write(at(path), content)?;
        }
        let own = at(&config.layout.agent()[1..]);
        fs::create_dir_all(own.parent().context("a directory")?)?;
        fs::hard_link("/run/agent", own)?;
        let log = File::create(at("log"))?.into_parts().0;
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/pod{index}"));
        command.args(["unshare", "--mount", "--uts", "sh", "/run/pod.sh", &index.to_string()]);
        command.arg(GATES[usize::from(index == 0)]);
        command.args([&round.setup.flux, &agent]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().context("starting a pod")
    };
    (0..round.count).map(one).collect()
}

/// The agents' configuration, as the operator writes it for a MiniCluster without any settings.
fn configuration(round: &Round) -> Result<AgentConfig> {
    let container = Container { image: Some("none".to_owned()), ..Container::default() };
    let mut spec = MiniClusterSpec { size: round.count.into(), ..MiniClusterSpec::default() };
    spec.containers = vec![container];
    spec.flux.topology.clone_from(&round.setup.topology);
    let mut object = MiniCluster::new("bench", spec);
    object.metadata.namespace = Some("bench".to_owned());
    object.metadata.uid = Some("uid".to_owned());
    let defaults = Defaults::new("none".to_owned(), None, crd::Install::Auto);
    let cluster = validate(&object, &defaults)?;
    let mut config = agent_config(&cluster, Some(SERVICE.into()));
    let command = ["sh", "-c", COMMAND].map(str::to_owned).to_vec();
    config.workload = Workload::Launcher { prefix: Vec::new(), command, script: None };
    let mount =
        round.setup.flux.parent().and_then(Path::to_str).context("the directory of Flux")?;
    config.layout = Layout::new(mount);
    config.install = Install::Copy;
    config.user.run_as_root = true;
    Ok(config)
}
