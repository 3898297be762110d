//! What an API server answers when it does not do what it is asked for.

use serde_json::{Value, json};

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Code of HTTP.
    pub(crate) code: u16,
    reason: &'static str,
    message: String,
}

impl Refusal {
    /// With the reason that usually goes with `code`.
    pub(crate) fn new(code: u16, message: &str) -> Self {
        let reason = match code {
            403 => "Forbidden",
            404 => "NotFound",
            409 => "AlreadyExists",
            422 => "Invalid",
            429 => "TooManyRequests",
            504 => "Timeout",
            _ => "InternalError",
        };
        Self { code, reason, message: message.to_owned() }
    }

    /// The write is about another object, or another version of it, as its `field` says.
    pub(crate) fn conflict(field: &str) -> Self {
        let message = format!("the object has been modified: {field}");
        Self { code: 409, reason: "Conflict", message }
    }

    /// There is nothing.
    pub(crate) fn not_found() -> Self {
        Self::new(404, "not found")
    }

    /// Nobody may change `field` any more.
    pub(crate) fn immutable(field: &str) -> Self {
        Self::new(422, &format!("{field}: field is immutable"))
    }

    /// The object that says so.
    pub(crate) fn status(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        })
    }
}
