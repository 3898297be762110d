//! What a run reports while it goes on: its progress and timeline, the file in which other processes read them, the port at
//! which PID 1 answers the kubelet, and the lock that shows that it runs.

pub(crate) mod document;
pub(crate) mod file;
pub(crate) mod progress;
pub(crate) mod readiness;
pub(crate) mod runner_lock;
pub(crate) mod timing;

pub use document::StatusReport;
pub use readiness::ReadinessServer;
