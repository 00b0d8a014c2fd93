//! Reading traces in archives: an archive opens like its content, and a hostile archive does no
//! harm.

use flate2::write::GzEncoder;
use flate2::Compression;
use longpole_testing::tar_entry::tar_entry;
use longpole_testing::user_trace::{Fake, Field, Kind};
use longpole_trace::unpack;
use longpole_trace::Diagnostic;
use longpole_trace::Error;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;

/// Makes a CTF trace with this many events.
fn folder(place: &Path, events: u64) -> PathBuf {
    let mut fake = Fake::new(&place.join("recorded"));
    let class = fake.class("put", &[("n", Kind::U64)]);
    let mut lane = fake.lane("a", "t", 1, 1);
    (0..events).for_each(|t| lane.event(t, class, &[Field::U64(t * t)]));
    lane.finish();
    fake.finish();
    place.join("recorded")
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => found.extend(files(&path).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes))),
            false => found.push((name, fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

fn tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out: Vec<u8> = files.iter().flat_map(|(name, bytes)| tar_entry(&format!("./run/{name}"), b'0', "", bytes)).collect();
    out.extend([0; 1024]);
    out
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// Compresses to two frames with a skippable frame between them.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let frame = |bytes: &[u8]| ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest);
    let (first, second) = bytes.split_at(bytes.len() / 3);
    [frame(first), b"\x51\x2a\x4d\x18\x03\0\0\0abc".to_vec(), frame(second)].concat()
}

fn zip(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        out.start_file(name, SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated)).unwrap();
        out.write_all(bytes).unwrap();
    }
    out.finish().unwrap().into_inner()
}

fn packed(place: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = place.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn told(path: &Path) -> Result<(Vec<String>, Vec<Diagnostic>), Error> {
    let mut trace = Trace::open(&[path], Options::default())?;
    let mut lines = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        lines.push(match item {
            Item::Event(event) => format!("{} {} {:?}", event.t_ns, catalogue.classes[event.class.0 as usize].event_name, event.fields),
            Item::Loss(loss) => format!("{loss:?}"),
        });
    }
    Ok((lines, trace.diagnostics().to_vec()))
}

#[test]
fn archive_of_any_format_opens_like_its_content() {
    let place = TempDir::new().unwrap();
    let plain = folder(place.path(), 20_000);
    let (expected, _) = told(&plain).unwrap();
    assert_eq!(expected.len(), 20_000);
    let files = files(&plain);
    let tar = tar(&files);
    let all = [("x.tar", tar.clone()), ("x.tar.gz", gzip(&tar)), ("tar.zst", zstd(&tar)), ("x", zip(&files)), ("y.zip", zip(&files))];
    for (name, bytes) in all {
        let (lines, diagnostics) = told(&packed(place.path(), name, &bytes)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(lines == expected, "{name}: {} events", lines.len());
        assert!(!diagnostics.iter().any(Diagnostic::is_damage), "{name}: {diagnostics:?}");
    }
}

#[test]
fn compressed_file_opens_like_the_uncompressed_file() {
    let place = TempDir::new().unwrap();
    let json = br#"[{"name":"a","ph":"i","ts":1.5}]"#;
    for bytes in [gzip(json), zstd(json)] {
        assert_eq!(told(&packed(place.path(), "trace.json.gz", &bytes)).unwrap().0, ["1500 a [Str([105])]"]);
    }
}

#[test]
fn folder_is_removed_with_its_reader() {
    let place = TempDir::new().unwrap();
    let archive = packed(place.path(), "x.tar", &tar(&files(&folder(place.path(), 3))));
    let unpacked = unpack(&archive).unwrap().unwrap();
    let root = unpacked.root().to_owned();
    assert!(root.join("x.tar/run/user/metadata").is_file());
    // No other user can read the folder.
    assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
    // Another reader does not remove a folder in use.
    drop(unpack(&archive).unwrap());
    assert!(root.exists());
    drop(unpacked);
    assert!(!root.exists());
    assert!(unpack(&folder(place.path(), 1)).unwrap().is_none());
}

#[test]
fn entries_cannot_lead_out_of_the_folder() {
    let place = TempDir::new().unwrap();
    let outside = place.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let out = outside.to_str().unwrap();
    let json = br#"[{"name":"a","ph":"i","ts":1}]"#;
    let bytes = [
        tar_entry("../../../../../../outside/a", b'0', "", b"a"),
        tar_entry(&format!("{out}/b"), b'0', "", b"b"),
        tar_entry("link", b'2', out, b""),
        tar_entry("link/c", b'0', "", b"c"),
        tar_entry("hard", b'1', "/etc/passwd", b""),
        tar_entry("pipe", b'6', "", b""),
        tar_entry("good.json", b'0', "", json),
        vec![0; 1024],
    ]
    .concat();
    let (lines, diagnostics) = told(&packed(place.path(), "x.tar", &bytes)).unwrap();
    assert_eq!(lines.len(), 1);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(diagnostics.iter().any(|diagnostic| matches!(diagnostic, Diagnostic::NotUnpacked { entries: 3, .. })), "{diagnostics:?}");
    assert!(diagnostics.iter().any(|diagnostic| diagnostic.to_string().contains("leads outside of the archive")), "{diagnostics:?}");
}

#[test]
fn link_to_a_file_of_the_archive_becomes_that_file() {
    let place = TempDir::new().unwrap();
    let json = |t: u32| format!(r#"[{{"name":"a","ph":"i","ts":{t}}}]"#).into_bytes();
    let bytes = [
        // A link to a later entry, a link to a link, and a link to itself.
        tar_entry("run/first.json", b'2', "../other/second.json", b""),
        tar_entry("other/second.json", b'2', "real.json", b""),
        tar_entry("round.json", b'2', "round.json", b""),
        tar_entry("other/real.json", b'0', "", &json(1)),
        tar_entry("hard.json", b'1', "./other/real.json", b""),
        vec![0; 1024],
    ]
    .concat();
    let (lines, diagnostics) = told(&packed(place.path(), "x.tar", &bytes)).unwrap();
    assert_eq!(lines.len(), 4);
    assert!(matches!(diagnostics.as_slice(), [Diagnostic::NotUnpacked { entries: 1, .. }]), "{diagnostics:?}");
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink("link.json", "in/real.json", SimpleFileOptions::default()).unwrap();
    zip.add_symlink("out.json", "../../etc/passwd", SimpleFileOptions::default()).unwrap();
    zip.start_file("in/real.json", SimpleFileOptions::default()).unwrap();
    zip.write_all(&json(2)).unwrap();
    let (lines, diagnostics) = told(&packed(place.path(), "x.zip", &zip.finish().unwrap().into_inner())).unwrap();
    assert_eq!(lines.len(), 2);
    assert!(matches!(diagnostics.as_slice(), [Diagnostic::NotUnpacked { entries: 1, .. }]), "{diagnostics:?}");
}

/// Makes a record of a pax header.
fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let length = (rest..).find(|length| length.to_string().len() + rest == *length).unwrap();
    format!("{length} {key}={value}\n")
}

#[test]
fn sparse_files_of_all_pax_versions_are_unpacked_with_their_holes() {
    let place = TempDir::new().unwrap();
    let text = br#"[{"name":"a","ph":"i","ts":1},{"name":"b","ph":"i","ts":2}]"#;
    let (first, second) = text.split_at(30);
    let content = |name: &str, bytes: &[u8]| {
        let unpacked = unpack(&packed(place.path(), "x.tar", bytes)).unwrap().unwrap();
        (fs::read(unpacked.content().join(name)).unwrap(), unpacked.diagnostics.clone())
    };
    let mut expected = first.to_vec();
    expected.resize(5000, 0);
    expected.extend(second);
    expected.resize(9000, 0);
    let said =
        |records: &[(&str, &str)]| records.iter().map(|(key, value)| record(&format!("GNU.sparse.{key}"), value)).collect::<String>();
    let map = format!("2\n0\n30\n5000\n{}\n", second.len());
    let before = [map.as_bytes(), &vec![0; 512 - map.len()], text].concat();
    let numbers = format!("0,30,5000,{}", second.len());
    let length = second.len().to_string();
    let ways = [
        (said(&[("major", "1"), ("minor", "0"), ("name", "d/x"), ("realsize", "9000")]), before.clone()),
        (said(&[("size", "9000"), ("numblocks", "2"), ("name", "d/x"), ("map", &numbers)]), text.to_vec()),
        (
            said(&[("size", "9000"), ("offset", "0"), ("numbytes", "30"), ("offset", "5000"), ("numbytes", &length), ("name", "d/x")]),
            text.to_vec(),
        ),
    ];
    for (header, stored) in ways {
        let bytes =
            [tar_entry("h", b'x', "", header.as_bytes()), tar_entry("GNUSparseFile.0/x", b'0', "", &stored), vec![0; 1024]].concat();
        let (found, diagnostics) = content("d/x", &bytes);
        assert!(found == expected, "{header}");
        assert_eq!(diagnostics, []);
    }
    // Invalid descriptions of the parts are refused.
    let header = said(&[("major", "1"), ("minor", "0"), ("name", "x"), ("realsize", "9000")]);
    for wrong in ["2\n10\n30\n0\n5\n", "99999999\n", "1\n0\n99999999999999999999999\n", "x\n", "1\n0\n4000\n"] {
        let stored = [wrong.as_bytes(), &vec![b'\n'; 1024 - wrong.len()]].concat();
        let bytes = [tar_entry("h", b'x', "", header.as_bytes()), tar_entry("x", b'0', "", &stored), vec![0; 1024]].concat();
        match unpack(&packed(place.path(), "x.tar", &bytes)) {
            Ok(unpacked) => assert!(unpacked.unwrap().diagnostics.iter().any(Diagnostic::is_damage), "{wrong:?}"),
            Err(error) => assert!(error.to_string().contains("x.tar"), "{error}"),
        }
    }
}

#[test]
fn archive_that_expands_out_of_proportion_is_refused() {
    let place = TempDir::new().unwrap();
    // A frame of unknown length, with blocks that repeat one byte.
    let mut bomb = b"\x28\xb5\x2f\xfd\x00\x58".to_vec();
    for _ in 0..3000 {
        bomb.extend_from_slice(&(2u32 | (128 << 10) << 3).to_le_bytes()[..3]);
        bomb.push(b'x');
    }
    let error = told(&packed(place.path(), "bomb.zst", &bomb)).err().unwrap();
    assert!(matches!(error, Error::Archive { .. }) && error.to_string().contains("more than any trace"), "{error}");
    // An entry with a name of 64 MiB.
    let long = gzip(&[tar_entry("././@LongLink", b'L', "", &vec![b'n'; 64 << 20]), tar_entry("x", b'0', "", b"x")].concat());
    let error = told(&packed(place.path(), "long.tar.gz", &long)).err().unwrap();
    assert!(error.to_string().contains("headers of an entry are longer"), "{error}");
}

#[test]
fn truncated_archive_is_read_up_to_its_end_and_reported() {
    let place = TempDir::new().unwrap();
    let mut files = files(&folder(place.path(), 20_000));
    files.sort_by_key(|(name, _)| !name.ends_with("metadata"));
    let tar = tar(&files);
    // A tar ends in two empty blocks, of which one is enough.
    for (name, whole, needed) in [
        ("x.tar", tar.clone(), tar.len() - 1024),
        ("x.tar.gz", gzip(&tar), usize::MAX),
        ("x.tar.zst", zstd(&tar), usize::MAX),
        ("x.zip", zip(&files), usize::MAX),
    ] {
        let (mut read, mut refused) = (0, 0);
        let steps =
            (1..whole.len().min(needed)).step_by(whole.len() / 20 + 1).chain(whole.len().min(needed).saturating_sub(10)..whole.len());
        for cut in steps.filter(|cut| *cut < whole.len().min(needed)) {
            match told(&packed(place.path(), name, &whole[..cut])) {
                Ok((lines, diagnostics)) => {
                    read += lines.len();
                    assert!(lines.len() <= 20_000);
                    let told = diagnostics.iter().find(|diagnostic| diagnostic.is_damage() && diagnostic.to_string().contains(name));
                    let told = told.unwrap_or_else(|| panic!("{name} cut at {cut}: {diagnostics:?}")).to_string();
                    assert!(told.contains(&format!("it ends at byte {cut}")), "{name} {cut}: {told}");
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().contains(name), "{name} {cut}: {error}");
                }
            }
        }
        assert!(read > 1000, "{name}: {read} events, {refused} refused");
    }
}

#[test]
fn damaged_archive_leads_to_an_error_or_to_events_and_never_to_a_panic() {
    let place = TempDir::new().unwrap();
    let files = files(&folder(place.path(), 20));
    let tar = tar(&files);
    let mut random = 1u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for whole in [tar.clone(), gzip(&tar), zstd(&tar), zip(&files)] {
        for _ in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..1 + next(8) {
                let at = next(bytes.len());
                bytes[at] = [0, 0xff, bytes[at] ^ (1 << next(8)), next(256) as u8][next(4)];
            }
            match told(&packed(place.path(), "x", &bytes)) {
                Ok(_) => {}
                Err(error) => drop(error.to_string()),
            }
        }
    }
}

#[test]
fn truncation_is_reported_in_plain_words() {
    let place = TempDir::new().unwrap();
    let tar = tar(&files(&folder(place.path(), 20)));
    for whole in [gzip(&tar), zstd(&tar)] {
        let mut cut = 0;
        for length in (5..whole.len() - 4).step_by(whole.len() / 40) {
            let said = match told(&packed(place.path(), "x", &whole[..length])) {
                Ok((_, diagnostics)) => diagnostics.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n"),
                Err(error) => error.to_string(),
            };
            // Decoders may report an error in the shortened data before its end.
            cut += u32::from(said.contains(&format!("it ends at byte {length}, too soon")));
            assert!(!said.contains("Error"), "{said}");
        }
        assert!(cut > 3, "{cut}");
    }
}

#[test]
fn unsupported_packing_is_refused_with_its_name() {
    let place = TempDir::new().unwrap();
    let error = told(&packed(place.path(), "x.tar.xz", b"\xfd7zXZ\0\0\x04abc")).err().unwrap().to_string();
    assert!(error.contains("it is xz") && error.contains("xz -dk"), "{error}");
}
