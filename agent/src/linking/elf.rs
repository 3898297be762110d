//! The headers of a program or a library that determine how it is loaded.

use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, ELFMAG, FileHeader64, SHF_ALLOC};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::read::{ReadRef, StringTable};
use std::collections::BTreeSet;

/// The parts of the C library, including the loader. They have to come from one build.
const C_LIBRARY: [&str; 14] = [
    "ld-linux",
    "libBrokenLocale",
    "libanl",
    "libc",
    "libc_malloc_debug",
    "libdl",
    "libm",
    "libmvec",
    "libnss_",
    "libpthread",
    "libresolv",
    "librt",
    "libthread_db",
    "libutil",
];

/// The headers of a program or a library.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elf {
    /// The processor (`e_machine`).
    pub machine: u16,
    /// The loader, which only a program has.
    pub interpreter: Option<String>,
    /// The name of a library (`DT_SONAME`).
    pub soname: Option<String>,
    /// The needed libraries (`DT_NEEDED`).
    pub needed: Vec<String>,
    /// The search path for libraries, and for the libraries of those (`DT_RPATH`).
    pub rpath: Vec<String>,
    /// The search path for the needed libraries alone (`DT_RUNPATH`).
    pub runpath: Vec<String>,
    /// The needed versions of symbols of the C library, as `GLIBC_2.34`.
    pub needed_versions: BTreeSet<String>,
    /// The versions of symbols that the file defines.
    pub defined_versions: BTreeSet<String>,
    /// Names of sections that only debuggers read.
    pub strippable: BTreeSet<String>,
}

/// Whether `data` is an ELF file, by its first bytes.
pub fn is_elf(data: &[u8]) -> bool {
    data.starts_with(&ELFMAG)
}

/// Whether the library `name` is a part of the C library.
pub fn is_of_c_library(name: &str) -> bool {
    C_LIBRARY.iter().any(|part| {
        let rest = name.strip_prefix(part);
        rest.is_some_and(|rest| part.ends_with('_') || rest.starts_with(['.', '-']))
    })
}

/// The name of the processor, as `uname -m` has it.
pub fn machine_name(machine: u16) -> String {
    match machine {
        object::elf::EM_X86_64 => "x86_64".to_owned(),
        object::elf::EM_AARCH64 => "aarch64".to_owned(),
        other => format!("machine {other}"),
    }
}

impl Elf {
    /// Reads the headers in `data`, a file or its bytes.
    pub fn read<'data>(data: impl ReadRef<'data>) -> object::Result<Self> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let mut elf = Self { machine: header.e_machine(endian), ..Self::default() };
        for segment in header.program_headers(endian, data)? {
            if let Some(interpreter) = segment.interpreter(endian, data)? {
                elf.interpreter = Some(text(interpreter));
            }
        }
        let sections = header.sections(endian, data)?;
        for section in sections.iter() {
            let name = text(sections.section_name(endian, section)?);
            if section.sh_flags(endian) & u64::from(SHF_ALLOC) == 0 && is_strippable(&name) {
                elf.strippable.insert(name);
            }
        }
        if let Some((entries, strings)) = sections.dynamic(endian, data)? {
            let strings = sections.section(strings)?.data(endian, data)?;
            let strings = StringTable::new(strings, 0, strings.len() as u64);
            for entry in entries.iter().filter(|entry| entry.is_string(endian)) {
                let value = || entry.string(endian, strings).map(text);
                match entry.tag32(endian) {
                    Some(DT_NEEDED) => elf.needed.push(value()?),
                    Some(DT_SONAME) => elf.soname = Some(value()?),
                    Some(DT_RPATH) => elf.rpath.extend(list(&value()?)),
                    Some(DT_RUNPATH) => elf.runpath.extend(list(&value()?)),
                    Some(_) | None => {}
                }
            }
        }
        if let Some((mut files, strings)) = sections.gnu_verneed(endian, data)? {
            let strings = sections.strings(endian, data, strings)?;
            while let Some((file, mut versions)) = files.next()? {
                if !is_of_c_library(&text(file.file(endian, strings)?)) {
                    continue;
                }
                while let Some(version) = versions.next()? {
                    elf.needed_versions.insert(text(version.name(endian, strings)?));
                }
            }
        }
        if let Some((mut definitions, strings)) = sections.gnu_verdef(endian, data)? {
            let strings = sections.strings(endian, data, strings)?;
            while let Some((_, mut names)) = definitions.next()? {
                if let Some(name) = names.next()? {
                    elf.defined_versions.insert(text(name.name(endian, strings)?));
                }
            }
        }
        Ok(elf)
    }
}

fn is_strippable(name: &str) -> bool {
    name.starts_with(".debug") || name == ".gdb_index"
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn list(path: &str) -> Vec<String> {
    path.split(':').filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_shell_has_a_loader_and_a_c_library() {
        let data = fs::read(fs::canonicalize("/bin/sh").unwrap()).unwrap();
        assert!(is_elf(&data) && !is_elf(b"#!/bin/sh"));
        let elf = Elf::read(&*data).unwrap();
        assert_eq!(machine_name(elf.machine), std::env::consts::ARCH);
        assert!(elf.interpreter.unwrap().contains("/ld-linux"));
        assert!(elf.needed.contains(&"libc.so.6".to_owned()), "{:?}", elf.needed);
        assert!(elf.needed_versions.iter().any(|version| version.starts_with("GLIBC_2.")));
    }

    #[test]
    fn half_a_file_is_an_error() {
        assert!(Elf::read(&b"\x7fELF\x02\x01\x01"[..]).is_err());
    }

    #[test]
    fn all_parts_of_the_c_library_are_known() {
        for name in ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libnss_dns.so.2"] {
            assert!(is_of_c_library(name), "{name}");
        }
        for name in ["libcap.so.2", "libcrypt.so.1", "libmd.so.0", "libgcc_s.so.1", "libutils.so"] {
            assert!(!is_of_c_library(name), "{name}");
        }
    }
}
