//! For the tests of the operator and of `kubectl flux`: as much of Kubernetes as they have to do with, in memory.
//!
//! [`server`] is an API server with its objects, watches and faults, [`http`] serves it to programs, and [`kubernetes`] runs the Jobs there: the Job
//! controller, kubelets with our agent in their pods, nodes, a [`queue`] and the garbage [`collector`]. [`samples`] and
//! [`any_spec`] give MiniClusters, [`repository`] the files of this repository.
#![expect(missing_docs, reason = "only tests use this, and most names need no comment")]
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test ends where something is not as it expects"
)]

pub mod access;
pub mod agent;
pub mod any_spec;
pub mod clock;
pub mod collector;
pub mod faults;
pub mod field_path;
pub mod http;
pub mod job;
pub mod job_policy;
pub mod kubelet;
pub mod memory;
pub mod nodes;
pub mod objects;
pub mod pod_log;
pub mod pod_status;
pub mod queue;
pub mod refusal;
pub mod repository;
pub mod reviews;
pub mod rules;
pub mod samples;
mod selectors;
pub mod server;
pub mod store;
mod watch;
