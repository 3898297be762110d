//! Requests that are repeated when a connection breaks or the API server is away.

use crate::error::{is_temporary, line};
use crate::output::print_stderr;
use anyhow::{Error, Result};
use kube::client::UpgradeConnectionError;
use std::io;
use std::mem::replace;
use std::time::Duration;
use tokio::time::sleep;

/// Time between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the API server may refuse a request after a connection has broken.
const REFUSAL_LIMIT: u32 = 10;

/// Acts at most so many `times` until the API server answers, and prints once that it acts again (`doing`), and why.
pub(crate) async fn repeated<T>(
    times: u32,
    doing: &str,
    mut act: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let (mut is_away, mut refusals) = (false, 0);
    for _ in 1..times {
        match act().await {
            Err(error) if is_of_connection(&error) => {
                if !replace(&mut is_away, true) {
                    print_stderr(&format!("{}; {doing}", line(&error)));
                }
            }
            // An API server that has just started may refuse what it allowed before.
            Err(error) if is_away && refusals < REFUSAL_LIMIT && is_refusal(&error) => {
                refusals += 1;
            }
            ended => return ended,
        }
        sleep(PAUSE).await;
    }
    act().await
}

/// Whether an error comes from the connection to the API server or to a program, so that another attempt may succeed.
pub(crate) fn is_of_connection(error: &Error) -> bool {
    error.chain().any(|cause| {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return error.kind() == io::ErrorKind::ConnectionAborted;
        }
        match cause.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) => is_temporary(status),
            Some(kube::Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(code))) => {
                code.is_server_error()
            }
            Some(_) => true,
            None => false,
        }
    })
}

pub(crate) fn is_refusal(error: &Error) -> bool {
    let is_api = |cause: &kube::Error| matches!(cause, kube::Error::Api(_));
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_api))
}
