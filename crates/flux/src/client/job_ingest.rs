//! The service job-ingest: the submission of jobs.

use crate::client::socket::{BrokerSocket, SocketError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

/// Flag of a job that no validator need check (flux-core, `FLUX_JOB_NOVALIDATE` of `src/common/libjob/job.h`).
const NO_VALIDATION: u32 = 8;

/// A job to submit.
#[derive(Debug)]
pub struct Submission {
    /// What to run (RFC 25).
    pub jobspec: Value,
    /// Who submits the job: the owner of the instance.
    pub uid: u32,
    /// From 0, which holds the job, to 31.
    pub urgency: u64,
    /// The validators of Flux check the job.
    pub is_validated: bool,
}

#[derive(Deserialize)]
struct Submitted {
    id: u64,
}

impl Submission {
    /// The payload of the request. A job of the owner of the instance needs no signature (flux-core,
    /// `src/common/libjob/sign_none.c`).
    fn request(&self) -> Value {
        let header = format!("version\0i1\0userid\0i{}\0mechanism\0snone\0", self.uid);
        let encode = |text: &str| STANDARD.encode(text);
        let signed = format!("{}.{}.none", encode(&header), encode(&self.jobspec.to_string()));
        let flags = if self.is_validated { 0 } else { NO_VALIDATION };
        json!({ "J": signed, "urgency": self.urgency, "flags": flags })
    }
}

/// Submits a job, and gives its id.
pub async fn submit(
    socket: &mut BrokerSocket,
    submission: &Submission,
) -> Result<u64, SocketError> {
    let Submitted { id } = socket.ask_lead("job-ingest.submit", &submission.request()).await?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_the_instance_needs_no_signature() {
        let mut submission = Submission {
            jobspec: json!({ "version": 1 }),
            uid: 1000,
            urgency: 16,
            is_validated: false,
        };
        let asked = submission.request();
        assert_eq!((&asked["flags"], &asked["urgency"]), (&json!(8), &json!(16)));
        let signed: Vec<_> = asked["J"].as_str().unwrap().split('.').collect();
        let decoded = |part: &str| String::from_utf8(STANDARD.decode(part).unwrap()).unwrap();
        assert_eq!(decoded(signed[0]), "version\0i1\0userid\0i1000\0mechanism\0snone\0");
        assert_eq!((decoded(signed[1]).as_str(), signed[2]), (r#"{"version":1}"#, "none"));
        submission.is_validated = true;
        assert_eq!(submission.request()["flags"], 0);
    }
}
