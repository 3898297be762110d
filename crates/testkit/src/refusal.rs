//! Answers of an API server to requests that it refuses.

use kube::core::Status;
use serde_json::json;

/// The answer; its code is that of HTTP.
pub type Refusal = Box<Status>;

/// A refusal with the reason that usually goes with `code`.
pub(crate) fn refused(code: u16, message: &str) -> Refusal {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "AlreadyExists",
        422 => "Invalid",
        429 => "TooManyRequests",
        504 => "Timeout",
        _ => "InternalError",
    };
    Status::failure(message, reason).with_code(code).boxed()
}

/// The `field` of the object differs from that in the write: it is another object, or another version of it.
pub(crate) fn conflict(field: &str) -> Refusal {
    let message = format!("the object has been modified: {field}");
    Status::failure(&message, "Conflict").with_code(409).boxed()
}

pub(crate) fn not_found() -> Refusal {
    let mut status = refused(404, "not found");
    status.details = serde_json::from_value(json!({ "name": "it", "kind": "object" })).unwrap();
    status
}

/// Nobody may change `field` any more.
pub(crate) fn immutable(field: &str) -> Refusal {
    refused(422, &format!("{field}: field is immutable"))
}
