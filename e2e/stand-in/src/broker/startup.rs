//! From the command line to a broker that is ready to run: the steps of real Flux, in its order,
//! so that of several faults the same one is reported.

use std::time::Duration;

use serde_json::{Map, Value};

use super::attributes::{AttributeError, Attributes};
use super::directories::{self, Directories};
use super::log::{Logger, Severity};
use super::program::{self, Program};
use crate::config::bootstrap::{self, Bootstrap};
use crate::config::load;
use crate::failure::Failure;
use crate::front::Environment;
use crate::options::{Argument, Choice, Parsed, long, parse, short};
use crate::text::duration;

const OPTIONS: &[Choice] = &[
    short("verbose", 'v', Argument::Optional),
    short("setattr", 'S', Argument::Required),
    short("config-path", 'c', Argument::Required),
    long("conf", Argument::Required),
    short("help", 'h', Argument::None),
];

/// Everything a broker needs to know before it begins.
#[derive(Debug)]
pub(crate) struct Startup {
    /// Attributes so far.
    pub(crate) attributes: Attributes,
    /// Configuration, an object.
    pub(crate) config: Value,
    /// `[bootstrap]`, if there is one.
    pub(crate) bootstrap: Option<Bootstrap>,
    /// Rank.
    pub(crate) rank: u32,
    /// Host names in rank order.
    pub(crate) hosts: Vec<String>,
    /// Own host name.
    pub(crate) hostname: String,
    /// Where log lines go.
    pub(crate) logger: Logger,
    /// What to run on rank 0.
    pub(crate) program: Option<Program>,
    /// Number of brokers that make a quorum.
    pub(crate) quorum: usize,
    /// Limits and warning periods; `None` means never.
    pub(crate) periods: Periods,
    /// Removed when the broker is gone.
    pub(crate) directories: Directories,
    /// Environment without what a broker does not hand on.
    pub(crate) environment: Environment,
}

/// Durations from attributes; `None` is `none`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Periods {
    /// Warn of a slow quorum.
    pub(crate) quorum_warn: Option<Duration>,
    /// Warn of slow peers.
    pub(crate) shutdown_warn: Option<Duration>,
    /// Give up on peers.
    pub(crate) shutdown_timeout: Option<Duration>,
    /// Give up on jobs, after a signal.
    pub(crate) cleanup_timeout: Option<Duration>,
}

/// Prepares a broker from the words after `flux broker`.
pub(crate) fn prepare(words: &[String], environment: Environment) -> Result<Startup, Failure> {
    let parsed = parse(words, OPTIONS).map_err(|error| {
        Failure::new(format!(
            "flux-broker: {error}\nTry `flux-broker --help' for more information."
        ))
    })?;
    if parsed.has("help") {
        return Err(Failure::not_simulated("broker --help"));
    }
    let mut attributes = Attributes::default();
    for text in parsed.values("setattr") {
        attributes.set_from_command_line(text).map_err(|error| match error {
            AttributeError::NotSimulated(_) => Failure::not_simulated(&error.to_string()),
            AttributeError::Unknown(_) | AttributeError::ReadOnly(_) | AttributeError::Fixed(_) => {
                Failure::new(format!("broker: {error}"))
            }
        })?;
    }
    let hostname = match attributes.get("hostname") {
        Some(name) => name.to_owned(),
        None => nix::unistd::gethostname()
            .map_err(|error| Failure::new(format!("broker: gethostname: {}", error.desc())))?
            .to_string_lossy()
            .into_owned(),
    };
    attributes.set("hostname", hostname.clone());
    log_defaults(&mut attributes, &parsed);
    let early = Logger::early(&attributes, &hostname);
    let critical = |text: String| {
        early.log("broker", Severity::Critical, &text);
        Failure::silent(1)
    };
    let config = configuration(&parsed, &mut attributes, &environment).map_err(critical)?;
    let method = attributes.get("broker.boot-method").map(str::to_owned);
    let bootstrap =
        boot(method.as_deref(), &config, &hostname, &environment).map_err(|error| match error {
            BootError::Refused(text) => critical(format!("bootstrap: {text}")),
            BootError::NotSimulated(what) => Failure::not_simulated(&what),
        })?;
    finish(attributes, config, bootstrap, hostname, &parsed.rest, environment)
        .map_err(|error| if error.message.is_empty() { error } else { fail_with(&early, error) })
}

/// Writes a fault to the log; other exit codes than 1 speak for themselves.
fn fail_with(logger: &Logger, error: Failure) -> Failure {
    if error.code != 1 {
        return error;
    }
    logger.log("broker", Severity::Critical, &error.message);
    Failure::silent(1)
}

fn log_defaults(attributes: &mut Attributes, parsed: &Parsed) {
    let level = parsed.value("verbose").and_then(|text| text.parse().ok());
    let verbose = level.unwrap_or_else(|| parsed.count("verbose"));
    if verbose > 0 {
        attributes.set_default("log-stderr-mode", "local");
    }
    let level = match verbose {
        0 => "3",
        1 => "6",
        _ => "7",
    };
    attributes.set_default("log-stderr-level", level);
}

fn configuration(
    parsed: &Parsed,
    attributes: &mut Attributes,
    environment: &Environment,
) -> Result<Value, String> {
    let path = parsed
        .value("config-path")
        .or_else(|| environment.get("FLUX_CONF_DIR").map(String::as_str));
    let mut config = Value::Object(Map::new());
    if let Some(path) = path {
        config = load::from_path(path).map_err(|error| format!("Config file error: {error}"))?;
        attributes.set("config.path", path);
    }
    for value in parsed.values("conf") {
        load::apply(&mut config, value).map_err(|error| format!("--conf: {error}"))?;
    }
    Ok(config)
}

enum BootError {
    Refused(String),
    NotSimulated(String),
}

/// Chooses how to learn who the brokers are: the configuration if it says so, else alone.
fn boot(
    method: Option<&str>,
    config: &Value,
    hostname: &str,
    environment: &Environment,
) -> Result<Option<Bootstrap>, BootError> {
    let methods = environment.get("FLUX_PMI_CLIENT_METHODS").map(String::as_str);
    if let Some(methods) = methods.filter(|_| method.is_none()) {
        return Err(BootError::NotSimulated(format!("FLUX_PMI_CLIENT_METHODS={methods}")));
    }
    match method {
        None | Some("config") => {}
        Some("single") => return Ok(None),
        Some(pmi @ ("simple" | "libpmi" | "libpmi2")) => {
            return Err(BootError::NotSimulated(format!("broker.boot-method={pmi}")));
        }
        Some(other) => {
            return Err(BootError::Refused(format!("plugin matching '{other}' not found")));
        }
    }
    let parsed = bootstrap::parse(config, hostname).map_err(|error| {
        BootError::Refused(format!("config: initialize: Config file error [bootstrap]: {error}"))
    })?;
    match parsed {
        None if method.is_some() => {
            Err(BootError::Refused("config: initialize: no [bootstrap] table".to_owned()))
        }
        None if environment.contains_key("PMI_FD") => {
            Err(BootError::NotSimulated("PMI bootstrap".to_owned()))
        }
        parsed => Ok(parsed),
    }
}

fn finish(
    mut attributes: Attributes,
    config: Value,
    bootstrap: Option<Bootstrap>,
    hostname: String,
    words: &[String],
    mut environment: Environment,
) -> Result<Startup, Failure> {
    let hosts = bootstrap.as_ref().map_or_else(|| vec![hostname.clone()], Bootstrap::names);
    let rank = hosts.iter().position(|host| *host == hostname).unwrap_or_default();
    let rank = u32::try_from(rank).map_err(|_| Failure::new("too many brokers"))?;
    set_facts(&mut attributes, rank, hosts.len(), bootstrap.is_some());
    let logger = Logger::ranked(&attributes, rank).map_err(Failure::new)?;
    for name in ["FLUX_URI", "FLUX_PROXY_REMOTE", "FLUX_KVS_NAMESPACE", "FLUX_JOB_ID_PATH"] {
        environment.remove(name);
    }
    let result = make_directories(&mut attributes, rank, &environment)
        .and_then(|directories| {
            let quorum = quorum(&mut attributes, &logger, rank, hosts.len())?;
            let periods = periods(&mut attributes)?;
            Ok((directories, quorum, periods))
        })
        .and_then(|(directories, quorum, periods)| {
            let none = rank > 0 || attributes.exists("broker.rc2_none");
            let program = if none { None } else { Some(program::choose(words, &environment)?) };
            Ok((directories, quorum, periods, program))
        });
    let (directories, quorum, periods, program) =
        result.map_err(|text| fail_with(&logger, Failure::new(text)))?;
    Ok(Startup {
        attributes,
        config,
        bootstrap,
        rank,
        hosts,
        hostname,
        logger,
        program,
        quorum,
        periods,
        directories,
        environment,
    })
}

fn set_facts(attributes: &mut Attributes, rank: u32, size: usize, configured: bool) {
    attributes.set("rank", rank.to_string());
    attributes.set("size", size.to_string());
    attributes.set("version", "0.88.0");
    attributes.set("broker.pid", std::process::id().to_string());
    attributes.set("security.owner", nix::unistd::getuid().to_string());
    attributes.set("broker.uuid", crate::text::uuid::random());
    attributes.set("instance-level", "0");
    attributes.set("jobid-path", "/");
    attributes.set("broker.mapping", format!("[[0,{size},1,1]]"));
    attributes.set_default("broker.boot-method", if configured { "config" } else { "single" });
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs_f64();
    attributes.set("broker.starttime", format!("{now:.2}"));
}

fn make_directories(
    attributes: &mut Attributes,
    rank: u32,
    environment: &Environment,
) -> Result<Directories, String> {
    let mut directories = Directories::default();
    let temporary = environment.get("TMPDIR").map(String::as_str);
    directories
        .create(attributes, "rundir", temporary.unwrap_or("/tmp"))
        .map_err(|error| format!("rundir {error}"))?;
    if rank == 0 {
        directories
            .create(attributes, "statedir", temporary.unwrap_or("/var/tmp"))
            .map_err(|error| format!("statedir {error}"))?;
    } else {
        attributes.remove("statedir");
    }
    directories::local_uri(attributes, rank)?;
    Ok(directories)
}

fn quorum(
    attributes: &mut Attributes,
    logger: &Logger,
    rank: u32,
    size: usize,
) -> Result<usize, String> {
    let Some(text) = attributes.get("broker.quorum") else {
        attributes.set("broker.quorum", size.to_string());
        return Ok(size);
    };
    let old = match text {
        "0" => Some(1),
        text if text == format!("0-{}", size - 1) => Some(size),
        _ => None,
    };
    if let Some(count) = old {
        if rank == 0 {
            let text = format!("warning: broker.quorum is now a size - assuming {count}");
            logger.log("broker", Severity::Error, &text);
        }
        return Ok(count);
    }
    // strtoul: what follows the digits is not looked at.
    let digits: String = text.trim_start().chars().take_while(char::is_ascii_digit).collect();
    match digits.parse::<usize>() {
        Ok(count) if (1..=size).contains(&count) => Ok(count),
        _ => Err("Error parsing broker.quorum attribute".to_owned()),
    }
}

fn periods(attributes: &mut Attributes) -> Result<Periods, String> {
    let mut period = |name: &str, default: &str| -> Result<Option<Duration>, String> {
        attributes.set_default(name, default);
        let text = attributes.get(name).unwrap_or_default();
        if text == "none" {
            return Ok(None);
        }
        let seconds =
            duration::parse(text).ok_or_else(|| format!("Error parsing {name} attribute"))?;
        Ok(Duration::try_from_secs_f64(seconds).ok())
    };
    let periods = Periods {
        quorum_warn: period("broker.quorum-warn", "1m")?.filter(|warn| !warn.is_zero()),
        shutdown_warn: period("broker.shutdown-warn", "1m")?,
        shutdown_timeout: period("broker.shutdown-timeout", "none")?,
        cleanup_timeout: period("broker.cleanup-timeout", "none")?,
    };
    period("broker.unload-builtins-timeout", "1m")?;
    period("broker.sd-stop-timeout", "none")?;
    Ok(periods)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quorum_of(text: Option<&str>, size: usize) -> Result<usize, String> {
        let mut attributes = Attributes::default();
        if let Some(text) = text {
            attributes.set("broker.quorum", text);
        }
        let logger = Logger::early(&attributes, "test");
        quorum(&mut attributes, &logger, 1, size)
    }

    #[test]
    fn the_quorum_is_a_count_and_old_ranges_are_understood() {
        assert_eq!(quorum_of(None, 4), Ok(4));
        assert_eq!(quorum_of(Some("2"), 4), Ok(2));
        assert_eq!(quorum_of(Some("2x"), 4), Ok(2));
        assert_eq!(quorum_of(Some("0"), 4), Ok(1));
        assert_eq!(quorum_of(Some("0-3"), 4), Ok(4));
        for bad in ["5", "-1", "x", "", "0-2"] {
            let error = quorum_of(Some(bad), 4).expect_err("refused");
            assert_eq!(error, "Error parsing broker.quorum attribute", "{bad}");
        }
    }
}
