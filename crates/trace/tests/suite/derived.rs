//! Files next to traces are written and read only where they belong.

use longpole_trace::derived::{Fingerprint, Place};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

fn place(base: &Path, below: &str) -> Place {
    Place { base: base.to_owned(), below: below.into() }
}

fn store(place: &Place, text: &str) -> std::io::Result<()> {
    place.store(|file| file.write_all(text.as_bytes()))
}

fn text(place: &Place) -> std::io::Result<String> {
    let mut text = String::new();
    place.open()?.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn a_stored_file_replaces_the_old_one_and_nothing_else_remains() {
    let folder = TempDir::new().unwrap();
    let place = place(folder.path(), "derived/part/file");
    store(&place, "first").unwrap();
    fs::write(folder.path().join("derived/part/.file-1-0"), "of a killed process").unwrap();
    store(&place, "second").unwrap();
    assert_eq!(text(&place).unwrap(), "second");
    let failed = place.store(|file| file.write_all(b"half").and_then(|()| Err(std::io::ErrorKind::StorageFull.into())));
    assert!(failed.is_err());
    assert_eq!(text(&place).unwrap(), "second");
    assert_eq!(fs::read_dir(folder.path().join("derived/part")).unwrap().count(), 1);
}

#[test]
fn a_link_in_the_trace_does_not_lead_elsewhere() {
    let folder = TempDir::new().unwrap();
    let (trace, elsewhere) = (folder.path().join("trace"), folder.path().join("elsewhere"));
    fs::create_dir_all(elsewhere.join("part")).unwrap();
    fs::create_dir(&trace).unwrap();
    symlink(&elsewhere, trace.join("derived")).unwrap();
    assert!(store(&place(&trace, "derived/part/file"), "text").is_err());
    assert!(store(&place(&trace, "derived/file"), "text").is_err());
    assert_eq!(fs::read_dir(elsewhere.join("part")).unwrap().count(), 0);

    fs::write(elsewhere.join("secret"), "secret").unwrap();
    symlink(elsewhere.join("secret"), trace.join("file")).unwrap();
    assert!(text(&place(&trace, "file")).is_err());
    // A link in the place of the file is replaced, and what it leads to stays.
    store(&place(&trace, "file"), "text").unwrap();
    assert_eq!(fs::read_to_string(elsewhere.join("secret")).unwrap(), "secret");
}

#[test]
fn a_fingerprint_changes_with_the_files_and_not_with_derived_ones() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("part")).unwrap();
    fs::write(folder.path().join("part/stream"), "12345").unwrap();
    // Links to folders and into nothing are not followed.
    symlink(folder.path(), folder.path().join("part/loop")).unwrap();
    symlink("nothing", folder.path().join("part/dangling")).unwrap();
    let before = Fingerprint::of(folder.path()).unwrap();
    store(&place(folder.path(), "derived/file"), "text").unwrap();
    assert_eq!(Fingerprint::of(folder.path()).unwrap(), before);
    fs::write(folder.path().join("part/stream"), "123456").unwrap();
    assert_ne!(Fingerprint::of(folder.path()).unwrap(), before);
}
