//! Installing views from made-up images.

use crate::image::{HASH, Scene};
use crate::prelude::*;
use flux_agent::view::{InstallReport, InstallRequest, SourceLayout, ViewError, install_view};
use std::time::SystemTime;

fn request(scene: &Scene) -> InstallRequest {
    InstallRequest {
        root: scene.at("flux_operator/view"),
        destination: scene.at("mnt/flux"),
        mount_path: PathBuf::from("/mnt/flux"),
        source: None,
        memory_limit: None,
    }
}

fn install(scene: &Scene) -> Result<InstallReport, ViewError> {
    install_view(&request(scene), &|_| {})
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_published_view_is_copied_with_modes_and_links() {
    let scene = Scene::published();
    let report = install(&scene).unwrap();
    let copied = report.copied.clone().unwrap();
    assert_eq!((copied.files, copied.links, report.source.layout), (4, 2, SourceLayout::Spack));
    assert!(copied.unresolved.is_empty(), "{copied:?}");
    assert_eq!(scene.read("mnt/flux/software/flux-core/bin/flux"), "the flux program");
    assert_eq!(mode(&scene.at("mnt/flux/software/flux-core/libexec/flux-imp")), 0o4755);
    assert_eq!(mode(&scene.at("mnt/flux/view/etc/flux/rc1")), 0o640);
    let link = |path| fs::read_link(scene.at(path)).unwrap();
    assert_eq!(link("mnt/flux/view/bin/flux"), Path::new("/opt/software/flux-core/bin/flux"));
    assert_eq!(link("mnt/flux/view/bin/python"), Path::new("/mnt/flux/view/bin/python3"));
    assert_eq!(names(&scene.at("mnt/flux")), ["flux-operator-done.txt", "software", "view"]);

    let summary = report.to_string();
    let expected =
        format!("installed the view of /{HASH} (Spack view): 4 files, 2 links, 0.0 MB in ");
    assert!(summary.starts_with(&expected), "{summary}");
}

#[test]
fn a_flat_view_gets_an_empty_software_directory() {
    let scene = Scene::new();
    scene.file("mnt/flux/view/bin/flux", "flat", 0o755);
    let report = install(&scene).unwrap();
    assert_eq!(report.source.layout, SourceLayout::AtMountPath);
    assert_eq!(scene.read("mnt/flux/view/bin/flux"), "flat");
    assert_eq!(names(&scene.at("mnt/flux/software")), Vec::<String>::new());
}

#[test]
fn a_file_with_two_names_stays_one_file() {
    let scene = Scene::new();
    let flux = scene.file("opt/view/bin/flux", "once", 0o755);
    fs::hard_link(&flux, scene.in_image("opt/software/p/flux")).unwrap();
    let copied = install(&scene).unwrap().copied.unwrap();
    assert_eq!((copied.files, copied.bytes), (1, 4));
    let inode = |path| fs::metadata(scene.at(path)).unwrap().ino();
    assert_eq!(inode("mnt/flux/view/bin/flux"), inode("mnt/flux/software/p/flux"));
}

#[test]
fn a_read_only_directory_is_copied_with_its_mode() {
    let scene = Scene::flat();
    scene.file("opt/view/lib/deep/x", "x", 0o444);
    for directory in ["opt/view/lib/deep", "opt/view/lib"] {
        fs::set_permissions(scene.in_image(directory), Permissions::from_mode(0o555)).unwrap();
    }
    install(&scene).unwrap();
    assert_eq!(mode(&scene.at("mnt/flux/view/lib")), 0o555);
    assert_eq!(scene.read("mnt/flux/view/lib/deep/x"), "x");
    // Other users than root have to be able to remove the directories.
    for path in [scene.in_image("opt/view/lib"), scene.at("mnt/flux/view/lib")] {
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(path.join("deep"), Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_restarted_container_repeats_only_an_incomplete_copy() {
    let scene = Scene::published();
    fs::create_dir_all(scene.at("mnt/flux/.view.partial/bin")).unwrap();
    fs::write(scene.at("mnt/flux/.view.partial/bin/half"), "ha").unwrap();
    fs::create_dir_all(scene.at("mnt/flux/view/bin")).unwrap();
    fs::write(scene.at("mnt/flux/view/bin/unmarked"), "").unwrap();
    install(&scene).unwrap();
    assert_eq!(names(&scene.at("mnt/flux/view/bin")), ["flux", "python", "python3"]);
    assert_eq!(names(&scene.at("mnt/flux")), ["flux-operator-done.txt", "software", "view"]);

    let marker = fs::metadata(scene.at("mnt/flux/flux-operator-done.txt")).unwrap().ino();
    let again = install(&scene).unwrap();
    assert_eq!(again.copied, None);
    assert_eq!(fs::metadata(scene.at("mnt/flux/flux-operator-done.txt")).unwrap().ino(), marker);

    // A crash of the node may have taken any of it.
    fs::write(scene.at("mnt/flux/flux-operator-done.txt"), "installed before that\n").unwrap();
    assert!(install(&scene).unwrap().copied.is_some());
}

#[test]
fn broken_links_are_copied_and_reported() {
    let scene = Scene::published();
    scene.link(&format!("{HASH}/lib/gone.so"), "libgone.so.2");
    scene.link(&format!("{HASH}/bin/sh"), "/bin/sh");
    scene.file("bin/sh", "", 0o755);
    let report = install(&scene).unwrap();
    assert_eq!(report.copied.as_ref().unwrap().unresolved.len(), 2);
    let message = report.to_string();
    let dangling = format!("/{HASH}/lib/gone.so -> libgone.so.2 (missing)");
    assert!(message.contains(&dangling), "{message}");
    assert!(message.contains("/bin/sh -> /bin/sh"), "{message}");
    let link = fs::read_link(scene.at("mnt/flux/view/lib/gone.so")).unwrap();
    assert_eq!(link, Path::new("libgone.so.2"));
}

#[test]
fn a_flux_outside_of_the_copied_trees_is_refused() {
    let scene = Scene::new();
    scene.file("usr/bin/flux", "", 0o755);
    scene.link("opt/view/bin/flux", "/usr/bin/flux");
    let message = install(&scene).unwrap_err().to_string();
    assert!(message.contains("bin/flux is /usr/bin/flux, which is not copied"), "{message}");
    assert!(names(&scene.at("mnt/flux")).is_empty());
}

#[test]
fn a_destination_within_the_view_is_refused() {
    let scene = Scene::flat();
    let destination = scene.in_image("opt/view/volume");
    fs::create_dir(&destination).unwrap();
    let request = InstallRequest { destination, ..request(&scene) };
    let refused = install_view(&request, &|_| {});
    assert!(matches!(refused, Err(ViewError::IntoItself { .. })), "{refused:?}");
}

#[test]
fn records_of_spack_builds_are_left_out() {
    let scene = Scene::published();
    scene.file("opt/software/flux-core/.spack/spack-build-out.txt.gz", "log", 0o644);
    scene.file("opt/software/.spack-db/index.json", "{}", 0o644);
    scene.link(&format!("{HASH}/.spack/flux-core/log"), "/opt/software/flux-core/.spack/log");
    let report = install(&scene).unwrap();
    let copied = report.copied.as_ref().unwrap();
    assert_eq!((copied.left_out, copied.files, copied.unresolved.len()), (3, 4, 0));
    assert_eq!(names(&scene.at("mnt/flux/software")), ["flux-core"]);
    assert_eq!(names(&scene.at("mnt/flux/software/flux-core")), ["bin", "libexec"]);
    assert_eq!(names(&scene.at("mnt/flux/view")), ["bin", "etc"]);
    assert!(report.to_string().contains("left out 3 records of builds"));
}

#[test]
fn large_files_are_copied_with_times_and_safe_modes() {
    // Compiled Python stays good only with the time of its source.
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let scene = Scene::flat();
    let content = "0123456789 ".repeat(300_000);
    for mode in [0o400, 0o664, 0o4755] {
        let source = scene.file(&format!("opt/view/lib/{mode:o}"), &content, mode);
        fs::File::open(source).unwrap().set_modified(time).unwrap();
    }
    let copied = install(&scene).unwrap().copied.unwrap();
    assert_eq!(copied.bytes, 3 * u64::try_from(content.len()).unwrap());
    for (of_image, expected) in [(0o400, 0o400), (0o664, 0o644), (0o4755, 0o4755)] {
        let path = format!("mnt/flux/view/lib/{of_image:o}");
        assert_eq!(mode(&scene.at(&path)), expected);
        assert!(scene.read(&path) == content);
        assert_eq!(fs::metadata(scene.at(&path)).unwrap().modified().unwrap(), time);
    }
}

#[test]
fn thousands_of_files_all_arrive() {
    let scene = Scene::flat();
    let path = |number: i32| format!("view/lib/{}/{number}", number % 50);
    for number in 0..2000 {
        scene.file(&format!("opt/{}", path(number)), &number.to_string(), 0o644);
    }
    assert_eq!(install(&scene).unwrap().copied.unwrap().files, 2001);
    assert_eq!(names(&scene.at("mnt/flux/view/lib")).len(), 50);
    for number in 0..2000 {
        assert_eq!(scene.read(&format!("mnt/flux/{}", path(number))), number.to_string());
    }
}

/// The kernel would kill the copy that exceeds the limit, without a word.
#[test]
fn a_view_beyond_the_memory_limit_is_refused() {
    let scene = Scene::new();
    scene.file("mnt/flux/view/bin/flux", &"f".repeat(5 << 20), 0o755);
    let volume = tempfile::tempdir_in("/dev/shm").unwrap();
    let install = |destination: &Path, mebibytes: u64| {
        let destination = destination.to_owned();
        let memory_limit = Some(mebibytes << 20);
        install_view(&InstallRequest { destination, memory_limit, ..request(&scene) }, &|_| {})
    };
    let text = install(volume.path(), 8).unwrap_err().to_string();
    assert!(text.contains("this container may have 8 MiB"), "{text}");
    assert!(text.contains("flux.container.resources"), "{text}");
    assert!(text.contains("flux.container.medium"), "{text}");
    install(volume.path(), 16).unwrap();
}
