//! CEL rules about a single field.

use kube::core::{Reason, Rule};

/// A rule that refuses the value of `field`, with this message.
pub(super) fn invalid(field: &str, rule: &str, message: &str) -> Rule {
    Rule::new(rule).message(message).field_path(field).reason(Reason::FieldValueInvalid)
}

/// A rule that requires a value in `field`.
pub(super) fn required(field: &str, rule: &str, message: &str) -> Rule {
    invalid(field, rule, message).reason(Reason::FieldValueRequired)
}
