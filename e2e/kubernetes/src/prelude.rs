//! What most of this crate uses.

pub(crate) use crate::cache::Cache;
pub(crate) use crate::{programs, progress};
pub(crate) use anyhow::{Context as _, Result, anyhow, bail, ensure};
pub(crate) use fs_err::{self as fs, File};
pub(crate) use std::collections::BTreeMap;
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::process::Command;
pub(crate) use std::time::Duration;
