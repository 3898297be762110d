//! Formats and protocols of Flux: hostlists, idsets, job ids, jobspecs, resource sets, eventlogs, CURVE certificates and
//! messages, and a client of a broker over the broker's local socket.
//!
//! Each module names the RFC of Flux (<https://flux-framework.readthedocs.io/projects/flux-rfc/>)
//! or the file of flux-core that describes its format.

#[cfg(feature = "client")]
pub mod client;
mod curve_certificate;
#[cfg(feature = "dump")]
pub mod dump;
pub mod eventlog;
mod hostlist;
pub mod idset;
pub mod job;
pub mod job_id;
pub mod jobspec;
pub mod message;
mod redacted;
pub mod resource_set;

pub use curve_certificate::{CertificateError, CurveCertificate};
pub use hostlist::{Hostlist, HostlistError};
pub use redacted::Redacted;
pub use resource_set::RankStatus;
