//! By what the tasks of a program find each other, as far as its libraries tell.
//!
//! Open MPI 5 finds other ranks by PMIx alone. Open MPI 4 has a component for Flux's own PMI, and MPICH and its kin have
//! a client of it. The two Open MPIs have one name (`libmpi.so.40`), and differ in that of their portability layer:
//! `libopen-pal.so.40` and, from 5.0 on, `libopen-pal.so.80`.

use super::elf::Elf;
use super::libraries::Libraries;
use super::sysroot::Sysroot;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The first version of Open MPI's portability layer without a client for any PMI but PMIx.
const OPEN_MPI_5: u32 = 80;

/// The MPI of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mpi {
    /// Open MPI 5 or newer.
    OpenMpi5,
    /// None, but it asks a PMIx server itself.
    Pmix,
    /// Another one: it is left to Flux's own PMI.
    Other,
    /// It is linked to none. What a script or an interpreter loads is not known.
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

/// Whether Open MPI 5 is among the libraries that every program in `sysroot` finds, or one with this `LD_LIBRARY_PATH`.
pub fn has_open_mpi_5(sysroot: &Sysroot, library_path: &str) -> bool {
    let own = library_path.split(':').filter(|entry| entry.starts_with('/')).map(PathBuf::from);
    let mut directories = own.chain(Libraries::names_of_directories(sysroot));
    directories.any(|directory| sysroot.names(&directory).iter().any(|name| is_open_mpi_5(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_tell_the_mpi() {
        for (libraries, mpi) in [
            (&["libmpi.so.40", "libopen-pal.so.80", "libpmix.so.2"][..], Mpi::OpenMpi5),
            (&["libmpi.so.40", "libopen-rte.so.40", "libopen-pal.so.40"], Mpi::Other),
            (&["libmpich.so.12", "libpmix.so.2", "libc.so.6"], Mpi::Other),
            (&["libpmix.so.2", "libc.so.6"], Mpi::Pmix),
            (&["libopen-pal.so", "libc.so.6"], Mpi::Unknown),
        ] {
            let names = libraries.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(of_libraries(&names), mpi, "{libraries:?}");
        }
    }
}
