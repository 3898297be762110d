//! The values that are compiled into the `flux` program, read from its bytes: the program may be for another processor,
//! and is not started.

use flux_agent::linking::Sysroot;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Length below which a text of the program may be one of these values.
const MAX_TEXT_LENGTH: usize = 4096;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Compiled {
    pub(super) version: Option<String>,
    pub(super) python: Option<PathBuf>,
    /// Whether it contains a path below the view's path at run time.
    pub(super) for_view: bool,
}

impl Compiled {
    /// Reads the bytes of `flux`, which is below `view` at run time. Of several texts that could be its version, that is
    /// the version which is also in the bytes of Flux's library `core`.
    pub(super) fn read(flux: &[u8], core: &[u8], view: &Path) -> Self {
        let mut compiled = Self::default();
        let mut versions = BTreeSet::new();
        for text in flux.split(|byte| *byte == 0).filter(|text| text.len() < MAX_TEXT_LENGTH) {
            let Ok(text) = str::from_utf8(text) else { continue };
            if is_version(text) {
                versions.insert(text.to_owned());
            }
            // A search path for libraries is a list of paths.
            let path = Path::new(text.split(':').next().unwrap_or_default());
            if !path.is_absolute() {
                continue;
            }
            compiled.for_view |= path.starts_with(view);
            if compiled.python.is_none() && is_python(path) {
                compiled.python = Some(path.to_owned());
            }
        }
        if versions.len() > 1 {
            versions.retain(|it| core.split(|byte| *byte == 0).any(|text| text == it.as_bytes()));
        }
        compiled.version = versions.pop_first().filter(|_| versions.is_empty());
        compiled
    }

    pub(super) fn core(sysroot: &Sysroot, view: &Path) -> Vec<u8> {
        let directories = ["lib", "lib64"].map(|name| view.join(name)).into_iter();
        let mut libraries = directories.flat_map(|directory| {
            let names = sysroot.names(&directory).into_iter();
            names
                .filter(|name| name.starts_with("libflux-core.so"))
                .map(move |name| directory.join(name))
        });
        libraries.find_map(|library| sysroot.read(&library)).unwrap_or_default()
    }
}

/// Whether a text is a version as `0.88.0` or, between releases, `0.88.0-12-gabcdef012`.
fn is_version(text: &str) -> bool {
    let (numbers, rest) = text.split_once('-').unwrap_or((text, "0"));
    let numbers: Vec<&str> = numbers.split('.').collect();
    let is_number =
        |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    numbers.len() == 3 && numbers.iter().all(is_number) && rest.bytes().all(plain)
}

fn is_python(path: &Path) -> bool {
    let in_bin = path.parent().is_some_and(|parent| parent.ends_with("bin"));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    in_bin && (name == "python3" || python_version(name).is_some())
}

pub(super) fn pythons_of_flux(sysroot: &Sysroot, view: &Path) -> Vec<String> {
    let mut names = sysroot.names(&view.join("lib/flux"));
    names.retain(|name| python_version(name).is_some());
    names
}

pub(super) fn python_version(name: &str) -> Option<&str> {
    let version = name.strip_prefix("python")?;
    let minor = version.strip_prefix("3.")?;
    (!minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit())).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads texts separated by `|` instead of the zero bytes in a program.
    fn read(texts: &str) -> Compiled {
        let core = b"9.9.9\x000.88.0\x001.2\0";
        Compiled::read(texts.replace('|', "\0").as_bytes(), core, Path::new("/mnt/flux/view"))
    }

    #[test]
    fn version_python_and_prefix_are_found_among_other_texts() {
        let flux = "\u{7f}ELF|/mnt/flux/view/lib:/x|GLIBC_2.2.5|python3.%d|\
                    /mnt/flux/view/bin/python3|1.2.3|0.88.0|4.5.6|";
        let expected = Compiled {
            version: Some("0.88.0".to_owned()),
            python: Some("/mnt/flux/view/bin/python3".into()),
            for_view: true,
        };
        assert_eq!(read(flux), expected);
    }

    #[test]
    fn a_flux_for_another_prefix_is_recognized() {
        let other = read("/usr/bin/python3.12|/mnt/flux/viewer/etc|0.66.0-3-gabc|");
        assert!(!other.for_view);
        assert_eq!(other.python.unwrap(), Path::new("/usr/bin/python3.12"));
        assert_eq!(other.version.unwrap(), "0.66.0-3-gabc");
        assert_eq!(read("1.2.3|4.5.6").version, None);
        assert_eq!(read("1.2|1.2.3.4|a.b.c|/usr/share/python3|"), Compiled::default());
    }
}
