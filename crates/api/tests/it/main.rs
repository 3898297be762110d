//! Specifications: the definition, the rules, the objects that they become, and the page about them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod bounds;
mod build;
mod crd;
mod every_field;
mod files;
mod go_examples;
mod properties;
mod reference;
mod renders;
mod support;
mod validate;
