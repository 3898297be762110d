//! Finds libraries as the dynamic loader does (`ld.so(8)`).
//!
//! The loader searches in this order: `DT_RPATH` of the file that needs the library and of the program, unless that file
//! has a `DT_RUNPATH`; `LD_LIBRARY_PATH` of the process; that `DT_RUNPATH`; the directories of `/etc/ld.so.conf`, from which
//! the loader's cache is made; the loader's own directories.

use super::elf::{Elf, machine_name};
use super::sysroot::Sysroot;
use object::read::ReadCache;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The libraries of a file system.
pub struct Libraries<'sysroot> {
    sysroot: &'sysroot Sysroot,
    machine: u16,
    /// The directories of `LD_LIBRARY_PATH`.
    process: Vec<PathBuf>,
    /// The directories for every program.
    directories: Vec<PathBuf>,
    /// The possible values of `$LIB`.
    library_names: [String; 2],
}

/// A library that was found.
#[derive(Debug, Clone)]
pub struct Library {
    /// Its path, after all links.
    pub path: PathBuf,
    /// Its headers.
    pub elf: Elf,
}

impl<'sysroot> Libraries<'sysroot> {
    /// The libraries for the processor `machine`. The `extra` directories are searched after all others.
    pub fn new(sysroot: &'sysroot Sysroot, machine: u16, extra: Vec<PathBuf>) -> Self {
        let library_names =
            [format!("lib/{}-linux-gnu", machine_name(machine)), "lib64".to_owned()];
        let configuration = Path::new("/etc/ld.so.conf");
        let mut directories = configured(sysroot, configuration, &mut BTreeSet::new());
        for name in library_names.iter().map(String::as_str).chain(["lib"]) {
            directories.extend([Path::new("/").join(name), Path::new("/usr").join(name)]);
        }
        directories.extend(extra);
        Self { sysroot, machine, process: Vec::new(), directories, library_names }
    }

    /// Sets `LD_LIBRARY_PATH`. Empty and relative entries are ignored.
    #[must_use]
    pub fn with_path(self, path: &str) -> Self {
        let entries = path.split([':', ';']).filter(|entry| entry.starts_with('/'));
        Self { process: entries.map(PathBuf::from).collect(), ..self }
    }

    /// The loader's directories in `sysroot`, for all processors.
    pub fn names_of_directories(sysroot: &Sysroot) -> Vec<PathBuf> {
        let names = sysroot.names(Path::new("/usr/lib"));
        let architectures = names.iter().filter(|name| name.ends_with("-linux-gnu"));
        let directories = architectures.map(|name| Path::new("/usr/lib").join(name));
        directories.chain(["/usr/lib64".into(), "/usr/lib".into()]).collect()
    }

    /// The library `name` that the file at `path` with the headers `elf` needs, in a process whose program has the `DT_RPATH`
    /// `inherited`. The error has the directories that were searched.
    pub fn find(
        &self,
        name: &str,
        path: &Path,
        elf: &Elf,
        inherited: &[String],
    ) -> Result<Library, Vec<PathBuf>> {
        if name.contains('/') {
            return self.library(Path::new(name)).ok_or_else(Vec::new);
        }
        let origin = path.parent().unwrap_or(path);
        let mut directories = self.own_directories(elf, inherited, origin);
        directories.extend(self.directories.iter().cloned());
        let found = directories.iter().find_map(|directory| self.library(&directory.join(name)));
        found.ok_or(directories)
    }

    /// The directories that the headers of a file in `origin` and the process add.
    fn own_directories(&self, elf: &Elf, inherited: &[String], origin: &Path) -> Vec<PathBuf> {
        let hands_down = elf.runpath.is_empty();
        let before = elf.rpath.iter().chain(inherited).filter(|_| hands_down);
        let expand = |entry: &String| expanded(entry, origin, &self.library_names);
        let after = elf.runpath.iter().flat_map(expand);
        before.flat_map(expand).chain(self.process.iter().cloned()).chain(after).collect()
    }

    /// The library at `path`, if it is one for this processor. The loader skips others.
    fn library(&self, path: &Path) -> Option<Library> {
        let file = ReadCache::new(File::open(self.sysroot.file(path)?).ok()?);
        let elf = Elf::read(&file).ok().filter(|elf| elf.machine == self.machine)?;
        Some(Library { path: self.sysroot.resolve(path).ok()?, elf })
    }
}

/// The directories of an entry of a search path. An entry that is relative, or has a token for the kind of the processor,
/// has none.
fn expanded(entry: &str, origin: &Path, library_names: &[String]) -> Vec<PathBuf> {
    let origin = origin.display().to_string();
    let entry = entry.replace("${", "$").replace('}', "").replace("$ORIGIN", &origin);
    let names = library_names.iter().map(|name| entry.replace("$LIB", name));
    let names = names.filter(|directory| directory.starts_with('/') && !directory.contains('$'));
    let mut directories: Vec<PathBuf> = names.map(PathBuf::from).collect();
    directories.dedup();
    directories
}

/// The directories that `file` and the included files configure, in their order. Files may include each other: `done` files
/// are skipped.
fn configured(sysroot: &Sysroot, file: &Path, done: &mut BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    let text = done.insert(file.to_owned()).then(|| sysroot.read(file)).flatten();
    for line in String::from_utf8_lossy(&text.unwrap_or_default()).lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let included = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t']));
        if let Some(pattern) = included {
            let pattern = file.parent().unwrap_or(file).join(pattern.trim());
            for file in matching(sysroot, &pattern) {
                directories.extend(configured(sysroot, &file, done));
            }
        } else {
            let entries = line.split([' ', '\t', ',', ':']).filter(|entry| entry.starts_with('/'));
            directories.extend(entries.map(PathBuf::from));
        }
    }
    directories
}

/// The files that `pattern` names; its file name may have one `*`.
fn matching(sysroot: &Sysroot, pattern: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy();
    let Some((start, end)) = name.split_once('*') else { return vec![pattern.to_owned()] };
    let mut names = sysroot.names(directory);
    names.retain(|name| name.starts_with(start) && name.ends_with(end));
    names.iter().map(|name| directory.join(name)).collect()
}

/// The newest of `versions` as `GLIBC_2.34`, by their numbers. Versions without numbers, as `GLIBC_PRIVATE`, are ignored.
pub fn newest<'a>(versions: impl IntoIterator<Item = &'a String>) -> Option<&'a str> {
    let numbered = versions.into_iter().filter_map(|version| {
        let numbers = version.strip_prefix("GLIBC_")?.split('.').map(|part| part.parse().ok());
        Some((numbers.collect::<Option<Vec<u32>>>()?, version.as_str()))
    });
    numbered.collect::<BTreeMap<_, _>>().pop_last().map(|(_, version)| version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const NAMES: [&str; 2] = ["lib/x86_64-linux-gnu", "lib64"];

    fn expand(entry: &str) -> Vec<PathBuf> {
        expanded(entry, Path::new("/view/bin"), &NAMES.map(str::to_owned))
    }

    #[test]
    fn tokens_of_a_search_path_are_replaced() {
        assert_eq!(expand("$ORIGIN/../lib"), [Path::new("/view/bin/../lib")]);
        assert_eq!(expand("${ORIGIN}"), [Path::new("/view/bin")]);
        let both = ["/usr/lib/x86_64-linux-gnu/x", "/usr/lib64/x"].map(PathBuf::from);
        assert_eq!(expand("/usr/$LIB/x"), both);
        assert!(expand("$PLATFORM/x").is_empty() && expand("lib").is_empty());
    }

    #[test]
    fn a_runpath_replaces_the_rpath_of_the_program() {
        let sysroot = Sysroot::default();
        let libraries = Libraries::new(&sysroot, object::elf::EM_X86_64, Vec::new());
        let list = |text: &str| vec![text.to_owned()];
        let mut elf = Elf { rpath: list("/own"), ..Elf::default() };
        let own = |elf: &Elf| libraries.own_directories(elf, &list("/program"), Path::new("/"));
        assert_eq!(own(&elf), ["/own", "/program"].map(PathBuf::from));
        elf.runpath = list("/run");
        assert_eq!(own(&elf), [PathBuf::from("/run")]);
        let libraries = libraries.with_path("/process::relative");
        let own = libraries.own_directories(&elf, &list("/program"), Path::new("/"));
        assert_eq!(own, ["/process", "/run"].map(PathBuf::from));
    }

    #[test]
    fn the_loaders_configuration_is_read_with_what_it_includes() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("etc/ld.so.conf", "include ld.so.conf.d/*.conf # all\n/last\n");
        write("etc/ld.so.conf.d/b.conf", "/b\n# /no\nhwcap 1 nosegneg\n");
        write("etc/ld.so.conf.d/a.conf", "/a:/a2\ninclude /etc/ld.so.conf\n");
        write("etc/ld.so.conf.d/note.txt", "/never\n");
        let sysroot = Sysroot { root: Some(root.path().to_owned()), ..Sysroot::default() };
        let found = configured(&sysroot, Path::new("/etc/ld.so.conf"), &mut BTreeSet::new());
        assert_eq!(found, ["/a", "/a2", "/b", "/last"].map(PathBuf::from));
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let versions = ["GLIBC_2.9", "GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_PRIVATE", "OTHER_3"];
        assert_eq!(newest(&versions.map(str::to_owned)), Some("GLIBC_2.34"));
        assert_eq!(newest(&[]), None);
    }
}
