//! `flux-view pack` and `flux-view check` with a small program in place of Flux: it contains a version, a prefix and the
//! path of a Python, and has a library of its own. The compiler that links these tests builds it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FLUX: &str = r#"
#include <stdio.h>
int helper(void);
int main(void) { return printf("%s %s\n", "/mnt/flux/view/bin/python3", "0.88.0") < helper(); }
"#;
const HELPER: &str = "int helper(void) { return 1; }";
const PREFIX: &str = "mnt/flux/view";

/// A directory with the root of a build container and the root of the packed image.
struct BuildContainer(tempfile::TempDir);

impl BuildContainer {
    /// A container with Flux, Python, bash and their libraries.
    fn new() -> Self {
        let build = Self(tempfile::tempdir().unwrap());
        let bash = fs::canonicalize("/bin/bash").unwrap();
        for file in libraries(&bash) {
            build.copy(&file, file.strip_prefix("/").unwrap());
        }
        let helper = build.place("usr/lib/libhelper.so.1");
        compile(HELPER, &helper, &["-shared", "-fPIC", "-Wl,-soname,libhelper.so.1"]);
        let flux = build.place(Path::new(PREFIX).join("bin/flux"));
        compile(FLUX, &flux, &["-g3", helper.to_str().unwrap()]);
        build.copy(&bash, "usr/bin/bash");
        build.copy(&bash, "usr/bin/python3.11");
        build.link("usr/bin/python3", "python3.11");
        for module in [
            "os.py",
            "json/__init__.py",
            "json/__pycache__/decoder.cpython-311.opt-1.pyc",
            "lib-dynload/_testcapi.cpython-311.so",
            "test/test_os.py",
            "config-3.11-x/Makefile",
        ] {
            build.file(&format!("usr/lib/python3.11/{module}"), "# a module\n", 0o644);
        }
        for package in ["yaml", "cffi", "ply", "pip"] {
            let path = format!("usr/lib/python3/dist-packages/{package}/__init__.py");
            build.file(&path, "# a package\n", 0o644);
        }
        let extension = "usr/lib/python3.11/dist-packages/_cffi_backend.cpython-311.so";
        compile(HELPER, &build.place(extension), &["-shared", "-fPIC", helper.to_str().unwrap()]);
        build.installed("libexec/flux/cmd/flux-hello", "#!/bin/sh\necho hello from $BASH\n", 0o750);
        build.installed("libexec/flux/cmd/flux-jobs.py", "#!/usr/bin/env python3 -s\n", 0o755);
        build.installed("lib/python3.11/site-packages/flux/__init__.py", "# Flux\n", 0o600);
        build.installed("lib/python3.11/site-packages/_flux/__init__.py", "", 0o644);
        build.link(
            &format!("{PREFIX}/lib/flux/python3.11/flux"),
            "/mnt/flux/view/lib/python3.11/site-packages/flux",
        );
        build.link(&format!("{PREFIX}/bin/python3"), "/usr/bin/python3");
        for useless in ["include/flux/core.h", "lib/libflux-core.la", "share/man/man1/flux.1"] {
            build.installed(useless, "useless", 0o644);
        }
        build
    }

    /// The same, after a view was packed from it.
    fn with_view() -> Self {
        let build = Self::new();
        build.pack(&[], 0);
        build
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    fn image(&self) -> PathBuf {
        self.0.path().join("image")
    }

    fn packed(&self, path: &str) -> PathBuf {
        self.image().join(PREFIX).join(path)
    }

    fn place(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn copy(&self, from: &Path, to: impl AsRef<Path>) {
        fs::copy(from, self.place(to)).unwrap();
    }

    fn file(&self, path: &str, content: &str, mode: u32) {
        let path = self.place(path);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }

    fn installed(&self, path: &str, content: &str, mode: u32) {
        self.file(&format!("{PREFIX}/{path}"), content, mode);
    }

    fn link(&self, path: &str, target: &str) {
        symlink(target, self.place(path)).unwrap();
    }

    fn remove(&self, path: &str) {
        let path = self.root().join(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }

    fn pack_from(&self, from: &str, more: &[&str]) -> Output {
        let mut command = flux_view("pack");
        command.args(["--from", from]).args(more);
        command.arg("--root").arg(self.root()).arg("--to").arg(self.image()).output().unwrap()
    }

    /// Runs `flux-view pack`, which has to end with `code`, and returns its output or, if it failed, its errors.
    fn pack(&self, more: &[&str], code: i32) -> String {
        let output = self.pack_from("/mnt/flux/view", more);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let text = if code == 0 { &output.stdout } else { &output.stderr };
        String::from_utf8_lossy(text).into_owned()
    }

    /// Runs `program` of the packed view with nothing else in the file system. Prints why and returns `None` if this user
    /// may not change the root directory.
    fn run_alone(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new("chroot");
        command.arg(self.image()).arg(format!("/{PREFIX}/{program}")).args(arguments);
        let output =
            command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap();
        if String::from_utf8_lossy(&output.stderr).contains("cannot change root directory") {
            let skipped = "skipped: only root can take another root directory";
            let _ = writeln!(std::io::stderr(), "{skipped}");
            return None;
        }
        assert!(output.status.success(), "{program}: {output:?}");
        Some(String::from_utf8(output.stdout).unwrap())
    }
}

fn flux_view(subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flux-view"));
    command.arg(subcommand);
    command
}

fn compile(source: &str, to: &Path, arguments: &[&str]) {
    let text = to.with_extension("c");
    fs::write(&text, source).unwrap();
    let mut compiler = Command::new("cc");
    let output = compiler.arg("-o").arg(to).arg(&text).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    fs::remove_file(text).unwrap();
}

/// The loader and the libraries of `program`, as this machine's own loader finds them.
fn libraries(program: &Path) -> BTreeSet<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(PathBuf::from).collect()
}

/// The findings of `flux-view check` by what was checked, after it ended with `code`.
fn check(root: &Path, application: Option<&Path>, code: i32) -> BTreeMap<String, String> {
    let mut command = flux_view("check");
    command.arg(root).args(["--output", "json"]);
    if let Some(application) = application {
        command.arg("--application").arg(application);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let text = |result: &Value, key: &str| result[key].as_str().unwrap().to_owned();
    found.iter().map(|result| (text(result, "name"), text(result, "finding"))).collect()
}

#[test]
fn a_packed_view_runs_without_any_other_files() {
    let build = BuildContainer::with_view();
    let Some(text) = build.run_alone("bin/flux", &[]) else { return };
    assert_eq!(text, "/mnt/flux/view/bin/python3 0.88.0\n");
    let shell = build.run_alone("bin/bash", &["-c", "echo $((40 + 2))"]);
    assert_eq!(shell.as_deref(), Some("42\n"));
    let hello = build.run_alone("libexec/flux/cmd/flux-hello", &[]);
    assert_eq!(hello.as_deref(), Some("hello from /mnt/flux/view/bin/sh\n"));
}

#[test]
fn the_view_has_only_what_flux_needs() {
    let build = BuildContainer::new();
    let report = build.pack(&["--output", "json"], 0);
    for path in [
        "bin/bash",
        "lib/libc.so.6",
        "lib/python3.11/os.py",
        "lib/python3.11/yaml/__init__.py",
        "lib/python3.11/_cffi_backend.cpython-311.so",
        "lib/python3.11/site-packages/flux/__init__.py",
    ] {
        assert!(build.packed(path).is_file(), "{path}");
    }
    let python =
        ["dist-packages", "test", "config-3.11-x", "pip", "json/__pycache__", "lib-dynload"];
    let python = python.map(|module| format!("lib/python3.11/{module}"));
    for path in ["include", "share", "lib/libflux-core.la"].map(str::to_owned).iter().chain(&python)
    {
        assert!(!build.packed(path).exists(), "{path}");
    }
    let target = |path: &str| fs::read_link(build.packed(path)).unwrap();
    assert_eq!(target("lib/python3.11/yaml"), Path::new("flux-packages/yaml"));
    assert_eq!(target("bin/python3"), Path::new("python3.11"));
    assert_eq!(target("bin/sh"), Path::new("bash"));
    let target_at_run_time = "/mnt/flux/view/lib/python3.11/site-packages/flux";
    assert_eq!(target("lib/flux/python3.11/flux"), Path::new(target_at_run_time));
    let jobs = fs::read_to_string(build.packed("libexec/flux/cmd/flux-jobs.py")).unwrap();
    assert_eq!(jobs, "#!/mnt/flux/view/bin/python3.11 -s\n");
    let size = |path: PathBuf| fs::metadata(path).unwrap().len();
    let with_debug_sections = size(build.root().join(PREFIX).join("bin/flux"));
    assert!(size(build.packed("bin/flux")) < with_debug_sections);

    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["flux"], "0.88.0");
    // Three files of Flux, four of Python, and the extension module, which is collected by its name.
    assert_eq!(report["left_out"]["files"], 8);
    assert!(report["parts"]["c-library"]["bytes"].as_u64().unwrap() > 1_000_000, "{report}");
    let parts = report["parts"].as_object().unwrap().values();
    let files: u64 = parts.map(|part| part["files"].as_u64().unwrap()).sum();
    assert_eq!(report["total"]["files"], files);
    assert_eq!(report["warnings"].as_array().unwrap().len(), 0, "{report}");
}

#[test]
fn packages_that_a_newer_flux_imports_are_packed() {
    let build = BuildContainer::new();
    for (package, text) in
        [("newer", "from .part import base\nimport needed\n"), ("needed", ""), ("optional", "")]
    {
        let path = format!("usr/lib/python3/dist-packages/{package}/__init__.py");
        build.file(&path, text, 0o644);
    }
    let module =
        "import os, newer.part as part\ntry:\n    import optional\nexcept ImportError:\n    pass\n";
    build.installed("lib/python3.11/site-packages/flux/__init__.py", module, 0o644);
    build.pack(&[], 0);
    let is_packed = |package| build.packed("lib/python3.11").join(package).exists();
    assert_eq!(["newer", "needed", "optional"].map(is_packed), [true, true, false]);
}

/// The output of `script` in an image's Python, with the view's modules of Flux and the packages in `own`. Prints why and
/// returns `None` if this machine has no Python.
fn run_in_image_python(build: &BuildContainer, own: &Path, script: &str) -> Option<String> {
    let modules = build.packed("lib/python3.11/site-packages");
    let path = format!("{}:{}", modules.display(), own.display());
    // Without this machine's own packages.
    let Ok(output) =
        Command::new("python3").args(["-S", "-c", script]).env("PYTHONPATH", path).output()
    else {
        let _ = writeln!(std::io::stderr(), "skipped: this machine has no Python");
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn image_packages_come_before_those_of_the_view() {
    let build = BuildContainer::with_view();
    let own = tempfile::tempdir().unwrap();
    fs::create_dir(own.path().join("yaml")).unwrap();
    fs::write(own.path().join("yaml/__init__.py"), "# the image's\n").unwrap();
    let script = "import _flux, cffi, yaml; print(cffi.__file__); print(yaml.__file__)";
    let Some(printed) = run_in_image_python(&build, own.path(), script) else { return };
    let of_view = build.packed("lib/python3.11/flux-packages/cffi/__init__.py");
    let of_image = own.path().join("yaml/__init__.py");
    let expected =
        [of_view, of_image].map(|path| fs::canonicalize(path).unwrap().display().to_string());
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    // A program that does not import Flux finds no packages of the view.
    let script = "import importlib.util; print(importlib.util.find_spec('cffi'))";
    assert_eq!(run_in_image_python(&build, own.path(), script).unwrap(), "None\n");
}

/// The program that loads the module may not belong to the view.
#[test]
fn an_extension_module_finds_its_libraries_in_the_view() {
    let build = BuildContainer::with_view();
    let module = build.packed("lib/python3.11/_cffi_backend.cpython-311.so");
    let headers = Command::new("readelf").arg("-d").arg(module).output().unwrap();
    let headers = String::from_utf8(headers.stdout).unwrap();
    assert!(headers.contains("Library rpath: [/mnt/flux/view/lib]"), "{headers}");
}

#[test]
fn a_flux_without_its_first_module_gives_a_warning() {
    let build = BuildContainer::new();
    build.remove(&format!("{PREFIX}/lib/python3.11/site-packages/_flux"));
    let report = build.pack(&[], 0);
    assert!(report.contains("warning: Flux has no _flux/__init__.py"), "{report}");
}

#[test]
fn every_user_can_read_and_only_the_owner_write() {
    let build = BuildContainer::new();
    build.installed("etc/flux/open", "", 0o666);
    build.pack(&[], 0);
    for (path, expected) in [
        ("libexec/flux/cmd/flux-hello", 0o755),
        ("lib/python3.11/site-packages/flux/__init__.py", 0o644),
        ("etc/flux/open", 0o644),
        ("lib/python3.11", 0o755),
    ] {
        let mode = fs::metadata(build.packed(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, expected, "{path}");
    }
    // Python compares the times of its modules.
    let time = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    let module = "lib/python3.11/json/__init__.py";
    assert_eq!(time(build.packed(module)), time(build.root().join("usr").join(module)));
}

#[test]
fn a_staged_installation_is_packed() {
    let build = BuildContainer::new();
    fs::create_dir_all(build.root().join("stage/mnt")).unwrap();
    fs::rename(build.root().join("mnt/flux"), build.root().join("stage/mnt/flux")).unwrap();
    let output = build.pack_from("/stage/mnt/flux/view", &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(build.packed("lib/libc.so.6").is_file());
}

#[test]
fn a_packed_view_can_be_extended_and_packed_again() {
    let build = BuildContainer::with_view();
    build.remove(PREFIX);
    fs::rename(build.image().join(PREFIX), build.root().join(PREFIX)).unwrap();
    build.installed("libexec/flux/cmd/flux-more", "#!/bin/bash\necho more\n", 0o755);
    build.pack(&[], 0);
    if let Some(text) = build.run_alone("libexec/flux/cmd/flux-more", &[]) {
        assert_eq!(text, "more\n");
    }
}

#[test]
fn all_faults_are_reported_and_nothing_is_written() {
    let build = BuildContainer::new();
    build.remove("usr/bin/bash");
    build.remove("usr/lib/python3/dist-packages/yaml");
    build.remove("usr/lib/libhelper.so.1");
    let text = build.pack(&[], 66);
    for part in [
        "fault: there is no bash",
        "remedy: install bash",
        "fault: python3.11 has no package yaml",
        "remedy: install the packages cffi, PyYAML and ply",
        "fault: bin/flux needs libhelper.so.1, which is not in /",
        "/usr/lib,",
        "/etc/ld.so.conf",
        "nothing was packed; faults: 3",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!build.image().exists());
}

#[test]
fn a_flux_for_another_prefix_is_refused() {
    let text = BuildContainer::new().pack(&["--mount-path", "/srv/flux"], 66);
    assert!(text.contains("flux looks for nothing below /srv/flux/view"), "{text}");
    assert!(text.contains("flux starts its commands with /mnt/flux/view/bin/python3"), "{text}");
}

#[test]
fn an_existing_view_is_replaced_only_by_force() {
    let build = BuildContainer::new();
    fs::create_dir_all(build.packed("bin")).unwrap();
    fs::write(build.packed("bin/old"), "").unwrap();
    let refused = build.pack(&[], 66);
    assert!(refused.contains("is not empty"), "{refused}");
    assert!(build.packed("bin/old").exists());
    build.pack(&["--force"], 0);
    assert!(!build.packed("bin/old").exists() && build.packed("bin/flux").exists());
    let names = fs::read_dir(build.image().join("mnt/flux")).unwrap().count();
    assert_eq!(names, 1);
}

#[test]
fn only_a_packed_view_runs_in_every_image() {
    let build = BuildContainer::with_view();
    let empty = tempfile::tempdir().unwrap();
    let found = check(&build.image(), Some(empty.path()), 0);
    assert!(found.values().all(|finding| finding == "ok"), "{found:?}");

    let unpacked = build.0.path().join("unpacked");
    fs::create_dir_all(unpacked.join("mnt/flux")).unwrap();
    fs::rename(build.root().join(PREFIX), unpacked.join(PREFIX)).unwrap();
    for (path, mode) in [
        ("lib/python3.11/site-packages/flux/__init__.py", 0o644),
        ("libexec/flux/cmd/flux-hello", 0o755),
    ] {
        let path = unpacked.join(PREFIX).join(path);
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    assert_eq!(check(&unpacked, Some(&build.root()), 0)["libraries"], "warning");
    let found = check(&unpacked, Some(empty.path()), 1);
    for name in ["loader", "C library", "shell", "python"] {
        assert_eq!(found[name], "failed", "{found:?}");
    }
    let found = check(&unpacked, None, 0);
    for name in ["loader", "shell"] {
        assert_eq!(found[name], "warning", "an unknown application may have it: {found:?}");
    }
}

#[test]
fn files_that_only_their_owner_reads_are_found() {
    let build = BuildContainer::new();
    assert_eq!(check(&build.root(), Some(&build.root()), 1)["access"], "failed");
}

#[test]
fn an_image_without_flux_fails_the_check() {
    let empty = tempfile::tempdir().unwrap();
    let output = flux_view("check").arg(empty.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("FAILED   view           no Flux in /opt/views/._view"), "{text}");
    assert!(text.contains("remedy: "), "{text}");
    assert_eq!(flux_view("check").output().unwrap().status.code(), Some(64));
}

#[test]
fn a_missing_installation_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = flux_view("pack");
    let output = command.args(["--from", "/absent", "--to"]).arg(empty.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(66));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/absent"), "{output:?}");
}
