//! The service job-ingest: the submission of jobs.

use crate::client::socket::{BrokerSocket, Result, field};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Flag of a job that no validator need check (flux-core, `FLUX_JOB_NOVALIDATE` of `src/common/libjob/job.h`).
const NO_VALIDATION: u32 = 8;

/// Submits the job `jobspec` (RFC 25) as the owner of the instance, `uid`, and gives the id of the job. Flux's validators
/// check the job if `is_validated`.
pub async fn submit(
    socket: &mut BrokerSocket,
    jobspec: &Value,
    uid: u32,
    urgency: u64,
    is_validated: bool,
) -> Result<u64> {
    let asked = request(jobspec, uid, urgency, is_validated);
    field(socket.ask_lead("job-ingest.submit", &asked).await?, "id")
}

/// The payload of the request. A job of the owner needs no signature (flux-core, `src/common/libjob/sign_none.c`).
fn request(jobspec: &Value, uid: u32, urgency: u64, is_validated: bool) -> Value {
    let header = format!("version\0i1\0userid\0i{uid}\0mechanism\0snone\0");
    let [header, jobspec] = [header, jobspec.to_string()].map(|text| STANDARD.encode(text));
    let flags = if is_validated { 0 } else { NO_VALIDATION };
    json!({ "J": format!("{header}.{jobspec}.none"), "urgency": urgency, "flags": flags })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_the_instance_needs_no_signature() {
        let jobspec = json!({ "version": 1 });
        let asked = request(&jobspec, 1000, 16, false);
        assert_eq!((&asked["flags"], &asked["urgency"]), (&json!(8), &json!(16)));
        let signed: Vec<_> = asked["J"].as_str().unwrap().split('.').collect();
        let decoded = |part: &str| String::from_utf8(STANDARD.decode(part).unwrap()).unwrap();
        assert_eq!(decoded(signed[0]), "version\0i1\0userid\0i1000\0mechanism\0snone\0");
        assert_eq!((decoded(signed[1]).as_str(), signed[2]), (r#"{"version":1}"#, "none"));
        assert_eq!(request(&jobspec, 1000, 16, true)["flags"], 0);
    }
}
