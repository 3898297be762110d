//! The user that Flux runs as: finding or making its account in the image's own user database, and
//! becoming it. Nothing here knows of Flux but that user.

pub(crate) mod become_user;
pub(crate) mod ensure;
pub(crate) mod passwd;

pub use passwd::Databases;
