//! A client of a broker: the broker's local socket, the services of every broker, and the services of the instance, which
//! the broker of rank 0 (the lead) offers.

mod broker;
pub mod job_info;
pub mod job_ingest;
pub mod job_list;
pub mod job_manager;
pub mod modules;
pub mod resource;
mod socket;

pub use socket::{BrokerAddress, BrokerSocket, LEAD, NODE_ANY, SocketError, within};
