//! From the command line to a broker that is ready to run: the steps of real Flux, in its order,
//! so that of several faults the same one is reported.

use std::time::Duration;

use super::attributes::Attributes;
use super::directories::{self, Directories};
use super::log::{Logger, Severity};
use super::program;
use crate::config::bootstrap::Bootstrap;
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::front::Environment;
use crate::options::parse;
use crate::text::duration;

const OPTIONS: &str = "S|setattr= c|config-path= v|verbose?! conf=! h|help!";

/// Limit of one connection attempt, unless configured.
const CONNECT_TIMEOUT: &str = "30s";

/// Everything a broker needs to know before it begins.
#[derive(Debug)]
pub(crate) struct Startup {
    /// Attributes so far.
    pub(crate) attributes: Attributes,
    /// Configuration.
    pub(crate) config: Config,
    /// `[bootstrap]`, if there is one.
    pub(crate) bootstrap: Option<Bootstrap>,
    /// Rank.
    pub(crate) rank: u32,
    /// Host names in rank order.
    pub(crate) hosts: Vec<String>,
    /// Where log lines go.
    pub(crate) logger: Logger,
    /// The command of the initial program, on rank 0, unless there is none.
    pub(crate) program: Option<Vec<String>>,
    /// Number of brokers that make a quorum.
    pub(crate) quorum: usize,
    /// Time limits.
    pub(crate) limits: Limits,
    /// Path of the local socket.
    pub(crate) socket: String,
    /// Removed when the broker is gone.
    pub(crate) directories: Directories,
    /// Environment without what a broker does not hand on.
    pub(crate) environment: Environment,
}

/// Time limits from attributes; none is for ever.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// For peers to leave.
    pub(crate) shutdown: Option<Duration>,
    /// For jobs to end, after a signal.
    pub(crate) cleanup: Option<Duration>,
    /// For one connection attempt.
    pub(crate) connect: Duration,
}

/// Prepares a broker from the words after `flux broker`.
pub(crate) fn prepare(words: &[String], environment: Environment) -> Result<Startup, Failure> {
    let parsed = parse("broker", words, OPTIONS)?;
    let mut attributes = Attributes::default();
    for text in parsed.values("setattr") {
        attributes.set_from_command_line(text)?;
    }
    for needed in ["rundir", "statedir"] {
        if !attributes.exists(needed) {
            return Err(Failure::not_simulated(&format!("a broker without attribute {needed}")));
        }
    }
    if attributes.get("log-stderr-mode") != Some("local") {
        return Err(Failure::not_simulated("any log-stderr-mode but local"));
    }
    if let Some(methods) = environment.get("FLUX_PMI_CLIENT_METHODS") {
        return Err(Failure::not_simulated(&format!("FLUX_PMI_CLIENT_METHODS={methods}")));
    }
    let hostname = match attributes.get("hostname") {
        Some(name) => name.to_owned(),
        None => nix::unistd::gethostname()
            .map_err(|error| Failure::new(format!("broker: gethostname: {}", error.desc())))?
            .to_string_lossy()
            .into_owned(),
    };
    attributes.set("hostname", &hostname);
    let path = parsed.value("config-path");
    let path = path.ok_or_else(|| Failure::not_simulated("a broker without --config-path"))?;
    let config = config::load(path)?;
    let logger = Logger::new(&attributes, &hostname).map_err(Failure::new)?;
    finish(attributes, config, &parsed.rest, logger.clone(), environment).map_err(|error| {
        if error.code != 1 {
            return error;
        }
        logger.log("broker", Severity::Critical, &error.message);
        Failure::silent(1)
    })
}

fn finish(
    mut attributes: Attributes,
    config: Config,
    words: &[String],
    mut logger: Logger,
    mut environment: Environment,
) -> Result<Startup, Failure> {
    let hostname = attributes.get("hostname").unwrap_or_default().to_owned();
    let bootstrap = config.bootstrap.as_ref().map(|table| table.expand(&hostname)).transpose();
    let bootstrap = bootstrap.map_err(|error| {
        Failure::new(format!("bootstrap: config: Config file error [bootstrap]: {error}"))
    })?;
    let hosts = bootstrap.as_ref().map_or_else(|| vec![hostname.clone()], Bootstrap::names);
    let rank = (0_u32..).zip(&hosts).find(|(_, host)| **host == hostname);
    let rank = rank.map_or(0, |(rank, _)| rank);
    logger.place = rank.to_string();
    set_facts(&mut attributes, rank, &hosts);
    for name in ["FLUX_URI", "FLUX_PROXY_REMOTE", "FLUX_KVS_NAMESPACE", "FLUX_JOB_ID_PATH"] {
        environment.remove(name);
    }
    let mut directories = Directories::default();
    // Only rank 0 has a state to keep.
    for name in if rank == 0 { &["rundir", "statedir"][..] } else { &["rundir"] } {
        let path = attributes.get(name).unwrap_or_default();
        directories.create(name, path).map_err(Failure::new)?;
    }
    let socket = directories::local_socket(&mut attributes, rank).map_err(Failure::new)?;
    let quorum = quorum(&attributes, hosts.len()).map_err(Failure::new)?;
    let limits = limits(&mut attributes, &config).map_err(Failure::new)?;
    let none = rank > 0 || attributes.exists("broker.rc2_none");
    let program = if none { None } else { Some(program::choose(words, &environment)?) };
    Ok(Startup {
        attributes,
        config,
        bootstrap,
        rank,
        hosts,
        logger,
        program,
        quorum,
        limits,
        socket,
        directories,
        environment,
    })
}

fn set_facts(attributes: &mut Attributes, rank: u32, hosts: &[String]) {
    attributes.set("rank", rank.to_string());
    attributes.set("size", hosts.len().to_string());
    attributes.set("hostlist", crate::resources::compress(hosts));
    attributes.set("broker.pid", std::process::id().to_string());
    attributes.set("security.owner", nix::unistd::getuid().to_string());
    attributes.set("instance-level", "0");
}

fn quorum(attributes: &Attributes, size: usize) -> Result<usize, String> {
    let Some(text) = attributes.get("broker.quorum") else { return Ok(size) };
    match text.parse() {
        Ok(count) if (1..=size).contains(&count) => Ok(count),
        Ok(_) | Err(_) => Err("Error parsing broker.quorum attribute".to_owned()),
    }
}

fn limits(attributes: &mut Attributes, config: &Config) -> Result<Limits, String> {
    let limit = |attributes: &Attributes, name: &str| match attributes.get(name) {
        None | Some("none") => Ok(None),
        Some(text) => {
            duration::parse(text).map(Some).ok_or_else(|| format!("Error parsing {name} attribute"))
        }
    };
    let name = "tbon.connect_timeout";
    if !attributes.exists(name) {
        attributes.set(name, config.tbon.connect_timeout.as_deref().unwrap_or(CONNECT_TIMEOUT));
    }
    Ok(Limits {
        shutdown: limit(attributes, "broker.shutdown-timeout")?,
        cleanup: limit(attributes, "broker.cleanup-timeout")?,
        connect: limit(attributes, name)?.unwrap_or(Duration::MAX),
    })
}
