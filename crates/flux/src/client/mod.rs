//! A client of a broker: the broker's local socket, the services that every broker has, and those of the instance, which
//! the lead (the broker of rank 0) has. `flux` asks the same services, each time as a process of its own.

mod broker;
pub mod job_info;
pub mod job_ingest;
pub mod job_list;
pub mod job_manager;
pub mod modules;
pub mod resource;
mod socket;

pub use socket::{BrokerAddress, BrokerSocket, LEAD, NODE_ANY, SocketError, within};
