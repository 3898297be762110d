//! The user that Flux runs as: finds or creates its account in the image's user database, and becomes it.

pub(crate) mod become_user;
pub(crate) mod capabilities;
pub(crate) mod ensure;
pub(crate) mod passwd;

pub use passwd::Databases;
