//! `flux-operator ping`: whether an operator is ready behind an address. The chart's `helm test` runs it in a pod that has
//! no rights.

use anyhow::{Context as _, Result};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, timeout};

/// Wait between two attempts, and the time of one.
const INTERVAL: Duration = Duration::from_secs(1);

/// Connects to `address`, for at most `limit`. A Service leads only to operators that are ready.
pub fn ping(address: &str, limit: Duration) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build().context("start a thread")?;
    runtime.block_on(connect(address, limit))
}

async fn connect(address: &str, limit: Duration) -> Result<()> {
    let begin = Instant::now();
    loop {
        let attempt = timeout(INTERVAL, TcpStream::connect(address)).await;
        let Err(error) = attempt.unwrap_or_else(|late| Err(late.into())) else { return Ok(()) };
        if begin.elapsed() >= limit {
            return Err(error).with_context(|| {
                format!(
                    "connect to {address}: no operator is ready there, or a NetworkPolicy keeps this pod from it; \
                     look at the operator's pods and their log"
                )
            });
        }
        sleep(INTERVAL).await;
    }
}
