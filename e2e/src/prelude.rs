//! What most tests on clusters use.

pub use crate::environment::Environment;
pub use crate::product::view::View;
pub use crate::trial::instance::{
    DEADLINE, Instance, end_of, sorted, specification, then_on, until_true, wait_for,
};
pub use crate::trial::logs::container_log;
pub use crate::trial::{Trial, condition, is_true};
pub use crate::{notes, programs, progress};
pub use anyhow::{Context as _, Result, anyhow, bail, ensure};
pub use flux_api::crd::{MiniCluster, MiniClusterStatus, State};
pub use k8s_openapi::api::core::v1::Pod;
pub use kube::core::DynamicObject;
pub use kube::discovery::ApiResource;
pub use kube::{Api, Client, ResourceExt};
pub use serde_json::{Value, json};
pub use std::path::{Path, PathBuf};
pub use std::process::{Command, ExitCode};
pub use std::time::{Duration, Instant};
