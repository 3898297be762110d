//! All decisions of a run: configuration and facts become a plan, a value that can be printed and compared. Only `config`
//! and `facts` read files; nothing is changed.

pub(crate) mod broker;
mod bulk;
pub(crate) mod config;
pub(crate) mod decide;
pub(crate) mod directives;
pub(crate) mod facts;
pub(crate) mod files;
pub(crate) mod grace_period;
pub(crate) mod helpers;
pub(crate) mod pod;
mod release;
pub(crate) mod start;
pub(crate) mod step;
pub(crate) mod submission;
pub(crate) mod variables;
pub(crate) mod workload;

pub use crate::failure::Failure;
pub use decide::{broker_config, client_environment, lead, plan, sidecar_hook};
pub use facts::Facts;
pub use step::{AwaitLead, Plan};
