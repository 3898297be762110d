//! The libraries of a program, found as the dynamic loader finds them, without starting the program.

mod elf;
mod libraries;
mod mpi;
mod sysroot;

pub use elf::{Elf, is_elf, is_of_c_library, machine_name};
pub use libraries::{Libraries, newest};
pub use mpi::{Mpi, has_open_mpi_5, mpi_of};
pub use sysroot::Sysroot;
