//! From the command line to a broker that is ready to run: the steps of real Flux, in its order,
//! so that of several faults the same one is reported.

use std::collections::BTreeMap;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::client::Call;
use crate::config::{self, Config};
use crate::environment::Environment;
use crate::failure::{Failure, strerror};
use crate::options::{Parsed, parse};
use crate::output;
use crate::text;

/// Attributes that may be set at start (flux-broker-attributes(7)). Flux has many more.
const SETTABLE: &str = "broker.cleanup-timeout broker.quorum broker.rc2_none broker.shutdown-timeout \
    content.dump content.restore cron.directory hostname local-uri log-stderr-level log-stderr-mode rundir \
    statedir tbon.connect_timeout tbon.topo tbon.zmqdebug";

/// Longest path of an `AF_UNIX` socket.
const LONGEST_SOCKET: usize = 107;

/// An attribute may exist without a value, which is then empty.
pub(super) type Attributes = BTreeMap<String, String>;

pub(super) struct Startup {
    pub(super) attributes: Attributes,
    pub(super) config: Config,
    pub(super) rank: u32,
    pub(super) hosts: Vec<String>,
    pub(super) logger: Logger,
    pub(super) quorum: usize,
    pub(super) limits: Limits,
    pub(super) socket: String,
    pub(super) directories: Directories,
    /// Environment without what a broker does not hand on.
    pub(super) environment: Environment,
}

/// Time limits from attributes; none is for ever.
pub(super) struct Limits {
    /// For peers to leave.
    pub(super) shutdown: Option<Duration>,
    /// For jobs to end, after a signal.
    pub(super) cleanup: Option<Duration>,
    /// For one connection attempt.
    pub(super) connect: Duration,
}

/// Prepares a broker from the words after `flux broker`.
pub(super) fn prepare(call: &Call) -> Result<Startup, Failure> {
    let parsed = parse("broker", &call.words, "S|setattr= c|config-path=")?;
    let attributes = attributes(&parsed)?;
    if let Some(methods) = call.environment.get("FLUX_PMI_CLIENT_METHODS") {
        return Err(Failure::not_simulated(&format!("FLUX_PMI_CLIENT_METHODS={methods}")));
    }
    let path = parsed.value("config-path");
    let path = path.ok_or_else(|| Failure::not_simulated("a broker without --config-path"))?;
    let config = config::load(path)?;
    let level = attributes.get("log-stderr-level").map_or("3", String::as_str);
    let level = level.parse().ok().filter(|level| *level <= 7);
    let level =
        level.ok_or_else(|| Failure::new("Error initializing logging: Invalid argument"))?;
    let mut logger = Logger { place: attributes["hostname"].clone(), level };
    finish(attributes, config, &mut logger, call).map_err(|error| {
        if error.code != 1 {
            return error;
        }
        logger.log("broker", Severity::Critical, &error.message);
        Failure::new("")
    })
}

fn attributes(parsed: &Parsed) -> Result<Attributes, Failure> {
    let mut attributes = Attributes::new();
    for text in parsed.values("setattr") {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        if !SETTABLE.split_whitespace().any(|listed| listed == name) {
            return Err(Failure::not_simulated(&format!("attribute {name}")));
        }
        attributes.insert(name.to_owned(), value.to_owned());
    }
    for needed in ["rundir", "statedir"] {
        if !attributes.contains_key(needed) {
            return Err(Failure::not_simulated(&format!("a broker without attribute {needed}")));
        }
    }
    if attributes.get("log-stderr-mode").is_none_or(|mode| mode != "local") {
        return Err(Failure::not_simulated("any log-stderr-mode but local"));
    }
    if !attributes.contains_key("hostname") {
        let name = nix::unistd::gethostname()
            .map_err(|error| Failure::new(format!("broker: gethostname: {}", error.desc())))?;
        attributes.insert("hostname".to_owned(), name.to_string_lossy().into_owned());
    }
    Ok(attributes)
}

fn finish(
    mut attributes: Attributes,
    mut config: Config,
    logger: &mut Logger,
    call: &Call,
) -> Result<Startup, Failure> {
    let hostname = attributes["hostname"].clone();
    let bootstrap = config.bootstrap.map(|table| table.expand(&hostname)).transpose();
    config.bootstrap = bootstrap.map_err(|error| {
        Failure::new(format!("bootstrap: config: Config file error [bootstrap]: {error}"))
    })?;
    let listed = config.bootstrap.iter().flat_map(|table| &table.hosts);
    let mut hosts: Vec<String> = listed.map(|host| host.name.clone()).collect();
    if hosts.is_empty() {
        hosts.push(hostname.clone());
    }
    let rank = (0..).zip(&hosts).find(|(_, host)| **host == hostname).map_or(0, |(rank, _)| rank);
    logger.place = rank.to_string();
    let facts = [
        ("rank", rank.to_string()),
        ("size", hosts.len().to_string()),
        ("hostlist", text::hostlist(&hosts)),
        ("broker.pid", std::process::id().to_string()),
        ("security.owner", nix::unistd::getuid().to_string()),
        ("instance-level", "0".to_owned()),
    ];
    attributes.extend(facts.map(|(name, value)| (name.to_owned(), value)));
    let mut environment = call.environment.clone();
    for name in ["FLUX_URI", "FLUX_PROXY_REMOTE", "FLUX_KVS_NAMESPACE", "FLUX_JOB_ID_PATH"] {
        environment.remove(name);
    }
    let mut directories = Directories::default();
    // Only rank 0 has a state to keep.
    for name in if rank == 0 { &["rundir", "statedir"][..] } else { &["rundir"] } {
        directories.create(name, &attributes[*name]).map_err(Failure::new)?;
    }
    let socket = local_socket(&mut attributes, rank).map_err(Failure::new)?;
    let quorum = quorum(&attributes, hosts.len()).map_err(Failure::new)?;
    let limits = limits(&mut attributes).map_err(Failure::new)?;
    if rank == 0 && !attributes.contains_key("broker.rc2_none") {
        return Err(Failure::not_simulated("an initial program, as without broker.rc2_none"));
    }
    let logger = logger.clone();
    Ok(Startup {
        attributes,
        config,
        rank,
        hosts,
        logger,
        quorum,
        limits,
        socket,
        directories,
        environment,
    })
}

fn quorum(attributes: &Attributes, size: usize) -> Result<usize, String> {
    let Some(text) = attributes.get("broker.quorum") else { return Ok(size) };
    let count = text.parse().ok().filter(|count| (1..=size).contains(count));
    count.ok_or_else(|| "Error parsing broker.quorum attribute".to_owned())
}

fn limits(attributes: &mut Attributes) -> Result<Limits, String> {
    attributes.entry("tbon.connect_timeout".to_owned()).or_insert_with(|| "30s".to_owned());
    let limit = |name: &str| match attributes.get(name).filter(|text| *text != "none") {
        None => Ok(None),
        Some(text) => {
            text::duration(text).map(Some).ok_or_else(|| format!("Error parsing {name} attribute"))
        }
    };
    Ok(Limits {
        shutdown: limit("broker.shutdown-timeout")?,
        cleanup: limit("broker.cleanup-timeout")?,
        connect: limit("tbon.connect_timeout")?.unwrap_or(Duration::MAX),
    })
}

/// Directories that were made here, to be removed when the broker is gone.
#[derive(Default)]
pub(super) struct Directories(Vec<PathBuf>);

impl Drop for Directories {
    fn drop(&mut self) {
        for path in &self.0 {
            // Nothing can be done about a directory that is already gone or held.
            drop(std::fs::remove_dir_all(path));
        }
    }
}

impl Directories {
    /// Sets up the directory at `path`, which attribute `name` names.
    fn create(&mut self, name: &str, path: &str) -> Result<(), String> {
        if !Path::new(path).exists() {
            let made = std::fs::DirBuilder::new().mode(0o700).create(path);
            made.map_err(|error| format!("{name} error creating {path}: {}", strerror(&error)))?;
            self.0.push(PathBuf::from(path));
        }
        check_directory(Path::new(path)).map_err(|error| format!("{name} {error}"))
    }
}

fn check_directory(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let found = std::fs::metadata(path)
        .map_err(|error| format!("cannot stat {shown}: {}", strerror(&error)))?;
    let owned = found.uid() == nix::unistd::getuid().as_raw();
    if !owned || !found.is_dir() || found.permissions().mode() & 0o700 != 0o700 {
        return Err(format!("{shown} is no directory of the instance owner with owner=rwx"));
    }
    Ok(())
}

/// Fills in or checks `local-uri`, and returns the path of the socket.
fn local_socket(attributes: &mut Attributes, rank: u32) -> Result<String, String> {
    let default = format!("local://{}/local-{rank}", attributes["rundir"]);
    let uri = attributes.entry("local-uri".to_owned()).or_insert(default);
    let path = uri.strip_prefix("local://").ok_or("local-uri is malformed")?;
    let parent = Path::new(path).parent().ok_or("local-uri is malformed")?;
    check_directory(parent).map_err(|error| format!("local-uri directory {error}"))?;
    if path.len() > LONGEST_SOCKET {
        let text = format!("exceeds max {LONGEST_SOCKET} AF_UNIX socket path length");
        return Err(format!("local-uri length of {} bytes {text}", path.len()));
    }
    Ok(path.to_owned())
}

/// Severity of a line, RFC 5424.
#[derive(Clone, Copy)]
pub(super) enum Severity {
    Critical = 2,
    Error = 3,
    Info = 6,
    Debug = 7,
}

#[derive(Clone)]
pub(super) struct Logger {
    /// Rank, or the host name before the rank is known.
    pub(super) place: String,
    pub(super) level: u8,
}

impl Logger {
    pub(super) fn log(&self, source: &str, severity: Severity, text: &str) {
        let (number, place) = (severity as u8, &self.place);
        let name = match severity {
            Severity::Critical => "crit",
            Severity::Error => "err",
            Severity::Info => "info",
            Severity::Debug => "debug",
        };
        if number <= self.level {
            output::error_line(&format!("<{number}>{source}.{name}[{place}]: {text}"));
        }
    }
}
