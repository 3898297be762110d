//! What a run says of itself while it goes on: its progress and timeline, the socket on which PID 1
//! answers who asks, and the port at which it answers the kubelet.

pub(crate) mod client;
pub(crate) mod document;
pub(crate) mod progress;
pub(crate) mod readiness;
pub(crate) mod server;
pub(crate) mod timing;

pub use client::ask;
pub use document::StatusReport;
pub use readiness::ReadinessServer;
pub use server::StatusServer;
