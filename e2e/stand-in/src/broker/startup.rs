//! From the command line to a broker that is ready to run: the steps of real Flux, in its order,
//! so that of several faults the same one is reported.

use super::core::{Attributes, Broker, Mailbox, Severity, show};
use super::state::State;
use crate::client::Call;
use crate::config::{self, Config};
use crate::jobs::manager::Manager;
use crate::options::{Parsed, parse};
use crate::output::{Failure, strerror};
use crate::release::{Feature, has};
use crate::text;
use flux_protocol::idset::ids_of;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Attributes that may be set at start (flux-broker-attributes(7)). Flux has many more.
const SETTABLE: &str = "broker.cleanup-timeout broker.quorum broker.rc2_none broker.shutdown-timeout \
    content.dump content.restore cron.directory hostname local-uri log-stderr-level log-stderr-mode rundir \
    statedir tbon.connect_timeout tbon.topo tbon.zmqdebug";

pub(super) fn prepare(call: &Call, mailbox: Mailbox) -> Result<Broker, Failure> {
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
    let place = attributes["hostname"].clone();
    let broker = finish(attributes, config, level, call, mailbox).map_err(|text| {
        show(level, &place, "broker", Severity::Critical, &text);
        Failure::new("")
    })?;
    if broker.is_leader() && !broker.attributes.contains_key("broker.rc2_none") {
        return Err(Failure::not_simulated("an initial program, as without broker.rc2_none"));
    }
    Ok(broker)
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
    log_level: u8,
    call: &Call,
    mailbox: Mailbox,
) -> Result<Broker, String> {
    let hostname = attributes["hostname"].clone();
    let fault = |error| format!("bootstrap: config: Config file error [bootstrap]: {error}");
    config.bootstrap = config.bootstrap.expand(&hostname).map_err(fault)?;
    let hosts: Vec<String> = config.bootstrap.hosts.iter().map(|host| host.name.clone()).collect();
    let rank = (0..).zip(&hosts).find(|(_, host)| **host == hostname).map_or(0, |(rank, _)| rank);
    let facts = [
        ("rank", rank.to_string()),
        ("size", hosts.len().to_string()),
        ("hostlist", text::hostlist(&hosts)),
        ("broker.pid", std::process::id().to_string()),
        ("instance-level", "0".to_owned()),
    ];
    attributes.extend(facts.map(|(name, value)| (name.to_owned(), value)));
    let mut directories = Vec::new();
    // Only rank 0 has a state to keep.
    for name in if rank == 0 { &["rundir", "statedir"][..] } else { &["rundir"] } {
        directories.extend(create(name, Path::new(&attributes[*name]))?);
    }
    let socket = local_socket(&mut attributes, rank)?;
    attributes.entry("tbon.connect_timeout".to_owned()).or_insert_with(|| "30s".to_owned());
    Ok(Broker {
        quorum: quorum(&attributes, hosts.len())?,
        shutdown_limit: limit(&attributes, "broker.shutdown-timeout")?,
        cleanup_limit: limit(&attributes, "broker.cleanup-timeout")?,
        connect_limit: limit(&attributes, "tbon.connect_timeout")?.unwrap_or(Duration::MAX),
        attributes,
        config,
        rank,
        hosts,
        log_level,
        socket,
        directories,
        environment: call.environment.clone(),
        mailbox,
        uplink: None,
        parent_state: None,
        parent_failed: false,
        links: HashMap::new(),
        children: BTreeMap::new(),
        manager: Manager::default(),
        clients: HashMap::new(),
        last_client: 0,
        processes: HashMap::new(),
        has_cleanup: false,
        exit_code: 0,
        state: State::LoadBuiltins,
        since: Instant::now(),
        events: VecDeque::new(),
    })
}

/// The number of brokers to wait for. Of an older release's set of ranks, that many of any.
fn quorum(attributes: &Attributes, size: usize) -> Result<usize, String> {
    let Some(text) = attributes.get("broker.quorum") else { return Ok(size) };
    let count = if has(Feature::QuorumSize) {
        text.parse().ok()
    } else {
        let exists = |rank: &u32| usize::try_from(*rank).is_ok_and(|rank| rank < size);
        ids_of(text).filter(|ranks| ranks.iter().all(exists)).map(|ranks| ranks.len())
    };
    let count = count.filter(|count| (1..=size).contains(count));
    count.ok_or_else(|| "Error parsing broker.quorum attribute".to_owned())
}

/// A time limit; `None` is no limit.
fn limit(attributes: &Attributes, name: &str) -> Result<Option<Duration>, String> {
    let given = attributes.get(name).filter(|text| *text != "none");
    let parsed = given.map(|text| text::duration(text).ok_or(()));
    parsed.transpose().map_err(|()| format!("Error parsing {name} attribute"))
}

/// Sets up the directory at `path`, which attribute `name` names, and returns it if it is new.
fn create(name: &str, path: &Path) -> Result<Option<TempDir>, String> {
    let mut new = None;
    if let Some((parent, own)) = path.parent().zip(path.file_name()).filter(|_| !path.exists()) {
        let made = tempfile::Builder::new().prefix(own).rand_bytes(0).tempdir_in(parent);
        let shown = path.display();
        let fault = |error| format!("{name} error creating {shown}: {}", strerror(&error));
        new = Some(made.map_err(fault)?);
    }
    check_directory(path).map_err(|error| format!("{name} {error}"))?;
    Ok(new)
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
    Ok(path.to_owned())
}
