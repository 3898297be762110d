//! Links to views whose image is mounted.

use crate::image::{HASH, Scene};
use crate::prelude::*;
use flux_agent::view::{SourceLayout, link_view};
use flux_contract::{Install, Layout};
use std::os::unix::fs::symlink;

fn link(scene: &Scene) -> SourceLayout {
    link_view(&scene.at(""), &Layout::default()).unwrap().layout
}

fn target(scene: &Scene, link: &str) -> PathBuf {
    fs::read_link(scene.at(link)).unwrap()
}

#[test]
fn a_flat_view_is_linked() {
    let scene = Scene::new();
    scene.file("mnt/flux/view/bin/flux", "flat", 0o644);
    assert_eq!(link(&scene), SourceLayout::AtMountPath);
    assert_eq!(target(&scene, "mnt/flux/view"), scene.at("flux_operator/view/mnt/flux/view"));
    assert_eq!(scene.read("mnt/flux/view/bin/flux"), "flat");
    assert_eq!(fs::read_dir(scene.at("opt/software")).unwrap().count(), 0);
    assert!(scene.at("mnt/flux/flux-operator-done.txt").exists());
}

#[test]
fn a_published_view_and_its_packages_are_linked() {
    let scene = Scene::published();
    scene.file("opt/software/zlib/lib/libz.so", "", 0o644);
    assert_eq!(link(&scene), SourceLayout::Spack);
    // Not to /opt/view, which leads out of the image.
    assert_eq!(target(&scene, "mnt/flux/view"), scene.in_image(HASH));
    assert_eq!(scene.read("mnt/flux/view/etc/flux/rc1"), "rc");
    for package in ["flux-core", "zlib"] {
        let expected = scene.at(format!("flux_operator/view/opt/software/{package}"));
        assert_eq!(target(&scene, &format!("opt/software/{package}")), expected);
    }
}

#[test]
fn links_among_the_packages_are_followed_within_the_image() {
    let scene = Scene::published();
    scene.link("opt/software/to-absolute", "/opt/software/flux-core");
    scene.link("opt/software/to-relative", "../packages/zlib");
    scene.link("opt/software/above-the-root", "../../../../../opt/packages/zlib");
    scene.file("opt/packages/zlib/lib/libz.so", "", 0o644);
    scene.link("opt/software/to-nowhere", "/etc/passwd");
    link(&scene);
    let image = scene.at("flux_operator/view/opt");
    for (name, inside) in [
        ("to-absolute", "software/flux-core"),
        ("to-relative", "packages/zlib"),
        ("above-the-root", "packages/zlib"),
        ("to-nowhere", "software/to-nowhere"),
    ] {
        assert_eq!(target(&scene, &format!("opt/software/{name}")), image.join(inside), "{name}");
    }
}

#[test]
fn packages_are_found_through_a_link() {
    let scene = Scene::new();
    scene.file("srv/packages/flux-core/bin/flux", "", 0o644);
    scene.link("opt/software", "/srv/packages");
    scene.link("opt/view/bin/flux", "/opt/software/flux-core/bin/flux");
    assert_eq!(link(&scene), SourceLayout::OptView);
    let expected = scene.at("flux_operator/view/srv/packages/flux-core");
    assert_eq!(target(&scene, "opt/software/flux-core"), expected);
}

#[test]
fn right_links_of_an_earlier_run_stay() {
    let scene = Scene::published();
    link(&scene);
    let inode = |path: &str| fs::symlink_metadata(scene.at(path)).unwrap().ino();
    let links = ["mnt/flux/view", "opt/software/flux-core"];
    let before = links.map(inode);
    link(&scene);
    assert_eq!(links.map(inode), before);

    fs::remove_file(scene.at("mnt/flux/view")).unwrap();
    symlink("elsewhere", scene.at("mnt/flux/view")).unwrap();
    link(&scene);
    assert_eq!(target(&scene, "mnt/flux/view"), scene.in_image(HASH));
}

/// A pod whose view is mounted, closed to writing as an image is.
fn pod_with_mounted_view() -> Pod {
    let pod = Pod::new();
    let image = pod.at("flux_operator/view/opt");
    fs::create_dir_all(&image).unwrap();
    fs::rename(pod.layout().bin_dir(), pod.at("flux_operator/agent")).unwrap();
    fs::create_dir_all(pod.at("opt/software")).unwrap();
    fs::rename(pod.at("mnt/flux/view"), image.join("view")).unwrap();
    fs::set_permissions(image.join("view"), Permissions::from_mode(0o555)).unwrap();
    pod
}

/// `flux-agent run` as the container starts it where images are mounted.
fn mounted(pod: &Pod, config: &AgentConfig) -> Command {
    let words = ["sh", "-c", "shift; exec $POD/flux_operator/agent/flux-agent \"$@\"", "sh"];
    let mut shell = Command::new("env");
    shell.args(words);
    pod.wrapped(shell, &pod.prepared(config))
}

#[test]
fn a_run_with_a_mounted_view_is_as_any_other() {
    let pod = pod_with_mounted_view();
    let mut config = pod.config(&["echo", "hello world"]);
    config.install = Install::Image;
    config.logging.debug = true;
    let ended = Ended::of(&mut mounted(&pod, &config)).with_code(0).with_output("hello world\n");
    ended.with_log("linked the view: /opt/view");
    let layout = pod.layout();
    for (link, target) in [(layout.view(), "view/opt/view"), (layout.bin_dir(), "agent")] {
        assert_eq!(fs::read_link(link).unwrap(), pod.at("flux_operator").join(target));
    }
    assert!(fs::exists(layout.agent()).unwrap());
}

#[test]
fn a_view_image_without_flux_fails_the_run() {
    let pod = pod_with_mounted_view();
    fs::remove_file(pod.at("flux_operator/view/opt/view/bin/flux")).unwrap();
    let mut config = pod.config(&["true"]);
    config.install = Install::Image;
    Ended::of(&mut mounted(&pod, &config)).with_code(Exit::View.code());
    pod.error_says("found no Flux in the view image");
    assert!(!fs::exists(pod.layout().view_done_marker()).unwrap());
}

/// A run that ends once its sidecar has found the view in its place; the sidecar ends with 7 then.
fn waits_for_sidecar(pod: &Pod) -> AgentConfig {
    let mut config = pod.launcher("while [ ! -e $POD/found ]; do sleep 0.02; done");
    config.install = Install::Image;
    let flux = PathBuf::from(pod.layout().view()).join("bin/flux");
    let command = format!("test -x {} && touch $POD/found && exit 7", flux.display());
    config.sidecars = BTreeMap::from([("beside".to_owned(), sidecar(&command))]);
    config
}

fn start_sidecar(pod: &Pod) -> Background {
    let mut run = mounted(pod, &waits_for_sidecar(pod));
    run.args(["--container", "beside"]);
    Background::start(run)
}

#[test]
fn a_sidecar_waits_for_the_runner_to_link_the_view() {
    let pod = pod_with_mounted_view();
    let sidecar = start_sidecar(&pod);
    assert!(!fs::exists(pod.layout().view()).unwrap());
    Background::start(mounted(&pod, &waits_for_sidecar(&pod))).end().with_code(0);
    sidecar.end().with_code(7);
}

#[test]
fn a_sidecar_ends_if_the_runner_could_not_link_the_view() {
    let pod = pod_with_mounted_view();
    fs::write(pod.layout().runner_lock(), "").unwrap();
    let ended = start_sidecar(&pod).end();
    ended.with_code(Exit::Broker.code()).with_log("the runner is gone");
}

/// The shared volume is read-only for it.
#[test]
fn a_sidecar_with_hooks_writes_nothing_to_the_shared_volume() {
    let pod = Pod::new();
    let mut beside = sidecar("echo $FROM $TMPDIR; exit 7");
    beside.init = Some("export FROM=init".to_owned());
    fs::remove_dir_all(pod.at("flux_operator/curve")).unwrap();
    let run = pod.beside(pod.config(&["true"]), beside);
    let Some(ended) = pod.with_read_only("mnt/flux", &run) else { return };
    ended.with_code(7).with_output("init /dev/shm\n");
    assert_eq!(fs::read_dir(pod.at("dev/shm")).unwrap().count(), 0, "nothing stays");
}

/// Puts a program that needs a newer C library than any image has in place of the view's `flux`: the shell of this
/// machine, to which every version that it needs of the C library has another name.
fn needs_a_newer_c_library(pod: &Pod) {
    let mut program = fs::read(fs::canonicalize("/bin/sh").unwrap()).unwrap();
    let (version, newer) = (b"GLIBC_2.", b"GLIBC_9.");
    let found = |at: &usize| program[*at..].starts_with(version);
    let places: Vec<usize> = (0..program.len()).filter(found).collect();
    assert!(!places.is_empty(), "the shell needs nothing of a C library");
    for at in places {
        program[at..at + newer.len()].copy_from_slice(newer);
    }
    fs::write(pod.at("mnt/flux/view/bin/flux"), program).unwrap();
}

#[test]
fn a_view_for_a_newer_c_library_fails_the_run() {
    let pod = Pod::new();
    needs_a_newer_c_library(&pod);
    let ended = pod.run(&pod.config(&["true"])).with_code(Exit::View.code());
    let message = pod.message();
    assert_eq!((message.exit_code, message.command_ran), (ended.code, false), "{message:?}");
    for text in [ended.log, message.last_error.unwrap()] {
        assert!(text.contains("version `GLIBC_9.") && text.contains("' not found"), "{text}");
    }
}
