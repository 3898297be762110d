//! What most tests of the operator use.

pub(crate) use crate::support::role;
pub(crate) use crate::support::world::{
    CLUSTER, CONFIG, EVENTS, JOB, PODS, SECRETS, SERVICE, World, agent_config, control, create,
    finish, marker, new_operator, of_the_job, patch, put_pods, ready, status, until, with_sidecar,
};
pub(crate) use flux_api::crd::State;
pub(crate) use flux_testkit::faults::Failure;
pub(crate) use flux_testkit::job::JobController;
pub(crate) use flux_testkit::objects::{index_of, is_broker};
pub(crate) use flux_testkit::repository::in_repository;
pub(crate) use flux_testkit::samples::hello;
pub(crate) use flux_testkit::server::Server;
pub(crate) use serde_json::{Value, json};
pub(crate) use std::collections::{BTreeMap, BTreeSet};
pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;
