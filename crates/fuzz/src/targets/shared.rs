//! Shared memory that programs leave for the recorder: rings, control and session files, the site
//! table.
//!
//! The whole recorder runs in this process. It finds a process with two rings and some events,
//! which the input then changes: the input is a sequence of changes of 12 bytes each (kind, file,
//! position, value), some of which instead let the recorder do one turn. At the end the recording
//! is read.

use super::{traces, Target};
use longpole_abi::{Kind, Ring, SiteEntry, Subbuffer, CLOCK_MONO_RAW, CONTROL_SIZE, MAGIC, RING_DATA, SUBBUFFER_HEADER, VERSION};
use longpole_record::Options;
use longpole_record::Recorder;
use longpole_record::Scope;
use longpole_trace::Options as ReadOptions;
use std::fs::{self, File};
use std::mem::{offset_of, size_of};
use std::os::unix::fs::{symlink, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const SIZE: usize = 32768;
const SITES: usize = size_of::<longpole_abi::Sites>();
const STEP: usize = 12;
/// Number of an event class in the site table.
const NUMBERED: u16 = 100;

pub const RINGS: Target = Target {
    name: "rings",
    what: "the recorder while a program writes random bytes to its files",
    seeds,
    words: &[],
    run: |input, folder| run(input, folder, false),
};

pub const SITES_TARGET: Target = Target {
    name: "sites",
    what: "the recorder while a program writes random bytes to a site table",
    seeds,
    words: &[],
    run: |input, folder| run(input, folder, true),
};

/// Inputs with changes at the most sensitive places.
fn seeds(_: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let change = |what: u8, file: u8, at: usize, value: u64| {
        let mut bytes = vec![what, file];
        bytes.extend((at as u16).to_le_bytes());
        bytes.extend(value.to_le_bytes());
        bytes
    };
    let turn = change(5, 0, 0, 0);
    let mut all = Vec::new();
    let words = [
        offset_of!(Ring, head),
        offset_of!(Ring, last),
        offset_of!(Ring, lost),
        offset_of!(Ring, state),
        offset_of!(Ring, events),
        offset_of!(Ring, tail),
        offset_of!(Ring, successor),
        offset_of!(Ring, tid),
        offset_of!(Ring, mode),
        offset_of!(Ring, size),
        offset_of!(Ring, clock),
        RING_DATA + offset_of!(Subbuffer, begin),
        RING_DATA + offset_of!(Subbuffer, content),
        RING_DATA + offset_of!(Subbuffer, last),
        RING_DATA + 256,
        RING_DATA + 264,
    ];
    for word in words {
        all.push([change(0, 1, word / 8, 0), turn.clone(), change(0, 1, word / 8, 8456), turn.clone()].concat());
    }
    for what in 6..8 {
        for file in 0..6 {
            all.push([turn.clone(), change(what, file, 0, 100), turn.clone(), change(0, 2, 0, 600), turn.clone()].concat());
        }
    }
    // Slots and entries of the site table.
    let slot = offset_of!(longpole_abi::Sites, slots) + 4 * usize::from(NUMBERED);
    for at in [0, 8, 16, 24, slot, SITES + 8, SITES + 16, SITES + 24, SITES + 40] {
        all.push([change(1, 4, at / 8, 7), turn.clone(), change(0, 1, 0, 600), turn.clone()].concat());
    }
    Ok(all)
}

/// The files that a program with two threads leaves after it has written some events.
struct Files {
    names: Vec<String>,
    files: Vec<File>,
}

impl Files {
    fn make(runtime: &Path) -> std::io::Result<Files> {
        let stem = format!("{}-0000abcd", std::process::id());
        let mut made = Files { names: Vec::new(), files: Vec::new() };
        made.add(runtime, format!("{stem}.control"), control())?;
        for number in 0..2 {
            made.add(runtime, format!("{stem}.{number}.ring"), ring(number))?;
        }
        made.add(runtime, "session".to_owned(), vec![0; 4096])?;
        made.add(runtime, "sites".to_owned(), sites())?;
        made.add(runtime, format!("{stem}.s0.ring"), ring(7))?;
        Ok(made)
    }

    fn add(&mut self, runtime: &Path, name: String, bytes: Vec<u8>) -> std::io::Result<()> {
        let path = runtime.join(&name);
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all_at(&bytes, 0)?;
        file.set_permissions(fs::Permissions::from_mode(0o400))?;
        self.names.push(name);
        self.files.push(file);
        Ok(())
    }
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
}

fn control() -> Vec<u8> {
    let mut bytes = vec![0; CONTROL_SIZE];
    put(&mut bytes, 64, MAGIC);
    bytes[72..76].copy_from_slice(&VERSION.to_ne_bytes());
    bytes[76..80].copy_from_slice(&std::process::id().to_ne_bytes());
    bytes[96..100].copy_from_slice(&2u32.to_ne_bytes());
    bytes[112..120].copy_from_slice(b"scribble");
    bytes
}

/// A ring with a complete sub-buffer and the begin of another one.
fn ring(number: u64) -> Vec<u8> {
    const SUBBUFFER: usize = SIZE / 4;
    let mut bytes = vec![0; RING_DATA + SIZE];
    let begin = 1_000_000_000 + number;
    let event = |bytes: &mut [u8], at: usize, count: u64| {
        put(bytes, RING_DATA + at, (begin + count) << 16 | u64::from(NUMBERED));
        put(bytes, RING_DATA + at + 8, count);
    };
    let mut count = 0;
    for subbuffer in 0..2 {
        let base = subbuffer * SUBBUFFER;
        let events = if subbuffer == 0 { 20 } else { 5 };
        put(&mut bytes, RING_DATA + base + offset_of!(Subbuffer, begin), begin + count);
        put(&mut bytes, RING_DATA + base + offset_of!(Subbuffer, position), base as u64);
        put(&mut bytes, RING_DATA + base + offset_of!(Subbuffer, events), count);
        for at in 0..events {
            event(&mut bytes, base + SUBBUFFER_HEADER as usize + 16 * at, count);
            count += 1;
        }
        let content = SUBBUFFER_HEADER + 16 * events as u64;
        put(&mut bytes, RING_DATA + base + offset_of!(Subbuffer, content), content);
    }
    put(&mut bytes, offset_of!(Ring, head), (SUBBUFFER + SUBBUFFER_HEADER as usize + 80) as u64);
    put(&mut bytes, offset_of!(Ring, mask), SIZE as u64 - 1);
    put(&mut bytes, offset_of!(Ring, last), (begin + count - 1) << 16 | u64::from(NUMBERED));
    put(&mut bytes, offset_of!(Ring, events), count);
    put(&mut bytes, offset_of!(Ring, magic), MAGIC);
    put(&mut bytes, offset_of!(Ring, version), u64::from(VERSION));
    put(&mut bytes, offset_of!(Ring, size), SIZE as u64);
    put(&mut bytes, offset_of!(Ring, subbuffer), SUBBUFFER as u64);
    let at = offset_of!(Ring, clock);
    bytes[at..at + 4].copy_from_slice(&CLOCK_MONO_RAW.to_ne_bytes());
    bytes
}

fn sites() -> Vec<u8> {
    let mut bytes = vec![0; SITES + 65_536];
    put(&mut bytes, 0, MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_ne_bytes());
    let (name, fields) = (b"numbered", b"value:u64");
    let size = (size_of::<SiteEntry>() + name.len() + fields.len()).next_multiple_of(8);
    let mut entry = Vec::new();
    entry.extend((size as u32).to_ne_bytes());
    for half in [Kind::Mark as u16, name.len() as u16, fields.len() as u16, 0, 0, 0] {
        entry.extend(half.to_ne_bytes());
    }
    entry.extend([0; 8]);
    entry.extend(name);
    entry.extend(fields);
    bytes[SITES + 8..SITES + 8 + entry.len()].copy_from_slice(&entry);
    put(&mut bytes, offset_of!(longpole_abi::Sites, arena_next), 8 + size as u64);
    put(&mut bytes, offset_of!(longpole_abi::Sites, arena_size), 65_536);
    let slot = offset_of!(longpole_abi::Sites, slots) + 4 * usize::from(NUMBERED);
    bytes[slot..slot + 4].copy_from_slice(&1u32.to_ne_bytes());
    bytes
}

fn run(input: &[u8], folder: &Path, in_sites: bool) {
    let (runtime, root) = (folder.join("run"), folder.join("traces"));
    for path in [&runtime, &root] {
        let _ = fs::remove_dir_all(path);
    }
    // `set_var` needs that no other thread exists, which is the case here.
    std::env::set_var("LONGPOLE_RUNTIME_DIR", &runtime);
    std::env::set_var("LONGPOLE_CLOCK", "mono_raw");
    let made = fs::create_dir(&runtime).and_then(|()| fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)));
    let mut files = match made.and_then(|()| Files::make(&runtime)) {
        Ok(files) => files,
        Err(error) => panic!("the files cannot be made: {error}"),
    };
    let mut changes = input.chunks_exact(STEP).take(64);
    // Some of the changes are made before the recorder starts.
    for change in changes.by_ref().take(input.first().map_or(0, |first| usize::from(first % 4))) {
        apply(change, &runtime, &mut files, in_sites);
    }
    let options = Options {
        root: Some(root),
        config: None,
        scope: Scope::Everything,
        selection: None,
        buffer: None,
        mode: None,
        max_size: None,
        default_max_size: None,
        max_age: None,
        command: Vec::new(),
        probe_cost_ns: None,
        kernel: None,
        stacks: None,
        packets: None,
        snaplen: None,
        steady: None,
    };
    let Ok(mut recorder) = Recorder::start(options, None) else { return };
    for change in changes {
        if change[0] % 8 == 5 {
            if recorder.turn().is_err() {
                break;
            }
        } else {
            apply(change, &runtime, &mut files, in_sites);
        }
    }
    let _ = recorder.turn();
    let outcome = recorder.finish();
    traces::read(&outcome.path, ReadOptions::default());
}

fn apply(change: &[u8], runtime: &Path, files: &mut Files, in_sites: bool) {
    let [what, file, low, high, value @ ..] = change else { return };
    let at = usize::from(u16::from_le_bytes([*low, *high]));
    let value = value.try_into().map_or(0, u64::from_le_bytes);
    let index = if in_sites && file % 4 != 0 { 4 } else { usize::from(*file) % files.files.len() };
    let path = runtime.join(&files.names[index]);
    let Some(open) = files.files.get(index) else { return };
    let length = open.metadata().map_or(0, |found| found.len());
    // The position counts words of 8 bytes, because the site table has more bytes than 16 bits can
    // address.
    let at = (at * 8) as u64 % length.max(1);
    match what % 8 {
        // The write may extend beyond the end of the file.
        0..=2 => drop(open.write_all_at(&value.to_ne_bytes(), at)),
        3 => drop(open.write_all_at(&value.to_ne_bytes()[..4], at)),
        4 => drop(open.write_all_at(&value.to_ne_bytes()[..1], at)),
        6 => drop(open.set_len(value % (4 * RING_DATA as u64 + length))),
        7 => {
            let _ = fs::remove_file(&path);
            let other = match value % 4 {
                0 => return,
                1 => return drop(symlink("/dev/zero", &path)),
                2 => control(),
                _ => ring(value % 100),
            };
            let made = File::options().read(true).write(true).create_new(true).mode(0o400).open(&path);
            if let Ok(made) = made.and_then(|made| made.write_all_at(&other, 0).map(|()| made)) {
                files.files[index] = made;
            }
        }
        _ => {}
    }
}
