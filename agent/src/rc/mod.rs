//! rc1 and rc3 of a broker: loads and removes its modules as flux-modprobe(1) does, but without Python.
//!
//! Flux runs a Python program at the start and at the end of every broker, which takes half a second of a processor each
//! time. The agent takes their place for those releases of Flux whose rc files it was compared with ([`release`]). It
//! reads the modules from `modprobe.toml` and `modprobe.d` of the view. Where it finds anything unknown, it runs Flux's
//! own program.

mod broker;
mod order;
mod release;
mod runner;
mod steps;
mod task;

pub(crate) use release::options;
pub(crate) use runner::{Rc, run};
