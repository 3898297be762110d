//! Files stay the same when they are packed and unpacked, and no stream can write outside its destination.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use flux_transfer::{Copied, Destination, TransferError, pack, unpack};
use std::error::Error as _;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tar::{Builder, EntryType, Header};

fn packed(path: &Path) -> Vec<u8> {
    let mut stream = Vec::new();
    pack(path, &mut stream, |_| ()).unwrap();
    stream
}

fn to(path: &Path, name: Option<&str>) -> Destination {
    Destination { path: path.to_owned(), name: name.map(str::to_owned) }
}

#[test]
fn a_directory_keeps_files_links_modes_and_times() {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("from");
    let long = "a-name-that-is-long-enough-".repeat(5);
    fs::create_dir_all(from.join("below").join(&long)).unwrap();
    fs::write(from.join("below").join(&long).join(&long), [0, 255, 10]).unwrap();
    fs::write(from.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(from.join("run.sh"), Permissions::from_mode(0o751)).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(from.join("run.sh")).unwrap().set_modified(then).unwrap();
    symlink("../nowhere", from.join("link")).unwrap();
    let _socket = UnixListener::bind(from.join("socket")).unwrap();
    // A directory that its owner may not write to is copied with that mode.
    fs::File::open(from.join("below")).unwrap().set_modified(then).unwrap();
    fs::set_permissions(from.join("below"), Permissions::from_mode(0o555)).unwrap();

    let mut skipped = Vec::new();
    let mut stream = Vec::new();
    let copied = pack(&from, &mut stream, |path| skipped.push(path.to_owned())).unwrap();
    assert_eq!(copied, Copied { entries: 6, bytes: 13 });
    assert_eq!(skipped, [fs::canonicalize(from.join("socket")).unwrap()]);
    let there = directory.path().join("there");
    assert_eq!(unpack(stream.as_slice(), &to(&there, Some("from"))).unwrap(), copied);
    assert_eq!(fs::read(there.join("below").join(&long).join(&long)).unwrap(), [0, 255, 10]);
    assert_eq!(fs::read_link(there.join("link")).unwrap(), Path::new("../nowhere"));
    for (path, mode) in [("run.sh", 0o751), ("below", 0o555)] {
        let found = fs::metadata(there.join(path)).unwrap();
        assert_eq!((found.mode() & 0o7777, found.mtime()), (mode, 1_000_000_000), "{path}");
    }
    // The second time the destination is an existing directory.
    unpack(stream.as_slice(), &to(&there, Some("from"))).unwrap();
    assert!(there.join("from/run.sh").exists());
    for path in [from.join("below"), there.join("below"), there.join("from/below")] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_file_gets_the_path_or_goes_into_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("a"), "1").unwrap();
    symlink("a", path("link")).unwrap();
    let stream = packed(&path("link"));
    unpack(stream.as_slice(), &to(&path("b"), Some("link"))).unwrap();
    assert_eq!(fs::read_to_string(path("b")).unwrap(), "1");
    fs::create_dir(path("d")).unwrap();
    unpack(stream.as_slice(), &to(&path("d"), Some("a"))).unwrap();
    assert_eq!(fs::read_to_string(path("d/a")).unwrap(), "1");
    // An existing link is replaced, and its target stays.
    symlink(path("b"), path("elsewhere")).unwrap();
    fs::write(path("a"), "2").unwrap();
    unpack(packed(&path("a")).as_slice(), &to(&path("elsewhere"), Some("a"))).unwrap();
    assert_eq!(fs::read_to_string(path("b")).unwrap(), "1");
    let missing = unpack(stream.as_slice(), &to(&path("x/y"), Some("a"))).unwrap_err();
    assert!(matches!(missing, TransferError::Write { .. }), "{missing}");
    let device = pack(Path::new("/dev/null"), Vec::new(), |_| ()).unwrap_err();
    assert!(matches!(device, TransferError::Kind { .. }), "{device}");
    assert!(unpack(&stream[..700], &to(&path("short"), None)).is_err());
    assert!(unpack(&[][..], &to(&path("empty"), None)).is_err());
}

/// A stream that cuts a file once its beginning is written.
struct Cutting<'file>(&'file Path, Vec<u8>);

impl Write for Cutting<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(data);
        fs::File::options().write(true).open(self.0)?.set_len((1 << 20) - 100)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_that_becomes_shorter_is_named_and_not_left() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to_path) = (directory.path().join("from"), directory.path().join("to"));
    fs::write(&from, vec![1; 1 << 20]).unwrap();
    let mut stream = Cutting(&from, Vec::new());
    let error = pack(&from, &mut stream, |_| ()).unwrap_err();
    assert!(
        matches!(&error, TransferError::Read { path, .. } if *path == from.canonicalize().unwrap())
    );
    assert!(error.source().unwrap().to_string().contains("became shorter"), "{error:?}");
    // What the other side has received is no whole file: the file before it stays, and nothing else.
    fs::write(&to_path, "before").unwrap();
    assert!(unpack(stream.1.as_slice(), &to(&to_path, None)).is_err());
    assert_eq!(fs::read_to_string(&to_path).unwrap(), "before");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

/// A stream of a directory with these entries: the name, the kind, and the content or the target of a link.
fn stream(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, kind, text) in [(".", EntryType::Directory, "")].iter().chain(entries) {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o755);
        header.set_mtime(0);
        // The tar crate would refuse to write such a name.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        let content = if *kind == EntryType::Regular { text.as_bytes() } else { b"" };
        if *kind == EntryType::Symlink || *kind == EntryType::Link {
            header.set_link_name_literal(text).unwrap();
        }
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn nothing_is_written_outside_the_destination() {
    use EntryType::{Directory, Link, Regular, Symlink};
    let directory = tempfile::tempdir().unwrap();
    let outside = directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::set_permissions(&outside, Permissions::from_mode(0o700)).unwrap();
    let away = outside.to_str().unwrap();
    let absolute = format!("{away}/x");
    let cases: [&[(&str, EntryType, &str)]; 8] = [
        &[("../outside/x", Regular, "bad")],
        &[("a/../../outside/x", Regular, "bad")],
        &[(&absolute, Regular, "bad")],
        &[(away, Directory, "")],
        &[("link", Symlink, away), ("link/x", Regular, "bad")],
        &[("link", Symlink, ".."), ("link/outside/x", Regular, "bad")],
        &[("link", Symlink, away), ("link", Directory, "")],
        &[("hard", Link, "../outside/secret")],
    ];
    for (index, entries) in cases.iter().enumerate() {
        let destination = directory.path().join(format!("to-{index}"));
        let refused = unpack(stream(entries).as_slice(), &to(&destination, None));
        assert!(refused.is_err(), "{entries:?}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{entries:?}");
        assert_eq!(fs::metadata(&outside).unwrap().mode() & 0o777, 0o700, "{entries:?}");
    }
    // An existing link may also lead outside.
    let destination = directory.path().join("there");
    fs::create_dir(&destination).unwrap();
    symlink(&outside, destination.join("d")).unwrap();
    let refused =
        unpack(stream(&[("d/x", Regular, "bad")]).as_slice(), &to(&destination, None)).unwrap_err();
    assert!(matches!(refused, TransferError::Outside { .. }), "{refused}");
    // A link that replaces another is not followed.
    unpack(stream(&[("d", Regular, "good")]).as_slice(), &to(&destination, None)).unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}
