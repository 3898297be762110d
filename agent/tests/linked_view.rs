//! Views whose image is mounted: what the agent makes of them before a run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod pod;

use flux_agent::view::{SourceLayout, ViewError, link_view};
use flux_contract::{Exit, Install, Layout, SidecarConfig};
use pod::{Pod, code, stderr, stdout};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const HASH: &str = "opt/views/._view/4f2xy";

/// A pod's file system: the mounted image, the shared volume around it, and the packages' mount.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        for directory in ["mnt/flux/view-image", "opt/software"] {
            fs::create_dir_all(scene.at(directory)).unwrap();
        }
        scene
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(path)
    }

    fn in_image(&self, path: &str) -> PathBuf {
        let path = self.at("mnt/flux/view-image").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn file(&self, path: &str, content: &str) {
        fs::write(self.in_image(path), content).unwrap();
    }

    fn link_in_image(&self, path: &str, target: &str) {
        symlink(target, self.in_image(path)).unwrap();
    }

    /// A view as the published images have it.
    fn spack(&self) {
        self.file("opt/software/flux-core/bin/flux", "the flux program");
        self.file("opt/software/python/bin/python3", "python");
        self.link_in_image(&format!("{HASH}/bin/flux"), "/opt/software/flux-core/bin/flux");
        self.file(&format!("{HASH}/etc/flux/rc1"), "rc");
        self.link_in_image("opt/view", "/opt/views/._view/4f2xy");
    }

    fn make(&self) -> Result<SourceLayout, ViewError> {
        let layout = Layout::default();
        link_view(self.0.path(), &layout).map(|source| source.layout)
    }

    fn target(&self, link: &str) -> PathBuf {
        fs::read_link(self.at(link)).unwrap()
    }
}

#[test]
fn a_flat_view_is_linked_from_where_the_image_has_it_and_nothing_is_copied() {
    let scene = Scene::new();
    scene.file("mnt/flux/view/bin/flux", "flat");
    assert_eq!(scene.make().unwrap(), SourceLayout::AtMountPath);
    assert_eq!(scene.target("mnt/flux/view"), Path::new("view-image/mnt/flux/view"));
    assert_eq!(fs::read_to_string(scene.at("mnt/flux/view/bin/flux")).unwrap(), "flat");
    assert_eq!(fs::read_dir(scene.at("opt/software")).unwrap().count(), 0);
    assert!(scene.at("mnt/flux/flux-operator-done.txt").exists());
}

#[test]
fn a_published_view_is_linked_and_so_is_each_of_its_packages() {
    let scene = Scene::new();
    scene.spack();
    assert_eq!(scene.make().unwrap(), SourceLayout::Spack);
    assert_eq!(
        scene.target("mnt/flux/view"),
        Path::new("view-image/opt/views/._view/4f2xy"),
        "not to /opt/view, which leads out of the image"
    );
    assert_eq!(fs::read_to_string(scene.at("mnt/flux/view/etc/flux/rc1")).unwrap(), "rc");
    for package in ["flux-core", "python"] {
        let expected = format!("/mnt/flux/view-image/opt/software/{package}");
        assert_eq!(scene.target(&format!("opt/software/{package}")), Path::new(&expected));
    }
}

#[test]
fn links_among_the_packages_are_followed_within_the_image() {
    let scene = Scene::new();
    scene.spack();
    scene.link_in_image("opt/software/to-absolute", "/opt/software/python");
    scene.link_in_image("opt/software/to-relative", "../packages/zlib");
    scene.link_in_image("opt/software/above-the-root", "../../../../../opt/packages/zlib");
    scene.file("opt/packages/zlib/lib/libz.so", "");
    scene.link_in_image("opt/software/to-nowhere", "/etc/passwd");
    scene.make().unwrap();
    let image = Path::new("/mnt/flux/view-image/opt");
    for (name, inside) in [
        ("to-absolute", "software/python"),
        ("to-relative", "packages/zlib"),
        ("above-the-root", "packages/zlib"),
        ("to-nowhere", "software/to-nowhere"),
    ] {
        assert_eq!(scene.target(&format!("opt/software/{name}")), image.join(inside), "{name}");
    }
}

#[test]
fn packages_that_lie_elsewhere_in_the_image_are_found_behind_their_link() {
    let scene = Scene::new();
    scene.file("srv/packages/flux-core/bin/flux", "");
    scene.link_in_image("opt/software", "/srv/packages");
    scene.link_in_image("opt/view/bin/flux", "/opt/software/flux-core/bin/flux");
    assert_eq!(scene.make().unwrap(), SourceLayout::OptView);
    let expected = "/mnt/flux/view-image/srv/packages/flux-core";
    assert_eq!(scene.target("opt/software/flux-core"), Path::new(expected));
}

#[test]
fn what_another_container_has_linked_already_stays_and_what_is_wrong_is_replaced() {
    let scene = Scene::new();
    scene.spack();
    scene.make().unwrap();
    let inode = |path: &str| fs::symlink_metadata(scene.at(path)).unwrap().ino();
    let links = ["mnt/flux/view", "opt/software/python", "mnt/flux/flux-operator-done.txt"];
    let before = links.map(inode);
    scene.make().unwrap();
    assert_eq!(links.map(inode), before);

    fs::remove_file(scene.at("mnt/flux/view")).unwrap();
    symlink("elsewhere", scene.at("mnt/flux/view")).unwrap();
    scene.make().unwrap();
    assert_eq!(scene.target("mnt/flux/view"), Path::new("view-image/opt/views/._view/4f2xy"));
}

/// The runner and its sidecars start at the same moment.
#[test]
fn many_containers_that_link_at_once_all_succeed() {
    let scene = Scene::new();
    scene.spack();
    for number in 0..200 {
        scene.file(&format!("opt/software/package-{number}/x"), "");
    }
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| scene.make())).collect();
        assert!(all.into_iter().all(|one| one.join().unwrap().is_ok()));
    });
    assert_eq!(fs::read_dir(scene.at("opt/software")).unwrap().count(), 202);
    // The marker, the view and the image: no temporary file stays.
    assert_eq!(fs::read_dir(scene.at("mnt/flux")).unwrap().count(), 3);
}

#[test]
fn an_image_without_flux_gets_no_marker_and_the_places_searched_are_named() {
    let scene = Scene::new();
    scene.file("etc/os-release", "");
    let message = scene.make().unwrap_err().to_string();
    assert!(message.contains("no Flux in the view image") && message.contains("/opt/view"));
    assert!(!scene.at("mnt/flux/flux-operator-done.txt").exists());
}

/// A pod whose view is mounted, closed to writing as an image is.
fn pod_with_mounted_view() -> Pod {
    let pod = Pod::new();
    let image = pod.at("mnt/flux/view-image/opt");
    fs::create_dir_all(&image).unwrap();
    fs::create_dir_all(pod.at("opt/software")).unwrap();
    fs::rename(pod.at("mnt/flux/view"), image.join("view")).unwrap();
    fs::set_permissions(image.join("view"), Permissions::from_mode(0o555)).unwrap();
    pod
}

#[test]
fn a_run_with_a_mounted_view_is_as_any_other() {
    let pod = pod_with_mounted_view();
    let mut config = pod.config(&["echo", "hello world"]);
    config.install = Install::Image;
    config.logging.debug = true;
    let output = pod.run(&config);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "hello world\n"));
    assert!(stderr(&output).contains("linked the view: /opt/view"), "{}", stderr(&output));
    let link = fs::read_link(pod.layout().view()).unwrap();
    assert_eq!(link, Path::new("view-image/opt/view"));
}

#[test]
fn a_run_whose_view_image_has_no_flux_fails_with_the_code_for_it() {
    let pod = pod_with_mounted_view();
    fs::remove_file(pod.at("mnt/flux/view-image/opt/view/bin/flux")).unwrap();
    let mut config = pod.config(&["true"]);
    config.install = Install::Image;
    let output = pod.run(&config);
    assert_eq!(code(&output), i32::from(Exit::View.code()), "{}", stderr(&output));
    let error = pod.message().last_error.unwrap();
    assert!(error.contains("found no Flux in the view image"), "{error}");
}

#[test]
fn a_sidecar_that_comes_first_links_the_view_itself() {
    let pod = pod_with_mounted_view();
    let mut config = pod.config(&["true"]);
    config.install = Install::Image;
    let sidecar = SidecarConfig {
        wait_for_socket: false,
        command: Some(format!("test -x {}/bin/flux && exit 7", pod.layout().view().display())),
        init: None,
        service_pre: None,
        post: None,
    };
    config.sidecars = BTreeMap::from([("beside".to_owned(), sidecar)]);
    let output = pod.prepared(&config).args(["--container", "beside"]).output().unwrap();
    assert_eq!(code(&output), 7, "{}", stderr(&output));
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
fn a_view_for_a_newer_c_library_ends_the_run_with_the_loaders_words() {
    let pod = Pod::new();
    needs_a_newer_c_library(&pod);
    let output = pod.run(&pod.config(&["true"]));
    let message = pod.message();
    let code = code(&output);
    assert_eq!((code, message.exit_code, message.command_ran), (66, 66, false), "{message:?}");
    for told in [stderr(&output), message.last_error.unwrap()] {
        assert!(told.contains("version `GLIBC_9.") && told.contains("' not found"), "{told}");
    }
}
