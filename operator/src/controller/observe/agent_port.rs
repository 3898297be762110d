//! Requests to the agent of a pod, at the port where the kubelet asks it whether the pod is ready.

use anyhow::{Context as _, Result, anyhow};
use flux_contract::invocation::READY_PORT;
use flux_contract::obstacle::{OBSTACLE_PATH, Obstacle};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::Pod;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

/// Timeout for the connection, where a response may take longer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a reconcile waits for an answer that is only part of a message.
const OBSTACLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Most bytes of a response that are read.
const RESPONSE_LIMIT: usize = 16 * 1024;

/// Where the agent of `pod` listens.
pub(super) fn address_of(pod: &Pod) -> Option<SocketAddr> {
    let address = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
    Some(SocketAddr::new(address, READY_PORT))
}

/// What keeps the broker of `pod` from its lead; `None` also where the agent does not answer, or is of an older release.
pub(super) async fn obstacle(pod: &Pod) -> Option<Obstacle> {
    obstacle_at(address_of(pod)?).await
}

async fn obstacle_at(address: SocketAddr) -> Option<Obstacle> {
    let (code, body) = ask(address, OBSTACLE_PATH, OBSTACLE_TIMEOUT).await.ok()?;
    (code == StatusCode::OK).then(|| serde_json::from_slice(&body).ok()).flatten()
}

/// The response to a request of `path`, which has to come within `time`.
pub(super) async fn ask(
    address: SocketAddr,
    path: &str,
    time: Duration,
) -> Result<(StatusCode, Bytes)> {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECTION_TIMEOUT));
    let client = Client::builder(TokioExecutor::new()).build::<_, Empty<Bytes>>(connector);
    let answered = async {
        let response = client.get(format!("http://{address}{path}").parse()?).await?;
        let code = response.status();
        let body = Limited::new(response.into_body(), RESPONSE_LIMIT).collect().await;
        let body = body.map_err(|error| anyhow!("read the response: {error}"))?;
        Ok((code, body.to_bytes()))
    };
    timeout(time, answered).await.context("no response in time")?
}

#[cfg(test)]
mod tests {
    use super::*;
    use flux_contract::obstacle::ObstacleCause;
    use std::net::Ipv4Addr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn an_obstacle_is_what_the_agent_answers() {
        let text = r#"{"cause":"port","message":"refused"}"#;
        let port = Obstacle { cause: ObstacleCause::Port, message: "refused".to_owned() };
        for (code, body, expected) in [
            ("200 OK", text, Some(port)),
            ("204 No Content", "", None),
            ("404 Not Found", text, None),
            ("200 OK", "no JSON", None),
        ] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let length = body.len();
            let response = format!("HTTP/1.1 {code}\r\nContent-Length: {length}\r\n\r\n{body}");
            let served = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let read = stream.read(&mut [0; 1024]).await.unwrap();
                stream.write_all(response.as_bytes()).await.unwrap();
                read
            };
            let (found, read) = tokio::join!(obstacle_at(address), served);
            assert_eq!(found, expected, "{code} {body}");
            assert!(read > 0);
            drop(listener);
            assert_eq!(obstacle_at(address).await, None, "nothing listens");
        }
    }
}
