//! The parts a broker starts first: its socket, and its place in the overlay.

use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;

use super::core::{Broker, Parent};
use super::local;
use super::log::Severity;
use crate::config::Bootstrap;
use crate::failure::{Failure, strerror};
use crate::overlay::wire::Upward;
use crate::overlay::{Uplink, accept, endpoint, load_certificate};

impl Broker {
    /// Starts the parts, and with them the state machine.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        self.log(Severity::Info, "this is the flux stand-in, not real Flux");
        let bootstrap = self.setup.config.bootstrap.take();
        self.choose_topology(bootstrap.is_some())?;
        match self.start_parts(bootstrap.as_ref()) {
            Ok(()) => self.post("builtins-success"),
            Err((module, text)) => {
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

    /// Accepts the schemes that put every rank directly under rank 0.
    fn choose_topology(&mut self, configured: bool) -> Result<(), Failure> {
        let default = if configured { "custom" } else { "kary:32" };
        let size = self.setup.hosts.len();
        let scheme = self.setup.attributes.entry("tbon.topo".to_owned());
        let scheme = scheme.or_insert_with(|| default.to_owned());
        let width = scheme.strip_prefix("kary:").and_then(|width| width.parse().ok());
        if scheme == "custom" || width.is_some_and(|width: usize| width >= size - 1) {
            return Ok(());
        }
        Err(Failure::not_simulated(&format!("tbon.topo={scheme} of {size} brokers")))
    }

    /// The error is the module that does not start, and its words.
    fn start_parts(&mut self, bootstrap: Option<&Bootstrap>) -> Result<(), (&'static str, String)> {
        let listener = local::bind(&self.setup.socket).map_err(|error| {
            ("connector-local", format!("bind {}: {}", self.setup.socket, strerror(&error)))
        })?;
        let (access, rank) = (self.setup.config.access, self.setup.rank);
        let door = local::Door { access, rank, mailbox: self.mailbox.clone() };
        tokio::spawn(local::accept(listener, door));
        match bootstrap.filter(|bootstrap| bootstrap.hosts.len() > 1) {
            Some(bootstrap) => self.join_overlay(bootstrap).map_err(|text| ("overlay", text)),
            None => Ok(()),
        }
    }

    fn join_overlay(&mut self, bootstrap: &Bootstrap) -> Result<(), String> {
        let path = bootstrap.curve_cert.as_deref().unwrap_or_default();
        let keys = load_certificate(path)
            .map_err(|error| format!("Error loading certificate: {error}"))?;
        let lead = bootstrap.hosts.first().ok_or("no hosts")?;
        let (key, uri) =
            if self.is_leader() { ("bind", &lead.bind) } else { ("connect", &lead.connect) };
        let uri = uri.clone().ok_or_else(|| format!("{key} URI is undefined for rank 0"))?;
        if self.is_leader() {
            let listener = endpoint::bind(&uri, bootstrap.enable_ipv6).and_then(|listener| {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)
            });
            let listener = listener
                .map_err(|error| format!("error binding to {uri}: {}", strerror(&error)))?;
            tokio::spawn(accept(listener, keys, self.mailbox.clone()));
            return Ok(());
        }
        self.log_as("overlay", Severity::Debug, &format!("connecting to {uri}"));
        let connect_timeout = self.setup.limits.connect;
        let uplink = Uplink { uri, keys, ipv6: bootstrap.enable_ipv6, connect_timeout };
        let (sender, outgoing) = unbounded_channel();
        tokio::spawn(uplink.keep(outgoing, self.mailbox.clone()));
        self.parent = Some(Parent { sender, responded: false, failed: false, state: None });
        self.send_up(&Upward::Hello(self.setup.rank, self.host(self.setup.rank)));
        Ok(())
    }
}
