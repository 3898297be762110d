//! rc1 and rc3 without their scripts: the checks they would make, the modules' complaints, and
//! the hardware a broker reports.

use super::content;
use super::core::Broker;
use super::log::Severity;
use super::program;
use crate::config::resource::{self, Refusal, ResourceConfig};
use crate::config::tables::{self, Complaint};
use crate::resources::{self, Node};
use std::collections::BTreeSet;

impl Broker {
    /// Runs rc1; the error is its exit code.
    pub(super) fn run_rc1(&mut self) -> Result<(), i32> {
        if let Some((code, text)) = program::rc1_fault(&self.environment, self.is_leader()) {
            self.log(Severity::Error, &text);
            return Err(code);
        }
        let parsed = tables::modules(&self.config).and_then(|()| {
            resource::parse(&self.config, &self.hosts)
                .map_err(|Refusal { text, errno }| Complaint { module: "resource", text, errno })
        });
        let parsed = parsed.map_err(|complaint| {
            self.log_as(complaint.module, Severity::Error, &complaint.text);
            self.log_as(complaint.module, Severity::Critical, "module exiting abnormally");
            let Complaint { module, errno, .. } = complaint;
            let (number, reason) = (errno as i32, errno.desc());
            self.log(Severity::Error, &format!("{module}: {reason}"));
            self.log(Severity::Error, &format!("rc1.0: {module}: [Errno {number}] {reason}"));
            1
        })?;
        if self.is_leader() {
            self.manager.excluded.clone_from(&parsed.excluded);
            self.manager.nodes.clone_from(&parsed.nodes);
            self.restore().map_err(|error| {
                self.log(Severity::Error, &format!("rc1.0: {error}"));
                1
            })?;
        }
        Ok(())
    }

    fn restore(&mut self) -> Result<(), String> {
        let Some((path, exists)) = content::to_restore(&self.attributes) else { return Ok(()) };
        self.log(Severity::Info, &format!("rc1.0: restoring content from {}", path.display()));
        if exists {
            self.restored = Some(content::read(&path)?);
        }
        Ok(())
    }

    /// Runs rc3.
    pub(super) fn run_rc3(&mut self) -> Result<(), String> {
        if !self.is_leader() {
            return Ok(());
        }
        let content = self.content();
        if let Some(path) = content::dump(&self.attributes, &content)? {
            self.log(Severity::Info, &format!("rc3.0: dumping content to {}", path.display()));
        }
        Ok(())
    }

    /// Everything a dump holds: what was restored, and the jobs since.
    pub(super) fn content(&self) -> serde_json::Value {
        let mut content = self.jobs(None);
        content["drained"] = serde_json::json!(self.manager.drained);
        content
    }

    /// The cores here, and why this rank drains itself, if it does.
    pub(super) fn own_hardware(&mut self) -> (Vec<u32>, Option<String>) {
        let real = resources::local_cores();
        let drain = resource::parse(&self.config, &self.hosts).ok().and_then(|parsed| {
            let ResourceConfig { nodes, verify, .. } = parsed;
            let expected = nodes?.get(&self.rank)?.cores.clone();
            verify.complaint(self.rank, &self.hostname, &expected, &real)
        });
        if let Some(reason) = &drain {
            self.log_as("resource", Severity::Error, &format!("draining: {reason}"));
        }
        (real.into_iter().collect(), drain)
    }

    /// A broker has finished rc1.
    pub(super) fn came_online(&mut self, rank: u32, cores: Vec<u32>, drain: Option<String>) {
        self.manager.online.insert(rank);
        match drain {
            Some(reason) => {
                self.manager.drained.insert(rank, reason);
            }
            None => {
                self.manager.drained.remove(&rank);
            }
        }
        self.discovered.insert(rank, cores);
        // Discovery is complete when every rank has reported, and not before.
        if self.manager.nodes.is_none() && self.discovered.len() == self.hosts.len() {
            let node = |(rank, cores): (&u32, &Vec<u32>)| {
                let cores: BTreeSet<u32> = cores.iter().copied().collect();
                (*rank, Node { host: self.host(*rank), cores, ..Node::default() })
            };
            let nodes = self.discovered.iter().map(node).collect();
            self.manager.nodes = Some(nodes);
        }
        self.check_quorum();
        let effects = self.manager.schedule();
        self.carry_out(effects);
    }

    /// A broker that was online is not any more.
    pub(super) fn went_offline(&mut self, rank: u32) {
        use super::state::State;
        if !self.manager.online.remove(&rank) {
            return;
        }
        if matches!(self.state(), State::Run | State::Cleanup) {
            let text = format!("dead to Flux: {} (rank {rank})", self.host(rank));
            self.log(Severity::Error, &text);
        }
        let effects = self.manager.lost(rank);
        self.carry_out(effects);
    }
}
