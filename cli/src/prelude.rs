//! What most subcommands use.

pub(crate) use crate::connection::Connection;
pub(crate) use crate::minicluster::{MiniClusterRef, NameArgument, NamesArgument, objects};
pub(crate) use crate::output::{FormatArgument, print, print_stderr};
pub(crate) use anyhow::{Context as _, Result, bail, ensure};
pub(crate) use clap::Args;
pub(crate) use flux_api::crd::{MiniCluster, State};
pub(crate) use jiff::Timestamp;
pub(crate) use k8s_openapi::api::core::v1::Pod;
pub(crate) use kube::{Api, ResourceExt};
pub(crate) use serde_json::{Value, json};
pub(crate) use std::collections::BTreeMap;
pub(crate) use std::process::ExitCode;
pub(crate) use std::time::Duration;
