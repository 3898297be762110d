//! rc1 and rc3 without their scripts: the checks they would make, the modules' complaints, and
//! the hardware a broker reports.

use super::content;
use super::core::Broker;
use super::log::Severity;
use super::program;
use super::state::State;
use crate::resources;

impl Broker {
    /// Runs rc1; the error is its exit code.
    pub(super) fn run_rc1(&mut self) -> Result<(), i32> {
        if let Some((code, text)) = program::rc1_fault(&self.setup.environment, self.is_leader()) {
            self.log(Severity::Error, text);
            return Err(code);
        }
        let disabled = self.setup.environment.contains_key("FLUX_DISABLE_JOB_CLEANUP");
        self.has_cleanup = self.is_leader() && !disabled;
        let (cores, excluded) =
            self.setup.config.resource.read(&self.setup.hosts).map_err(|text| {
                self.log_as("resource", Severity::Error, &text);
                self.log_as("resource", Severity::Critical, "module exiting abnormally");
                1
            })?;
        (self.manager.cores, self.manager.excluded) = (cores, excluded);
        if let Some(path) =
            self.setup.attributes.get("content.restore").filter(|_| self.is_leader())
        {
            self.log(Severity::Info, &format!("rc1.0: restoring content from {path}"));
            self.restored = content::read(path).map_err(|error| {
                self.log(Severity::Error, &format!("rc1.0: {error}"));
                1
            })?;
            if let Some(jobs) = self.restored.as_mut().and_then(serde_json::Value::as_array_mut) {
                jobs.retain(|job| !self.manager.resume(job));
            }
        }
        Ok(())
    }

    /// Runs rc3.
    pub(super) fn run_rc3(&self) -> Result<(), String> {
        if !self.is_leader() && !self.is_joined() {
            return Err("Upstream Flux broker is offline. Try again later.".to_owned());
        }
        let Some(path) = self.setup.attributes.get("content.dump").filter(|_| self.is_leader())
        else {
            return Ok(());
        };
        content::write(path, &self.jobs(None))?;
        self.log(Severity::Info, &format!("rc3.0: dumping content to {path}"));
        Ok(())
    }

    /// Whether there are fewer cores here than configured: then this rank drains itself.
    pub(super) fn drains_itself(&self) -> bool {
        let real = resources::local_cores();
        let configured = self.manager.cores.get(&self.setup.rank);
        let missing = configured.is_some_and(|cores| !cores.is_subset(&real));
        let drained = missing && !self.setup.config.resource.noverify;
        if drained {
            let place = format!("rank {} ({})", self.setup.rank, self.host(self.setup.rank));
            let text = format!("draining: {place} missing resources");
            self.log_as("resource", Severity::Error, &text);
        }
        drained
    }

    /// A broker has finished rc1.
    pub(super) fn came_online(&mut self, rank: u32, drained: bool) {
        self.manager.online.insert(rank);
        if drained {
            // A drain that is there already keeps its reason.
            self.manager.drained.entry(rank).or_insert_with(|| "missing resources".to_owned());
        }
        self.check_quorum();
        let effects = self.manager.schedule();
        self.carry_out(effects);
    }

    /// A broker that was online is not any more.
    pub(super) fn went_offline(&mut self, rank: u32) {
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
