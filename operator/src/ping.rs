//! `flux-operator ping`: whether an operator is ready behind an address. The chart's `helm test` runs it in a pod that has
//! no rights.

use anyhow::{Context as _, Result};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Wait between two attempts, and the time of one.
const INTERVAL: Duration = Duration::from_secs(1);

/// Connects to `address`, for at most `limit`. A Service leads only to operators that are ready.
pub fn ping(address: &str, limit: Duration) -> Result<()> {
    let begin = Instant::now();
    while let Err(error) = connect(address) {
        if begin.elapsed() >= limit {
            return Err(error).with_context(|| {
                format!(
                    "connect to {address}: no operator is ready there, or a NetworkPolicy keeps this pod from it; \
                     look at the operator's pods and their log"
                )
            });
        }
        sleep(INTERVAL);
    }
    Ok(())
}

fn connect(address: &str) -> std::io::Result<()> {
    let mut addresses = address.to_socket_addrs()?;
    addresses.try_for_each(|it| TcpStream::connect_timeout(&it, INTERVAL).map(drop))
}
