//! The parts a broker starts first: its socket, and its place in the overlay.

use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;

use super::core::Broker;
use super::family::Parent;
use super::local;
use super::log::Severity;
use crate::certificate;
use crate::config::bootstrap::Bootstrap;
use crate::failure::{Failure, strerror};
use crate::overlay::wire::Upward;
use crate::overlay::{connect, endpoint, listen};

/// Why a part does not start: the module and its words.
struct Fault(&'static str, String);

impl Broker {
    /// Starts the parts, and with them the state machine.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        self.log(Severity::Info, "this is the flux stand-in, not real Flux");
        if self.has_crontabs() {
            return Err(Failure::not_simulated("crontabs in cron.directory"));
        }
        let bootstrap = self.setup.bootstrap.take();
        self.choose_topology(bootstrap.is_some())?;
        match self.start_parts(bootstrap.as_ref()) {
            Ok(()) => self.post("builtins-success"),
            Err(Fault(module, text)) => {
                self.log_as(module, Severity::Error, &text);
                let text = format!("error loading builtins: {module} is unexpectedly finalizing");
                self.log(Severity::Error, &text);
                self.exit_code = 1;
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
        let Some(path) = self.setup.attributes.get("cron.directory").filter(|_| self.is_leader())
        else {
            return false;
        };
        let mut entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.any(|entry| entry.path().is_file())
    }

    /// Accepts the schemes that put every rank directly under rank 0.
    fn choose_topology(&mut self, configured: bool) -> Result<(), Failure> {
        let given =
            self.setup.attributes.get("tbon.topo").or(self.setup.config.tbon.topo.as_deref());
        let scheme = given.unwrap_or(if configured { "custom" } else { "kary:32" }).to_owned();
        let deepest = match scheme.split_once(':') {
            Some(("kary", width)) => {
                width.parse::<usize>().ok().map(|width| width.saturating_add(1))
            }
            Some(_) => None,
            None => (scheme == "custom").then_some(usize::MAX),
        };
        if deepest.is_none_or(|deepest| self.setup.hosts.len() > deepest) {
            let what = format!("tbon.topo={scheme} of {} brokers", self.setup.hosts.len());
            return Err(Failure::not_simulated(&what));
        }
        self.setup.attributes.set("tbon.topo", scheme);
        Ok(())
    }

    fn start_parts(&mut self, bootstrap: Option<&Bootstrap>) -> Result<(), Fault> {
        let listener = local::bind(&self.setup.socket).map_err(|error| {
            let text = format!("bind {}: {}", self.setup.socket, strerror(&error));
            Fault("connector-local", text)
        })?;
        let door = local::Door {
            access: self.setup.config.access,
            rank: self.setup.rank,
            news: self.channels.news.clone(),
            alive: self.channels.alive.downgrade(),
        };
        tokio::spawn(local::accept(listener, door));
        match bootstrap.filter(|bootstrap| bootstrap.hosts.len() > 1) {
            Some(bootstrap) => self.join_overlay(bootstrap).map_err(|text| Fault("overlay", text)),
            None => Ok(()),
        }
    }

    fn join_overlay(&mut self, bootstrap: &Bootstrap) -> Result<(), String> {
        let path = bootstrap.certificate.as_deref().unwrap_or_default();
        let keys = certificate::load(path)
            .map_err(|error| format!("Error loading certificate: {error}"))?;
        let lead = bootstrap.hosts.first().ok_or("no hosts")?;
        let (key, uri) =
            if self.is_leader() { ("bind", &lead.bind) } else { ("connect", &lead.connect) };
        let uri = uri.as_deref().ok_or_else(|| format!("{key} URI is undefined for rank 0"))?;
        if self.is_leader() {
            let fault = |error| format!("error binding to {uri}: {}", strerror(&error));
            let listener = endpoint::bind(uri, bootstrap.ipv6).map_err(fault)?;
            listener.set_nonblocking(true).map_err(fault)?;
            let listener = TcpListener::from_std(listener).map_err(fault)?;
            let news = self.channels.news.clone();
            let alive = self.channels.alive.downgrade();
            tokio::spawn(listen::accept(listener, listen::Server { keys, news, alive }));
            return Ok(());
        }
        let uplink = connect::Uplink {
            uri: uri.to_owned(),
            keys,
            ipv6: bootstrap.ipv6,
            connect_timeout: self.setup.limits.connect,
        };
        let (sender, outgoing) = unbounded_channel();
        tokio::spawn(connect::keep_connected(uplink, outgoing, self.channels.news.clone()));
        self.parent = Some(Parent::new(sender));
        self.log_as("overlay", Severity::Debug, &format!("connecting to {uri}"));
        self.send_up(&Upward::Hello(self.setup.rank, self.host(self.setup.rank)));
        Ok(())
    }
}
