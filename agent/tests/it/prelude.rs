//! What most tests use.

pub(crate) use crate::pod::broker::{NO_SERVICE, broker_in_state, broker_that, state_text};
pub(crate) use crate::pod::{Background, Ended, PATIENCE, Pod, await_that, sidecar, stopped};
pub(crate) use crate::zmtp_server::worker_with_lead;
pub(crate) use flux_contract::{AgentConfig, Exit, Workload};
pub(crate) use nix::sys::signal::Signal;
pub(crate) use serde_json::{Value, json};
pub(crate) use std::collections::BTreeMap;
pub(crate) use std::fs::{self, Permissions};
pub(crate) use std::os::unix::fs::{MetadataExt, PermissionsExt};
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::process::{Command, Stdio};
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::Ordering;
pub(crate) use std::time::Duration;
