//! Changing the headers of programs and libraries, and the first lines of scripts, so that they find
//! interpreter and libraries within the view.

use flux_agent::linking::Elf;
use object_rewrite::{Options, Rewriter};
use std::error::Error;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// The loader that is to start it.
    pub(super) interpreter: Option<String>,
    /// Where its libraries are to be searched for (`DT_RPATH`, in the place of all it has).
    pub(super) search_path: Option<String>,
    /// Whether to leave out what only debuggers read.
    pub(super) strip: bool,
}

impl Change {
    /// What `elf` needs to run in a view with this loader and this search path.
    ///
    /// A program hands its `DT_RPATH` down to all that it loads, so a library needs one only where it has
    /// a path of its own, which would count before that. What is right already stays: in a view that was
    /// packed before there may be no room for more.
    pub(super) fn of(elf: &Elf, interpreter: &str, search_path: &str) -> Self {
        let has_path = !elf.rpath.is_empty() || !elf.runpath.is_empty();
        let searches = |directory: &str| elf.rpath.iter().any(|it| it == directory);
        let is_right = elf.runpath.is_empty() && search_path.split(':').all(searches);
        let other = elf.interpreter.as_ref().filter(|own| *own != interpreter);
        let needs_path = (elf.interpreter.is_some() || has_path) && !is_right;
        Self {
            interpreter: other.map(|_| interpreter.to_owned()),
            search_path: needs_path.then(|| search_path.to_owned()),
            strip: !elf.strippable.is_empty(),
        }
    }

    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// `data` with the headers `elf`, changed as `change` says, and checked.
pub(super) fn changed(data: &[u8], elf: &Elf, change: &Change) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut options = Options::default();
    if change.strip {
        options.delete_sections = elf.strippable.iter().map(|name| name.clone().into()).collect();
    }
    if let Some(path) = &change.search_path {
        options.elf.delete_runpath = true;
        options.elf.set_runpath = Some(path.clone().into());
        options.elf.use_rpath = true;
    }
    options.elf.set_interpreter = change.interpreter.clone().map(String::into_bytes);
    let mut rewriter = Rewriter::read(data)?;
    rewriter.modify(options)?;
    let mut written = Vec::with_capacity(data.len());
    rewriter.write(&mut written)?;
    let after = Elf::read(&*written).map_err(|_| "the changed file cannot be read")?;
    lost(elf, change, &after)
        .map_or(Ok(written), |lost| Err(format!("the changed file lost its {lost}").into()))
}

/// What of a file as it was `before` is not as it should be in the file `after` the change.
fn lost(before: &Elf, change: &Change, after: &Elf) -> Option<&'static str> {
    let interpreter = change.interpreter.as_ref().or(before.interpreter.as_ref());
    let path = change.search_path.as_ref().map(|path| path.split(':').collect::<Vec<_>>());
    let same = [
        ("interpreter", after.interpreter.as_ref() == interpreter),
        ("search path", path.is_none_or(|path| after.rpath == path && after.runpath.is_empty())),
        ("name", after.soname == before.soname),
        ("libraries", after.needed == before.needed),
        ("versions", after.needed_versions == before.needed_versions),
        ("own versions", after.defined_versions == before.defined_versions),
    ];
    same.into_iter().find_map(|(what, same)| (!same).then_some(what))
}

/// What the first line of a script, as `#!/usr/bin/env python3 -s`, is to be instead, if it cannot stay; or
/// the interpreter that the view has not. `inside` gives the path in the view of an interpreter by its name.
pub(super) fn first_line(
    line: &str,
    view: &Path,
    inside: impl Fn(&str) -> Option<PathBuf>,
) -> Result<Option<String>, PathBuf> {
    let words = line.strip_prefix("#!").unwrap_or_default().split_whitespace();
    let mut words = words.skip_while(|word| Path::new(word).ends_with("env"));
    let program = Path::new(words.next().unwrap_or_default());
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // Scripts that are not to be started say so with `false`.
    if name.is_empty() || program.starts_with(view) || name == "false" {
        return Ok(None);
    }
    let interpreter = inside(name).ok_or_else(|| program.to_owned())?.display().to_string();
    let words: Vec<&str> = [interpreter.as_str()].into_iter().chain(words).collect();
    Ok(Some(format!("#!{}", words.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    const VIEW: &str = "/mnt/flux/view";

    fn line(text: &str) -> Result<Option<String>, PathBuf> {
        first_line(text, Path::new(VIEW), |name| {
            name.starts_with("python3").then(|| Path::new(VIEW).join("bin/python3"))
        })
    }

    #[test]
    fn scripts_are_started_by_what_is_in_the_view() {
        let changed = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(line("#!/usr/bin/env python3"), changed("#!/mnt/flux/view/bin/python3"));
        assert_eq!(line("#! /usr/bin/python3.11 -s"), changed("#!/mnt/flux/view/bin/python3 -s"));
        for text in ["#!/bin/false", "#!/mnt/flux/view/bin/python3", "# text", "#!"] {
            assert_eq!(line(text), Ok(None), "{text}");
        }
        assert_eq!(line("#!/usr/bin/perl -w"), Err("/usr/bin/perl".into()));
    }

    #[test]
    fn programs_get_loader_and_path_and_libraries_only_what_hides_that_path() {
        let list = |text: &str| vec![text.to_owned()];
        let program = Elf { interpreter: Some("/lib64/ld".to_owned()), ..Elf::default() };
        let change = Change::of(&program, "/v/ld", "/v/lib");
        assert_eq!(change.interpreter.as_deref(), Some("/v/ld"));
        assert_eq!(change.search_path.as_deref(), Some("/v/lib"));
        assert!(Change::of(&Elf::default(), "/v/ld", "/v/lib").is_none());
        let library = Elf { runpath: list("/usr/x"), ..Elf::default() };
        let change = Change::of(&library, "/v/ld", "/v/lib");
        assert_eq!((change.interpreter, change.search_path), (None, Some("/v/lib".to_owned())));
    }

    #[test]
    fn what_was_packed_before_stays_as_it_is() {
        let mut packed = Elf {
            interpreter: Some("/v/ld".to_owned()),
            rpath: ["/v/lib", "/v/lib/flux"].map(str::to_owned).to_vec(),
            ..Elf::default()
        };
        assert!(Change::of(&packed, "/v/ld", "/v/lib").is_none());
        assert!(!Change::of(&packed, "/v/ld", "/v/lib:/v/more").is_none());
        packed.runpath = vec!["/v/lib".to_owned()];
        assert!(!Change::of(&packed, "/v/ld", "/v/lib").is_none());
    }

    #[test]
    fn a_shell_with_other_headers_still_runs() {
        let data = fs::read(fs::canonicalize("/bin/sh").unwrap()).unwrap();
        let elf = Elf::read(&*data).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let loader = directory.path().join("a/loader/with/a/longer/path/than/before");
        fs::create_dir_all(loader.parent().unwrap()).unwrap();
        fs::copy(elf.interpreter.as_ref().unwrap(), &loader).unwrap();
        let change = Change {
            interpreter: Some(loader.display().to_string()),
            search_path: Some("/nothing/here:/nor/here".to_owned()),
            strip: true,
        };
        let written = changed(&data, &elf, &change).unwrap();
        let shell = directory.path().join("sh");
        fs::write(&shell, &written).unwrap();
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new(&shell).args(["-c", "echo $((40 + 2))"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n", "{output:?}");
        // It is that loader which has started it.
        fs::remove_file(&loader).unwrap();
        assert!(Command::new(&shell).arg("-c").arg("true").output().is_err());
    }
}
