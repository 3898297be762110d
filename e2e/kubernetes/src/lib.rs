//! A real Kubernetes on a bare machine: [`kubernetes`] starts one of one node or a few, [`images`] makes container
//! images without a registry, and the [`cache`] keeps what takes long to make. `fs_err` handles files, because its
//! errors name the path.
#![expect(missing_docs, reason = "only tests use this, and most names need no comment")]

pub mod architecture;
pub mod cache;
pub mod images;
pub mod kubernetes;
pub mod packages;
mod prelude;
pub mod programs;
pub mod progress;
pub mod wait;
