//! rc1 and rc3: a broker's modules are loaded and removed, as flux-modprobe(1) does it, but without Python.
//!
//! Flux's own takes a Python program for the start and one for the end of every broker, each half a second of a
//! processor. This does the same for releases of Flux whose rc files it has been compared with ([`release`]), and
//! reads the view's `modprobe.toml` and `modprobe.d` for what is to be loaded. At anything that it does not know, Flux
//! does it itself.

mod broker;
mod order;
mod runner;
mod release;
mod steps;
mod task;

pub(crate) use runner::{Rc, run};
pub(crate) use release::options;
