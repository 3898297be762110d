//! The subcommands that are not a run: they ask, print, and end with a code.

use crate::cli::{Awaited, Format, PodArguments};
use crate::environment::{Environment, Report};
use crate::exec::{self, Target};
use crate::execute::files;
use crate::facts::Facts;
use crate::lead::{LeadTarget, wait_for_lead};
use crate::output::{answer, answer_json, answer_text, chain, complain};
use crate::plan::{self, surroundings};
use crate::probe;
use crate::resolver::Resolver;
use crate::resources::Resources;
use crate::root::Root;
use crate::run::read_config;
use crate::status::{self, StatusReport};
use crate::step::AwaitLead;
use crate::view::{InstallRequest, install_view};
use crate::{install, keygen};
use flux_contract::{
    AgentConfig, CURVE_MOUNT, CURVE_SECRET_KEY, CurveCertificate, Exit, Layout, PRIVATE_MOUNT,
};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Code of an answer that is "no".
const NO: u8 = 1;
/// How long the agent may take to answer. The kubelet's probe gives up after five seconds.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often a state is asked for while waiting for it.
const PAUSE: Duration = Duration::from_millis(200);

fn failed(exit: Exit, error: &dyn Error) -> u8 {
    complain(&chain(error));
    exit.code()
}

/// `install`
pub fn install(directory: &Path) -> u8 {
    match install::install(directory) {
        Ok(path) => {
            complain(&format!("installed {}", path.display()));
            0
        }
        Err(error) => failed(Exit::Prepare, &error),
    }
}

/// `view install`
pub fn view_install(request: &InstallRequest) -> u8 {
    let mut report = |progress: crate::view::Progress| complain(&progress.to_string());
    match install_view(request, &mut report) {
        Ok(_) => 0,
        Err(error) => failed(Exit::View, &error),
    }
}

/// `keygen`
pub fn keygen(path: Option<&Path>, name: &str, force: bool) -> u8 {
    let made = keygen::generate(name).and_then(|certificate| {
        if let Some(path) = path {
            return keygen::write(path, &certificate, force);
        }
        answer_text(certificate.to_text().expose());
        Ok(())
    });
    made.map_or_else(|error| failed(Exit::Prepare, &error), |()| 0)
}

/// `exec`: returns only when it failed.
pub fn exec(target: &Target, words: &[String]) -> u8 {
    let error = exec::exec(target, words);
    complain(&error.text());
    error.code()
}

/// `env --to`
pub fn report_environment(file: &Path) -> u8 {
    let written = Report::of_this_process()
        .and_then(|report| files::write(file, &report.to_bytes(), 0o600, None));
    match written {
        Ok(()) => 0,
        Err(error) => {
            complain(&format!("report the environment to {}: {error}", file.display()));
            Exit::Prepare.code()
        }
    }
}

/// Configuration and facts of a pod.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) config: AgentConfig,
    pub(crate) facts: Facts,
    pub(crate) root: Root,
}

impl Pod {
    /// Reads them; where that fails, the code to end with and what to say.
    pub(crate) fn gather(arguments: &PodArguments) -> Result<Self, (Exit, String)> {
        let root = Root::new(&arguments.root);
        let config = read_config(&root.at(&arguments.config))
            .map_err(|error| (Exit::Config, chain(&error)))?;
        let facts = Facts::gather(&config, &root, arguments.hostname.clone())
            .map_err(|error| (Exit::Internal, chain(&error)))?;
        Ok(Self { config, facts, root })
    }

    /// Reads them; complains and gives the code to end with where that fails.
    pub(crate) fn read(arguments: &PodArguments) -> Result<Self, u8> {
        Self::gather(arguments).map_err(|(exit, text)| {
            complain(&text);
            exit.code()
        })
    }

    /// The certificate at `path`, else the broker's copy, else the mounted one.
    pub(crate) fn certificate(&self, path: Option<PathBuf>) -> Result<CurveCertificate, u8> {
        self.read_certificate(path).map_err(|text| {
            complain(&text);
            Exit::Prepare.code()
        })
    }

    /// As [`Self::certificate`]; what is wrong is the error's text.
    pub(crate) fn read_certificate(
        &self,
        path: Option<PathBuf>,
    ) -> Result<CurveCertificate, String> {
        let copy = self.root.at(self.config.layout.curve_certificate());
        let mounted = self.root.at(Path::new(CURVE_MOUNT).join(CURVE_SECRET_KEY));
        let path = path.unwrap_or_else(|| if copy.exists() { copy } else { mounted });
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("read {}: {error}", path.display()))?;
        CurveCertificate::parse(&text).map_err(|error| chain(&error))
    }

    fn lead(&self) -> Result<AwaitLead, u8> {
        plan::lead(&self.config, &self.facts).map_err(|error| failed(error.exit(), &error))
    }
}

/// `plan`
pub fn plan(arguments: &PodArguments, format: Format) -> u8 {
    let Pod { config, facts, .. } = match Pod::read(arguments) {
        Ok(pod) => pod,
        Err(code) => return code,
    };
    match (plan::plan(&config, &facts), format) {
        (Ok(plan), Format::Text) => answer_text(&format!("{plan:#}")),
        (Ok(plan), Format::Json) => answer_json(&plan),
        (Err(error), _) => return failed(error.exit(), &error),
    }
    0
}

/// `resources`
pub fn resources(arguments: &PodArguments, format: Format) -> u8 {
    let Pod { config, root, .. } = match Pod::read(arguments) {
        Ok(pod) => pod,
        Err(code) => return code,
    };
    let resources = Resources::read(&root, &config.layout);
    match format {
        Format::Text => answer_text(&resources.text()),
        Format::Json => answer_json(&resources),
    }
    0
}

/// `env`
pub fn environment(arguments: &PodArguments, format: Format) -> u8 {
    let around = Pod::read(arguments).and_then(|pod| {
        surroundings(&pod.config, &pod.facts).map_err(|error| failed(error.exit(), &error))
    });
    let around = match around {
        Ok(around) => around,
        Err(code) => return code,
    };
    let before: Environment = std::env::vars_os().collect();
    let mut after = before.clone();
    for change in &around.changes {
        change.apply(&mut after);
    }
    let new = after.iter().filter(|(name, value)| before.get(*name) != Some(*value));
    let new = new.map(|(name, value)| (name.to_string_lossy(), value.to_string_lossy()));
    match format {
        Format::Json => answer_json(&new.collect::<std::collections::BTreeMap<_, _>>()),
        Format::Text => {
            for (name, value) in new {
                let value = shlex::try_quote(&value).unwrap_or_default();
                answer(&format!("export {name}={value}"));
            }
        }
    }
    0
}

/// The paths below the shared volume. The configuration says where that is; where it cannot be read,
/// this program's own place in it does.
fn layout(arguments: &PodArguments) -> Layout {
    let root = Root::new(&arguments.root);
    let own_mount = || {
        let own = std::env::current_exe().ok()?;
        let mount = own.parent()?.parent()?;
        let layout = Layout::new(mount).with_private(PRIVATE_MOUNT);
        (layout.agent() == own).then_some(layout)
    };
    let configured = read_config(&root.at(&arguments.config)).map(|config| config.layout);
    configured.ok().or_else(own_mount).unwrap_or_default()
}

/// The socket of the agent that runs this pod.
fn agent_socket(arguments: &PodArguments) -> PathBuf {
    Root::new(&arguments.root).at(layout(arguments).agent_socket())
}

/// `status`
pub async fn status(arguments: &PodArguments, format: Format) -> u8 {
    match status::ask(&agent_socket(arguments), PATIENCE).await {
        Ok(report) => {
            match format {
                Format::Text => answer_text(&status_text(&report)),
                Format::Json => answer_json(&report),
            }
            0
        }
        Err(error) => failed_with(NO, &error),
    }
}

fn failed_with(code: u8, error: &dyn Error) -> u8 {
    complain(&chain(error));
    code
}

fn status_text(report: &StatusReport) -> String {
    let rank = report.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
    let mut lines = vec![
        ("host", report.hostname.clone()),
        ("role", format!("{}, rank {rank}", report.role)),
        ("phase", phase_text(report)),
        ("broker", report.broker_state.clone().unwrap_or_else(|| "-".to_owned())),
        ("ready", report.ready.to_string()),
        ("restarts", report.restarts.to_string()),
    ];
    lines.extend(report.last_error.clone().map(|error| ("error", error)));
    let mut text = String::new();
    for (name, value) in lines {
        let _ = writeln!(text, "{name:<10}{value}");
    }
    for phase in &report.phases {
        let (start, duration) = (phase.start_milliseconds, phase.duration_milliseconds);
        let _ = writeln!(text, "{:<16}at {start:>7} ms  {duration:>7} ms", phase.name);
    }
    text
}

/// How long a person or a probe waits who gives `seconds`: a year at most, which every clock can
/// still count to.
fn patience(seconds: u64) -> Duration {
    const LONGEST: u64 = 365 * 24 * 60 * 60;
    Duration::from_secs(seconds.min(LONGEST))
}

/// The phase that runs, what it does, and for how long it has.
fn phase_text(report: &StatusReport) -> String {
    let doing = report.doing.iter().map(|doing| format!(" ({doing})"));
    let running = report.phases.last().filter(|phase| phase.name == report.phase);
    let time = running.map(|phase| {
        let duration = Duration::from_millis(phase.duration_milliseconds);
        format!(" for {:.1} s", duration.as_secs_f64())
    });
    std::iter::once(report.phase.clone()).chain(doing).chain(time).collect()
}

/// `ready`: waits at most `seconds` for it, so that a probe learns of it at once and not at its
/// next turn.
pub async fn ready(arguments: &PodArguments, seconds: u64) -> u8 {
    let socket = agent_socket(arguments);
    let deadline = Instant::now() + patience(seconds);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let report = status::ask_when_ready(&socket, left, PATIENCE).await;
        match report {
            Ok(report) if report.ready => return 0,
            Ok(report) if left.is_zero() || report.over => return not_ready(&report),
            Err(error) if left.is_zero() => return failed_with(NO, &error),
            // There is no agent yet, or the time is up: then once more, and no longer.
            Ok(_) => {}
            Err(_) => tokio::time::sleep(PAUSE.min(left)).await,
        }
    }
}

fn not_ready(report: &StatusReport) -> u8 {
    let broker =
        report.broker_state.as_ref().map_or_else(String::new, |state| format!(", broker {state}"));
    let error = report.last_error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    complain(&format!("not ready: {}{broker}{error}", phase_text(report)));
    NO
}

/// `wait`
pub async fn wait(what: Awaited, arguments: &PodArguments, seconds: u64) -> u8 {
    let patience = patience(seconds);
    if what == Awaited::Lead {
        return wait_lead(arguments, patience).await;
    }
    let socket = agent_socket(arguments);
    let reached = async {
        while !reached(what, arguments, &socket).await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    if tokio::time::timeout(patience, reached).await.is_ok() {
        return 0;
    }
    complain(&format!("still waiting after {seconds} s"));
    NO
}

async fn reached(what: Awaited, arguments: &PodArguments, socket: &Path) -> bool {
    match what {
        Awaited::Lead | Awaited::Broker => {
            status::ask(socket, PATIENCE).await.is_ok_and(|report| report.online)
        }
        Awaited::Complete => {
            Root::new(&arguments.root).at(layout(arguments).complete_marker()).exists()
        }
    }
}

async fn wait_lead(arguments: &PodArguments, patience: Duration) -> u8 {
    let (lead, certificate) = match Pod::read(arguments).and_then(|pod| {
        let certificate = pod.certificate(None)?;
        Ok((pod.lead()?, certificate))
    }) {
        Ok(both) => both,
        Err(code) => return code,
    };
    let target = LeadTarget { address: lead.address, name: lead.name, port: lead.port };
    let mut report = |line: &str| complain(line);
    match wait_for_lead(&target, &certificate, patience, &mut report).await {
        Ok(_) => 0,
        Err(error) => failed(Exit::LeadUnreachable, &error),
    }
}

/// `probe`
pub async fn probe(
    arguments: &PodArguments,
    target: Option<&str>,
    certificate: Option<PathBuf>,
    seconds: u64,
    format: Format,
) -> u8 {
    match try_probe(arguments, target, certificate, seconds, format).await {
        Ok(code) | Err(code) => code,
    }
}

async fn try_probe(
    arguments: &PodArguments,
    target: Option<&str>,
    certificate: Option<PathBuf>,
    seconds: u64,
    format: Format,
) -> Result<u8, u8> {
    let (certificate, name, port) = match (target, certificate) {
        (Some(target), Some(path)) => {
            let text = fs::read_to_string(&path).map_err(|error| {
                complain(&format!("read {}: {error}", path.display()));
                Exit::Prepare.code()
            })?;
            let certificate =
                CurveCertificate::parse(&text).map_err(|error| failed(Exit::Prepare, &error))?;
            let (name, port) = host_and_port(target)?;
            (certificate, name, port)
        }
        (target, certificate) => {
            let pod = Pod::read(arguments)?;
            let (name, port) = if let Some(target) = target {
                host_and_port(target)?
            } else {
                let lead = pod.lead()?;
                let name = lead.address.map_or(lead.name, |address| address.to_string());
                (name, lead.port)
            };
            (pod.certificate(certificate)?, name, port)
        }
    };
    let addresses = match Resolver::from_system() {
        Ok(resolver) => resolver.lookup(&name).await,
        Err(error) => Err(error),
    };
    let addresses = addresses.map_err(|error| failed_with(NO, &error))?;
    let mut code = NO;
    for address in addresses {
        let address = SocketAddr::new(address, port);
        let outcome = probe::probe(address, &certificate, patience(seconds)).await;
        if outcome.is_accepted() {
            code = 0;
        }
        match format {
            Format::Text => answer(&format!("{address}: {outcome}")),
            Format::Json => answer_json(&serde_json::json!({
                "address": address.to_string(),
                "accepted": outcome.is_accepted(),
                "outcome": outcome.to_string(),
            })),
        }
    }
    Ok(code)
}

/// `host:port`, `1.2.3.4:port` or `[::1]:port`.
fn host_and_port(target: &str) -> Result<(String, u16), u8> {
    let parsed = target.rsplit_once(':').and_then(|(host, port)| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some((host.to_owned(), port.parse().ok()?))
    });
    parsed.ok_or_else(|| {
        complain(&format!("{target:?} is not HOST:PORT"));
        Exit::Usage.code()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flux_contract::Phase;

    #[test]
    fn targets_may_be_names_and_addresses_of_both_kinds() {
        assert_eq!(host_and_port("hello-0.hello:8050"), Ok(("hello-0.hello".to_owned(), 8050)));
        assert_eq!(host_and_port("[fd00::1]:8050"), Ok(("fd00::1".to_owned(), 8050)));
        assert_eq!(host_and_port("hello"), Err(64));
        assert_eq!(host_and_port("hello:port"), Err(64));
    }

    #[test]
    fn the_status_names_what_is_unknown_as_such() {
        let report = StatusReport {
            phase: "wait-for-lead".to_owned(),
            role: "worker".to_owned(),
            last_error: Some("connection refused".to_owned()),
            ..StatusReport::default()
        };
        let text = status_text(&report);
        assert!(text.contains("role      worker, rank -\n"), "{text}");
        assert!(text.contains("error     connection refused\n"), "{text}");
        assert!(text.contains("phase     wait-for-lead\n"), "{text}");
    }

    #[test]
    fn the_status_says_which_hook_runs_and_for_how_long() {
        let hooks = Phase {
            name: "hooks".to_owned(),
            start_milliseconds: 20,
            duration_milliseconds: 61_240,
        };
        let report = StatusReport {
            phase: "hooks".to_owned(),
            doing: Some("commands.pre".to_owned()),
            phases: vec![hooks],
            ..StatusReport::default()
        };
        assert_eq!(phase_text(&report), "hooks (commands.pre) for 61.2 s");
    }
}
