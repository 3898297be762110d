//! The named queues of an instance (flux-config-queues(5)). Flux leaves them stopped until somebody starts them, and a
//! job in a queue that is stopped waits without a word.

use crate::flux::broker_socket::{BrokerAddress, SocketError};
use serde::Deserialize;
use serde_json::json;

/// Of the answer of `job-manager.queue-list` (flux-core, `src/modules/job-manager/queue.c`).
#[derive(Deserialize)]
struct List {
    queues: Vec<String>,
}

/// Starts all named queues, and gives their names.
pub(crate) async fn start_all(broker: &BrokerAddress) -> Result<Vec<String>, SocketError> {
    let mut socket = broker.connect().await?;
    let List { queues } = socket.ask_lead("job-manager.queue-list", &json!({})).await?;
    if !queues.is_empty() {
        let start = json!({ "all": true, "start": true });
        let () = socket.ask_lead("job-manager.queue-start", &start).await?;
    }
    Ok(queues)
}
