//! Changes the headers of programs and libraries, and the first lines of scripts, so that they find interpreter and
//! libraries in the view.

use flux_agent::linking::Elf;
use object_rewrite::{Options, Rewriter};
use std::error::Error;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) interpreter: Option<String>,
    /// The new search path for libraries (`DT_RPATH`), which replaces all others.
    pub(super) search_path: Option<String>,
    /// Whether to remove the sections that only debuggers read.
    pub(super) strip: bool,
}

impl Change {
    /// The change that `elf` needs to run in a view with this loader and this search path.
    ///
    /// The `DT_RPATH` of a program also applies to all libraries that it loads. So a library needs one only if it has a
    /// path of its own, which comes first. Correct values are not written again: a file that was packed before may have
    /// no space for them.
    pub(super) fn of(elf: &Elf, interpreter: &str, search_path: &str) -> Self {
        let has_path = !elf.rpath.is_empty() || !elf.runpath.is_empty();
        let searches = |directory: &str| elf.rpath.iter().any(|entry| entry == directory);
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

/// Applies `change` to `data`, which has the headers `elf`, and checks the result.
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

/// The part of the headers that is wrong `after` the change of a file, compared with the headers `before`.
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

/// The new first line of a script for a line as `#!/usr/bin/env python3 -s`, or `None` if the line can stay. The error is
/// the interpreter that the view lacks. `inside` returns the path of an interpreter in the view by its name.
pub(super) fn first_line(
    line: &str,
    view: &Path,
    inside: impl Fn(&str) -> Option<PathBuf>,
) -> Result<Option<String>, PathBuf> {
    let words = line.strip_prefix("#!").unwrap_or_default().split_whitespace();
    let mut words = words.skip_while(|word| Path::new(word).ends_with("env") || *word == "-S");
    let program = Path::new(words.next().unwrap_or_default());
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // The interpreter `false` prevents that a script is started.
    if name.is_empty() || program.starts_with(view) || name == "false" {
        return Ok(None);
    }
    let interpreter = inside(name).ok_or_else(|| program.to_owned())?.display().to_string();
    let words: Vec<&str> = [interpreter.as_str()].into_iter().chain(words).collect();
    // The kernel passes all that follows the interpreter as one argument.
    if words.len() > 2 {
        Err(program.to_owned())
    } else {
        Ok(Some(format!("#!{}", words.join(" "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: &str = "/mnt/flux/view";

    fn line(text: &str) -> Result<Option<String>, PathBuf> {
        first_line(text, Path::new(VIEW), |name| {
            name.starts_with("python3").then(|| Path::new(VIEW).join("bin/python3"))
        })
    }

    #[test]
    fn scripts_use_interpreters_of_the_view() {
        let changed = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(line("#!/usr/bin/env python3"), changed("#!/mnt/flux/view/bin/python3"));
        assert_eq!(line("#! /usr/bin/python3.11 -s"), changed("#!/mnt/flux/view/bin/python3 -s"));
        let of_env = line("#!/usr/bin/env -S python3 -s");
        assert_eq!(of_env, changed("#!/mnt/flux/view/bin/python3 -s"));
        assert_eq!(line("#!/usr/bin/env -S python3 -m x"), Err("python3".into()));
        for text in ["#!/bin/false", "#!/mnt/flux/view/bin/python3", "# text", "#!"] {
            assert_eq!(line(text), Ok(None), "{text}");
        }
        assert_eq!(line("#!/usr/bin/perl -w"), Err("/usr/bin/perl".into()));
    }

    #[test]
    fn libraries_are_changed_only_if_they_have_a_path() {
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
}
