//! The parts a broker starts first: its socket, and its place in the overlay.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;

use super::core::Broker;
use super::family::Parent;
use super::local;
use super::log::Severity;
use crate::certificate::{self, Certificate};
use crate::config::bootstrap::Bootstrap;
use crate::config::tables;
use crate::failure::{Failure, strerror};
use crate::overlay::wire::Upward;
use crate::overlay::{connect, endpoint, listen};
use crate::text::duration;
use crate::topology::{self, TopologyError};

/// Why a part does not start.
enum Fault {
    /// Real Flux does not start either: the module and its words.
    Module(&'static str, String),
    /// Real Flux would.
    NotSimulated(String),
}

impl Broker {
    /// Starts the parts, and with them the state machine.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        self.log(Severity::Info, "this is the flux stand-in, not real Flux");
        if let Some(table) = tables::unsupported(&self.config) {
            return Err(Failure::not_simulated(&format!("configuration of {table}")));
        }
        if self.has_crontabs() {
            return Err(Failure::not_simulated("crontabs in cron.directory"));
        }
        match self.start_parts() {
            Ok(()) => self.post("builtins-success"),
            Err(Fault::NotSimulated(what)) => return Err(Failure::not_simulated(&what)),
            Err(Fault::Module(module, text)) => {
                self.log_as(module, Severity::Error, &text);
                self.log_as(module, Severity::Critical, "module exiting abnormally");
                let text = format!("error loading builtins: {module} is unexpectedly finalizing");
                self.log(Severity::Error, &text);
                self.exit_code = self.norestart_or(1);
                self.post("builtins-fail");
            }
        }
        self.settle();
        // The socket's and the overlay's tasks start before the first event is waited for.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Whether rank 0 would load crontabs: the plain files in `cron.directory`, which may well be
    /// missing (flux-core, `etc/modprobe/rc1.py`).
    fn has_crontabs(&self) -> bool {
        let Some(path) = self.attributes.get("cron.directory").filter(|_| self.is_leader()) else {
            return false;
        };
        let mut entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.any(|entry| entry.path().is_file())
    }

    fn start_parts(&mut self) -> Result<(), Fault> {
        let connector = |text: String| Fault::Module("connector-local", text);
        let access = tables::access(&self.config).map_err(connector)?;
        let uri = self.attributes.get("local-uri").unwrap_or_default().to_owned();
        let path = uri.strip_prefix("local://").unwrap_or_default();
        let listener = local::bind(path)
            .map_err(|error| connector(format!("bind {path}: {}", strerror(&error))))?;
        let (news, alive) = (self.channels.clients.clone(), self.channels.alive.downgrade());
        tokio::spawn(local::accept(listener, local::Door { access, rank: self.rank, news, alive }));
        self.start_overlay()
    }

    fn start_overlay(&mut self) -> Result<(), Fault> {
        let overlay = |text: String| Fault::Module("overlay", text);
        tables::tbon(&self.config).map_err(overlay)?;
        let settings = self.overlay_settings().map_err(overlay)?;
        let scheme = self.attributes.get("tbon.topo").unwrap_or_default().to_owned();
        topology::check_flat(&scheme, self.hosts.len(), self.bootstrap.as_ref()).map_err(
            |error| match error {
                TopologyError::Refused(text) => overlay(text),
                TopologyError::Deep(_) => Fault::NotSimulated(error.to_string()),
            },
        )?;
        if let Some(bootstrap) = self.bootstrap.clone() {
            self.join_overlay(&bootstrap, &settings).map_err(overlay)?;
        }
        let size = self.hosts.len();
        let level = u32::from(!self.is_leader());
        let descendants = if self.is_leader() { size - 1 } else { 0 };
        self.attributes.set("tbon.level", level.to_string());
        self.attributes.set("tbon.maxlevel", u32::from(size > 1).to_string());
        self.attributes.set("tbon.descendants", descendants.to_string());
        self.attributes.set_default("broker.critical-ranks", "0");
        self.attributes.set_default("hostlist", crate::resources::compress(&self.hosts));
        Ok(())
    }

    fn join_overlay(&mut self, bootstrap: &Bootstrap, settings: &Settings) -> Result<(), String> {
        let certificate = match &bootstrap.certificate {
            None => return Ok(()),
            Some(path) => certificate::load(path)
                .map_err(|error| format!("Error loading certificate: {error}"))?,
        };
        if self.hosts.len() == 1 {
            return Ok(());
        }
        let lead = bootstrap.hosts.first().ok_or("no hosts")?;
        let undefined = |key: &str| format!("{key} URI is undefined for rank 0");
        if self.is_leader() {
            let bind = lead.bind.as_deref().ok_or_else(|| undefined("bind"))?;
            self.listen(bind, bootstrap.ipv6, &certificate, settings)?;
            let connect = lead.connect.as_deref().ok_or_else(|| undefined("connect"))?;
            self.attributes.set("tbon.endpoint", connect);
        } else {
            let connect = lead.connect.as_deref().ok_or_else(|| undefined("connect"))?;
            self.attributes.set("tbon.parent-endpoint", connect);
            self.connect(connect, bootstrap.ipv6, certificate, settings)?;
        }
        Ok(())
    }

    fn listen(
        &mut self,
        uri: &str,
        ipv6: bool,
        certificate: &Certificate,
        settings: &Settings,
    ) -> Result<(), String> {
        let bound = endpoint::bind(uri, ipv6)
            .map_err(|error| format!("error binding to {uri}: {error}"))?;
        if !certificate.metadata.contains_key("name") {
            return Err("overlay_authorize: Invalid argument".to_owned());
        }
        let keys = certificate.keys.clone();
        let events = self.channels.children.clone();
        let user_timeout = settings.user_timeout;
        let alive = self.channels.alive.downgrade();
        let server = listen::Server { keys, user_timeout, events, alive };
        tokio::spawn(listen::accept(bound, server));
        Ok(())
    }

    fn connect(
        &mut self,
        uri: &str,
        ipv6: bool,
        certificate: Certificate,
        settings: &Settings,
    ) -> Result<(), String> {
        if !endpoint::can_connect(uri) {
            return Err("overlay_connect: Invalid argument".to_owned());
        }
        let uplink = connect::Uplink {
            uri: uri.to_owned(),
            keys: certificate.keys,
            uuid: self.attributes.get("broker.uuid").unwrap_or_default().to_owned(),
            ipv6,
            connect_timeout: settings.connect_timeout,
            user_timeout: settings.user_timeout,
        };
        let (sender, outgoing) = unbounded_channel();
        let events = self.channels.parent.clone();
        tokio::spawn(connect::keep_connected(uplink, outgoing, events));
        self.parent = Some(Parent::new(sender));
        self.log_as("overlay", Severity::Debug, &format!("connecting to {uri}"));
        let hello = Upward::Hello {
            rank: self.rank,
            hostname: self.hostname.clone(),
            version: crate::overlay::wire::VERSION,
        };
        self.send_up(&hello);
        Ok(())
    }

    /// Overlay settings from attributes, which win, and configuration.
    fn overlay_settings(&mut self) -> Result<Settings, String> {
        let configured = |config: &Value, key: &str| {
            config.get("tbon").and_then(|table| table.get(key)).cloned()
        };
        for key in ["zmqdebug", "zmq_io_threads", "child_rcvhwm"] {
            let name = format!("tbon.{key}");
            if self.attributes.get(&name).is_some_and(|text| text.parse::<i64>().is_err()) {
                return Err(format!("{name} value must be an integer"));
            }
        }
        let mut seconds = |key: &str, default: f64| -> Result<f64, String> {
            let name = format!("tbon.{key}");
            let value = match self.attributes.get(&name) {
                Some(text) => duration::parse(text)
                    .ok_or_else(|| format!("Error parsing {name} attribute"))?,
                None => configured(&self.config, key)
                    .and_then(|value| value.as_str().and_then(duration::parse))
                    .unwrap_or(default),
            };
            self.attributes.set(&name, duration::format(value, 6));
            Ok(value)
        };
        let connect_timeout = limit(seconds("connect_timeout", 30.0)?);
        let user_timeout = limit(seconds("tcp_user_timeout", 20.0)?);
        let (torpid_min, torpid_max) = (seconds("torpid_min", 5.0)?, seconds("torpid_max", 30.0)?);
        if torpid_min <= 0.0 {
            return Err("tbon.torpid_min must be nonzero".to_owned());
        }
        if torpid_max > 0.0 && torpid_min >= torpid_max {
            return Err("tbon.torpid_min must be less than torpid_max".to_owned());
        }
        let default = if self.bootstrap.is_some() { "custom" } else { "kary:32" };
        let scheme = match (self.attributes.get("tbon.fanout"), configured(&self.config, "topo")) {
            (Some(fanout), _) => format!("kary:{fanout}"),
            (None, Some(Value::String(scheme))) => scheme,
            (None, _) => default.to_owned(),
        };
        self.attributes.set_default("tbon.topo", scheme);
        self.attributes.set_default("tbon.interface-hint", "default-route");
        self.torpid_min = Duration::try_from_secs_f64(torpid_min).unwrap_or(Duration::from_secs(5));
        Ok(Settings { connect_timeout, user_timeout })
    }
}

/// A limit, where 0 leaves it to the system.
fn limit(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero())
}

struct Settings {
    connect_timeout: Option<Duration>,
    user_timeout: Option<Duration>,
}
