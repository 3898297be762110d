//! A Kubernetes on this machine, of one node or a few, each in namespaces of its own.

mod certificates;
mod cluster;
mod configuration;
mod control_groups;
mod faults;
mod layout;
mod lifecycle;
mod namespaces;
mod network;
mod options;
mod processes;
mod recipes;
mod start;
mod version;

pub use cluster::Kubernetes;
pub use layout::ClusterId;
pub use lifecycle::DownAtEnd;
pub use network::{IpFamily, MOST_NODES, Network};
pub use options::{ContainerRuntime, Nodes, Options, id_of_version};
pub use processes::end_descendants;
pub use recipes::Built;
pub use recipes::go_programs;
pub use version::KubernetesVersion;
