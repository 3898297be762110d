//! The choice of a PMI for a job: the script that Flux's shell runs, with a simulated shell, the real agent, and programs that
//! are linked to libraries with the names of Open MPI 5.

use crate::prelude::*;
use mlua::{Lua, Table};

const AGENT: &str = env!("CARGO_BIN_EXE_flux-agent");

/// A directory with programs, libraries and, if asked for, the plugin of the shell.
struct Scene(tempfile::TempDir);

/// The results of the script: the option `pmi` of the job, the loaded plugin, and the reason why it ended the shell.
type Made = [Option<String>; 3];

impl Scene {
    fn new() -> Self {
        let scene = Self(tempfile::Builder::new().prefix("it's ").tempdir().unwrap());
        scene.library("libopen-pal.so.80", &[]);
        scene.library("libmpi.so.40", &["libopen-pal.so.80"]);
        scene.program("app", &["libmpi.so.40"]);
        scene.program("plain", &[]);
        scene
    }

    fn library(&self, name: &str, needed: &[&str]) {
        let soname = format!("-Wl,-soname,{name}");
        self.compile(name, &["-shared", "-fPIC", &soname], needed);
    }

    fn program(&self, name: &str, needed: &[&str]) {
        self.compile(name, &["-Wl,-rpath,$ORIGIN"], needed);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn compile(&self, to: &str, options: &[&str], needed: &[&str]) {
        let source = self.path("empty.c");
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let mut compiler = Command::new("cc");
        compiler.arg(&source).args(options).arg("-Wl,--no-as-needed");
        compiler.args(needed.iter().map(|name| self.path(name))).arg("-o").arg(self.path(to));
        assert!(compiler.status().unwrap().success(), "{to}");
    }

    fn run(&self, command: &[&str], tasks: u32, option: Option<&str>) -> Made {
        self.run_in(&[], &[], command, tasks, option).0
    }

    /// Runs the script for a job, with its `option` for the PMI and this directory as the search path for plugins. Also
    /// returns Open MPI's variable `OMPI_MCA_mtl`.
    fn run_in(
        &self,
        files: &[(&str, &str)],
        variables: &[(&str, &str)],
        command: &[&str],
        tasks: u32,
        option: Option<&str>,
    ) -> (Made, Option<String>) {
        let lua = Lua::new();
        let table = |pairs: &[(&str, &str)]| lua.create_table_from(pairs.iter().copied()).unwrap();
        let command = lua.create_sequence_from(command.iter().copied()).unwrap();
        let task = lua.create_table_from([("command", command)]).unwrap();
        let all = lua.create_sequence_from([task]).unwrap();
        let info = lua.create_table_from([("jobspec", table(&[]))]).unwrap();
        info.get::<Table>("jobspec").unwrap().set("tasks", all).unwrap();
        info.set("ntasks", tasks).unwrap();
        let options = lua.create_table_from([("pmi", option)]).unwrap();
        let directory = self.0.path().display().to_string();
        let paths = [("PATH", &*directory), ("LD_LIBRARY_PATH", "")];
        let environment = table(&[&paths, variables].concat());
        let made = table(&[]);
        let globals = lua.globals();
        for (name, value) in [
            ("info", info),
            ("options", options.clone()),
            ("environment", environment.clone()),
            ("files", table(files)),
            ("made", made.clone()),
        ] {
            globals.set(name, value).unwrap();
        }
        globals.set("plugin", table(&[("searchpath", &directory)])).unwrap();
        let shell = "shell = { info = info, options = options }\n\
                     function shell.getenv (name) return environment[name] end\n\
                     function shell.setenv (name, value) environment[name] = value end\n\
                     function shell.die (why) made.died = why end\n\
                     function io.open (path)\n\
                         local text = files[path]\n\
                         if not text then return nil, \"missing\" end\n\
                         return { lines = function () return text:gmatch (\"[^\\n]+\") end }\n\
                     end\n\
                     function plugin.load (spec) made.loaded = spec.file end\n";
        lua.load(shell).exec().unwrap();
        lua.load(script(false)).exec().unwrap();
        let [loaded, died] = ["loaded", "died"].map(|name| made.get(name).unwrap());
        let made = [options.get("pmi").unwrap(), loaded, died];
        (made, environment.get("OMPI_MCA_mtl").unwrap())
    }
}

fn script(has_own_cores: bool) -> String {
    let script = include_str!("../../src/program/mpi.lua");
    let script = script.replace("@AGENT@", &format!("{AGENT:?}"));
    script.replace("@OWN_CORES@", &has_own_cores.to_string())
}

fn some(texts: [&str; 2]) -> Made {
    let [pmi, loaded] = texts.map(|text| Some(text.to_owned()).filter(|it| !it.is_empty()));
    [pmi, loaded, None]
}

#[test]
fn tasks_are_bound_to_own_cores_or_by_option() {
    for (has_own_cores, asked, expected) in [
        (true, None, None),
        (false, None, Some("off")),
        (false, Some("per-task"), Some("per-task")),
        (true, Some("off"), Some("off")),
    ] {
        let lua = Lua::new();
        let options = lua.create_table_from([("cpu-affinity", asked)]).unwrap();
        lua.globals().set("options", &options).unwrap();
        let shell = "shell = { options = options, info = { ntasks = 1 } }\n\
                     function shell.getenv () return '' end\n";
        lua.load(shell).exec().unwrap();
        lua.load(script(has_own_cores)).exec().unwrap();
        let affinity: Option<String> = options.get("cpu-affinity").unwrap();
        assert_eq!(affinity.as_deref(), expected, "{has_own_cores} {asked:?}");
    }
}

#[test]
fn open_mpi_5_gets_a_pmix_server_or_is_refused() {
    let scene = Scene::new();
    let program = scene.path("app").display().to_string();
    let run = |command: &[&str], tasks, option| scene.run(command, tasks, option);
    assert_eq!(run(&[&program], 1, None), some(["", ""]), "a lone task needs no other");
    for command in [&[&*program][..], &["/usr/bin/env", "A=b", "app"], &["sh", "-c", "true; app"]] {
        let [_, loaded, died] = run(command, 2, None);
        let why = died.unwrap();
        assert!(why.contains("app is linked to Open MPI 5, whose ranks find each other"), "{why}");
        assert!(why.contains("Use a view with flux-pmix"), "{why}");
        assert_eq!(loaded, None);
    }
    assert_eq!(run(&[&program], 2, Some("off")), some(["off", ""]));
    let [.., died] = run(&[&program], 1, Some("simple,pmix"));
    assert!(died.unwrap().starts_with("the option pmi=simple,pmix needs flux-pmix"));

    fs::write(scene.path("pmix.so"), "").unwrap();
    assert_eq!(run(&[&program], 2, None), some(["pmix", "pmix.so"]));
    for asked in ["off", "simple", "pmix", "simple,pmix"] {
        assert_eq!(run(&[&program], 2, Some(asked)), some([asked, ""]));
    }
    assert_eq!(run(&["/bin/flux", "broker"], 2, None), some(["", ""]), "brokers");
}

#[test]
fn only_clients_of_pmix_alone_need_its_server() {
    let scene = Scene::new();
    for name in ["libpmix.so.2", "libopen-pal.so.40", "libopen-pal.so"] {
        scene.library(name, &[]);
    }
    scene.library("libmpich.so.12", &["libpmix.so.2"]);
    scene.program("client", &["libpmix.so.2"]);
    scene.program("mpich", &["libmpich.so.12"]);
    scene.library("libmpi.so.40", &["libopen-pal.so.40"]);
    scene.program("open-mpi-4", &["libmpi.so.40"]);
    scene.program("unversioned", &["libopen-pal.so"]);
    let run = |program| scene.run(&[program], 2, None);
    let [_, loaded, died] = run("client");
    let why = died.unwrap();
    assert!(why.contains("client is linked to PMIx, whose ranks find each other"), "{why}");
    assert_eq!(loaded, None);
    assert_eq!(run("unversioned"), some(["", ""]));
    fs::write(scene.path("pmix.so"), "").unwrap();
    assert_eq!(run("client"), some(["pmix", "pmix.so"]));
    for program in ["mpich", "open-mpi-4"] {
        assert_eq!(run(program), some(["", ""]), "{program}");
    }
}

#[test]
fn programs_that_may_load_open_mpi_5_get_both_servers() {
    let scene = Scene::new();
    fs::write(scene.path("pmix.so"), "").unwrap();
    let directory = scene.0.path().display().to_string();
    let run = || scene.run_in(&[], &[("LD_LIBRARY_PATH", &directory)], &["plain"], 2, None).0;
    assert_eq!(run(), some(["simple,pmix", "pmix.so"]));
    fs::remove_file(scene.path("pmix.so")).unwrap();
    assert_eq!(run(), some(["", ""]));
}

#[test]
fn open_mpi_does_not_load_networks_without_devices() {
    let scene = Scene::new();
    let of = |files: &[_], variables: &[_]| scene.run_in(files, variables, &["plain"], 1, None).1;
    let package = |text| ("/etc/openmpi/openmpi-mca-params.conf", text);
    let debian = package("# mtl = a\nbtl = ^uct\n mtl = ^ofi \npml = ^ucx\n");
    assert_eq!(of(&[debian], &[]).as_deref(), Some("^ofi,psm,psm2"));
    assert_eq!(of(&[package("mtl=^ofi\nmtl=^a,b")], &[]).as_deref(), Some("^a,b,psm,psm2"));
    for files in [
        &[][..],
        &[package("mtl = psm2\n")],
        &[package("mtl = ^ofi\nmtl = psm2\n")],
        &[package("pml = ^ucx\n")],
        &[debian, ("/sys/class/infiniband", "")],
        &[debian, ("/home/a/.openmpi/mca-params.conf", "")],
    ] {
        assert_eq!(of(files, &[("HOME", "/home/a")]), None, "{files:?}");
    }
    for name in ["OMPI_MCA_mca_base_param_files", "OMPI_MCA_mca_base_param_file_prefix"] {
        assert_eq!(of(&[debian], &[(name, "a")]), None, "{name}");
    }
    assert_eq!(of(&[debian], &[("OMPI_MCA_mtl", "ofi")]).as_deref(), Some("ofi"));
}
