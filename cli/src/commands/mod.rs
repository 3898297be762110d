//! The subcommands, one file each.

pub(crate) mod burst;
pub(crate) mod completion;
pub(crate) mod cp;
pub(crate) mod delete;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod jobs;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod migrate;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod resources;
pub(crate) mod resubmit;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod suspend;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod ui;
pub(crate) mod validate;
pub(crate) mod version;
pub(crate) mod wait;
