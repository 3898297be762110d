//! The command line, and each subcommand that is not a run in a file of its own. They ask, print, and
//! end with a code; what they have in common is `arguments`, `pod`, `failure` and `running_agent`.

pub(crate) mod arguments;
pub(crate) mod cli;
pub(crate) mod client;
pub(crate) mod connect;
pub(crate) mod doctor;
pub(crate) mod env;
pub(crate) mod exec;
pub(crate) mod failure;
pub(crate) mod flux;
pub(crate) mod fluxion;
pub(crate) mod install;
pub(crate) mod keygen;
pub(crate) mod plan;
pub(crate) mod pod;
pub(crate) mod probe;
pub(crate) mod ready;
pub(crate) mod resources;
pub(crate) mod running_agent;
pub(crate) mod status;
pub(crate) mod view_install;
pub(crate) mod wait;

pub use arguments::{Format, OutputArgument};
pub use cli::{command_line, main};
