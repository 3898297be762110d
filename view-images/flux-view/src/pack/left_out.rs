//! What is left out of a view: what nothing in it reads at run time. Pure.

use std::path::Path;

/// Directories of a prefix.
const DIRECTORIES: [&str; 13] = [
    "include",
    "etc/bash_completion.d",
    "lib/cmake",
    "lib/pkgconfig",
    "lib/systemd",
    "lib/tmpfiles.d",
    "lib64/cmake",
    "lib64/pkgconfig",
    "share/bash-completion",
    "share/doc",
    "share/info",
    "share/man",
    "share/pkgconfig",
];
/// Names of directories with tests or with programs to develop with, among Python's own modules.
const PYTHON_DIRECTORIES: [&str; 11] = [
    "test",
    "tests",
    "idlelib",
    "lib2to3",
    "ensurepip",
    "turtledemo",
    "tkinter",
    "pydoc_data",
    "distutils",
    "site-packages",
    "dist-packages",
];
/// What the names of extension modules begin with that bring libraries nobody uses here.
const PYTHON_EXTENSIONS: [&str; 6] = ["_test", "_ctypes_test", "_tkinter", "_dbm", "_gdbm", "nis."];

/// Whether `path`, relative to Flux's prefix, stays behind.
pub(super) fn of_prefix(path: &Path) -> bool {
    DIRECTORIES.iter().any(|directory| path.starts_with(directory))
        || (path.starts_with("share/lua") && has_part(path, |part| part == "fluxometer"))
        || is_for_building(path)
}

/// Whether `path`, relative to the directory of Python's own modules or of one of its packages, stays
/// behind.
pub(super) fn of_python(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    has_part(path, |part| PYTHON_DIRECTORIES.contains(&part) || part.starts_with("config-3"))
        || PYTHON_EXTENSIONS.iter().any(|extension| name.starts_with(extension))
        || ["sitecustomize.py", "EXTERNALLY-MANAGED"].contains(&&*name)
        || is_for_building(path)
}

/// What compilers read, and Python's optimized files, which only `python -O` reads.
fn is_for_building(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [".a", ".la", ".o", ".opt-1.pyc", ".opt-2.pyc"].iter().any(|ending| name.ends_with(ending))
}

fn has_part(path: &Path, matches: impl Fn(&str) -> bool) -> bool {
    path.components().any(|part| part.as_os_str().to_str().is_some_and(&matches))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_stays_and_what_builds_documents_or_tests_is_not() {
        for path in ["include/flux/core.h", "share/man/man1/flux.1", "lib/libflux-core.la"] {
            assert!(of_prefix(Path::new(path)), "{path}");
        }
        for path in ["bin/flux", "lib/libflux-core.so.2", "share/lua/5.1/flux/x.lua", "etc/flux"] {
            assert!(!of_prefix(Path::new(path)), "{path}");
        }
        assert!(of_prefix(Path::new("share/lua/5.1/fluxometer/x.lua")));
    }

    #[test]
    fn compiled_python_stays_unless_only_an_optimized_python_reads_it() {
        assert!(!of_python(Path::new("json/__pycache__/decoder.cpython-311.pyc")));
        assert!(of_python(Path::new("json/__pycache__/decoder.cpython-311.opt-1.pyc")));
    }

    #[test]
    fn pythons_tests_and_tools_stay_behind() {
        for path in [
            "test/support/x.py",
            "ctypes/test/x.py",
            "config-3.11-x86_64-linux-gnu/Makefile",
            "site-packages/pip/x.py",
            "lib-dynload/_testcapi.cpython-311.so",
            "lib-dynload/nis.cpython-311.so",
            "EXTERNALLY-MANAGED",
        ] {
            assert!(of_python(Path::new(path)), "{path}");
        }
        for path in ["unittest/case.py", "lib-dynload/_ctypes.cpython-311.so", "configparser.py"] {
            assert!(!of_python(Path::new(path)), "{path}");
        }
    }
}
