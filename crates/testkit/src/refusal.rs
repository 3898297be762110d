//! What an API server answers when it does not do what it is asked for.

use kube::core::Status;

/// The answer; its code is that of HTTP.
pub(crate) type Refusal = Box<Status>;

/// With the reason that usually goes with `code`.
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

/// The write is about another object, or another version of it, as its `field` says.
pub(crate) fn conflict(field: &str) -> Refusal {
    let message = format!("the object has been modified: {field}");
    Status::failure(&message, "Conflict").with_code(409).boxed()
}

pub(crate) fn not_found() -> Refusal {
    refused(404, "not found")
}

/// Nobody may change `field` any more.
pub(crate) fn immutable(field: &str) -> Refusal {
    refused(422, &format!("{field}: field is immutable"))
}
