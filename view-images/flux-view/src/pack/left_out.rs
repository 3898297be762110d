//! The files that are left out of a view, as nothing in it reads them at run time.

use std::path::Path;

const DIRECTORIES: &str = "include etc/bash_completion.d lib/cmake lib/pkgconfig lib/systemd lib/tmpfiles.d lib64/cmake \
     lib64/pkgconfig share/bash-completion share/doc share/info share/man share/pkgconfig";
/// Directories of tests and development tools among Python's own modules.
const PYTHON_DIRECTORIES: &str = "test tests idlelib lib2to3 ensurepip turtledemo tkinter pydoc_data distutils site-packages \
     dist-packages";
/// Prefixes of extension modules whose libraries Flux does not use.
const PYTHON_EXTENSIONS: [&str; 6] = ["_test", "_ctypes_test", "_tkinter", "_dbm", "_gdbm", "nis."];

pub(super) fn of_prefix(path: &Path) -> bool {
    DIRECTORIES.split(' ').any(|directory| path.starts_with(directory))
        || (path.starts_with("share/lua") && has_part(path, |part| part == "fluxometer"))
        || is_for_building(path)
}

/// Whether `path`, relative to the directory of Python's own modules or of a package, is left out.
pub(super) fn of_python(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    has_part(path, |part| {
        PYTHON_DIRECTORIES.split(' ').any(|directory| directory == part)
            || part.starts_with("config-3")
    }) || PYTHON_EXTENSIONS.iter().any(|extension| name.starts_with(extension))
        || ["sitecustomize.py", "EXTERNALLY-MANAGED"].contains(&&*name)
        || is_for_building(path)
}

/// Whether only compilers read the file, or only `python -O`, which reads Python's optimized files.
fn is_for_building(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [".a", ".la", ".o", ".opt-1.pyc", ".opt-2.pyc"].iter().any(|ending| name.ends_with(ending))
}

fn has_part(path: &Path, matches: impl Fn(&str) -> bool) -> bool {
    path.components().any(|part| part.as_os_str().to_str().is_some_and(&matches))
}
