//! Recognizes the MPI of a program by its libraries.
//!
//! Open MPI 5 finds other ranks only by PMIx. Open MPI 4 has a component for Flux's own PMI, and MPICH and its derivatives
//! have a client of it. Both releases of Open MPI have a `libmpi.so.40`; their portability layers differ:
//! `libopen-pal.so.40`, and from 5.0 on `libopen-pal.so.80`.

use super::elf::Elf;
use super::libraries::Libraries;
use super::sysroot::Sysroot;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The first version of Open MPI's portability layer that supports PMIx alone.
const OPEN_MPI_5: u32 = 80;

/// The MPI of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mpi {
    /// Open MPI 5 or newer.
    OpenMpi5,
    /// No MPI, but a client of PMIx.
    Pmix,
    /// Another MPI, which Flux's own PMI serves.
    Other,
    /// The program is not linked to any. A script or an interpreter may load one.
    Unknown,
}

/// The MPI of the program at `program` in a process with this `LD_LIBRARY_PATH`.
pub fn mpi_of(sysroot: &Sysroot, program: &Path, library_path: &str) -> Mpi {
    let headers = sysroot.read(program).and_then(|data| Elf::read(&*data).ok());
    let Some(elf) = headers else { return Mpi::Unknown };
    let libraries = Libraries::new(sysroot, elf.machine, Vec::new()).with_path(library_path);
    let inherited = if elf.runpath.is_empty() { elf.rpath.clone() } else { Vec::new() };
    let (mut seen, mut todo) = (BTreeSet::new(), vec![(program.to_owned(), elf)]);
    while let Some((path, elf)) = todo.pop() {
        for name in &elf.needed {
            if seen.insert(name.clone())
                && let Ok(library) = libraries.find(name, &path, &elf, &inherited)
            {
                todo.push((library.path, library.elf));
            }
        }
    }
    of_libraries(&seen)
}

fn of_libraries(names: &BTreeSet<String>) -> Mpi {
    let has = |prefix: &str| names.iter().any(|name| name.starts_with(prefix));
    if names.iter().any(|name| is_open_mpi_5(name)) {
        Mpi::OpenMpi5
    } else if has("libmpi") {
        Mpi::Other
    } else if has("libpmix.so") {
        Mpi::Pmix
    } else {
        Mpi::Unknown
    }
}

/// Whether `library` is the portability layer of Open MPI 5 or a newer one.
fn is_open_mpi_5(library: &str) -> bool {
    let version = library.strip_prefix("libopen-pal.so.");
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    major.is_some_and(|major| major >= OPEN_MPI_5)
}

/// Whether a program in `sysroot` with this `LD_LIBRARY_PATH` would find the libraries of Open MPI 5.
pub fn has_open_mpi_5(sysroot: &Sysroot, library_path: &str) -> bool {
    let own = library_path.split(':').filter(|entry| entry.starts_with('/')).map(PathBuf::from);
    let mut directories = own.chain(Libraries::names_of_directories(sysroot));
    directories.any(|directory| sysroot.names(&directory).iter().any(|name| is_open_mpi_5(name)))
}
