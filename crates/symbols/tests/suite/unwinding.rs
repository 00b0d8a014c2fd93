//! Copies of real stacks, from the recording to the functions: unwinding, and what remains of the
//! copies.

use crate::stream::{Stream, METADATA};
use longpole_symbols::{complete, remaining, Remaining, Stacks};
use longpole_trace::{Item, Options, Trace};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const SECRET: &[u8] = b"secret of the stack";
/// Functions of the program in its stack, innermost first.
const NESTED: [&str; 9] = ["leaf", "handler", "recurse", "recurse", "recurse", "recurse", "dynamic", "aligned", "outer"];

/// A thread that was stopped, with what the recorder would have copied of it.
struct Stopped {
    child: Child,
    tid: i32,
    registers: [u64; 4],
    stack: Vec<u8>,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // The process ends when its tracer has taken note of the end of the traced thread.
        // SAFETY: waiting for a thread of our own child.
        unsafe { libc::waitpid(self.tid, std::ptr::null_mut(), libc::__WALL) };
        let _ = self.child.wait();
    }
}

fn build(folder: &Path, flags: &[&str]) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/nested.c");
    let program = folder.join("nested");
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread"].iter().chain(flags);
    assert!(Command::new("cc").args(flags).arg("-o").arg(&program).arg(source).status().unwrap().success());
    program
}

#[cfg(target_arch = "x86_64")]
fn registers(tid: i32) -> [u64; 4] {
    // SAFETY: the structure consists of integers.
    let mut found: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: the thread is stopped, and the kernel writes one structure.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid, 0, &mut found) }, 0);
    [found.rip, found.rsp, found.rbp, 0]
}

#[cfg(target_arch = "aarch64")]
fn registers(tid: i32) -> [u64; 4] {
    // SAFETY: the structure consists of integers.
    let mut found: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let mut vector = libc::iovec { iov_base: (&raw mut found).cast(), iov_len: size_of_val(&found) };
    // SAFETY: the thread is stopped, and the kernel writes at most one structure.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, 1, &mut vector) }, 0);
    [found.pc, found.sp, found.regs[29], found.regs[30]]
}

/// Starts the program, and stops its last thread where it waits.
fn stop(program: &Path, arguments: &[&str]) -> Stopped {
    stop_one(program, arguments, |threads| threads[threads.len() - 1])
}

/// Starts the program, and stops one of its threads, which `choose` takes from all in the order of
/// their ids, where it waits.
fn stop_one(program: &Path, arguments: &[&str], choose: impl Fn(&[i32]) -> i32) -> Stopped {
    let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let mut threads: Vec<i32> = threads.map(|thread| thread.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    threads.sort_unstable();
    let tid = choose(&threads);
    // Until it waits, it may still be in the dynamic linker.
    let state = || fs::read_to_string(format!("/proc/{tid}/stat")).unwrap().rsplit_once(") ").unwrap().1.starts_with('S');
    while !state() {
        std::thread::yield_now();
    }
    // SAFETY: these calls stop our own child and wait for that.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0), 0);
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0), 0);
        assert_eq!(libc::waitpid(tid, std::ptr::null_mut(), libc::__WALL), tid);
    }
    let registers = registers(tid);
    let end = maps(child.id()).find(|(start, end, ..)| (*start..*end).contains(&registers[1])).unwrap().1;
    let mut stack = vec![0; (end - registers[1]).min(64 << 10) as usize];
    File::open(format!("/proc/{}/mem", child.id())).unwrap().read_exact_at(&mut stack, registers[1]).unwrap();
    Stopped { child, tid, registers, stack }
}

/// Begin, end, permissions, offset, inode and path of each mapping.
fn maps(pid: u32) -> impl Iterator<Item = (u64, u64, String, u64, u64, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.into_iter().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = words[0].split_once('-').unwrap();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let path = words.get(5).unwrap_or(&"").to_string();
        (number(start), number(end), words[1].to_owned(), number(words[2]), words[4].parse().unwrap(), path)
    })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Makes a recording whose times are Unix times.
fn recording(begin: &Stream, cpus: &[Vec<u8>]) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for folder in ["samples", "symbols", "user"] {
        fs::create_dir(place.path().join(folder)).unwrap();
    }
    let clock =
        [("freq = 2599998132", "freq = 1000000000"), ("offset_s = 1795296710", "offset_s = 0"), ("offset = 1019740570", "offset = 0")];
    let metadata = clock.iter().fold(METADATA.to_owned(), |text, (from, to)| text.replace(from, to));
    fs::write(place.path().join("longpole.json"), b"{\"host\":\"elsewhere\"}").unwrap();
    fs::write(place.path().join("samples/metadata"), metadata).unwrap();
    fs::write(place.path().join("samples/begin"), begin.bytes(1)).unwrap();
    for (number, cpu) in cpus.iter().enumerate() {
        fs::write(place.path().join(format!("samples/cpu{number}")), cpu).unwrap();
    }
    place
}

fn begin(stopped: &Stopped) -> Stream {
    let mut begin = Stream::default();
    let pid = stopped.child.id() as i32;
    begin.comm(now(), pid, 0, "nested");
    for (start, end, permissions, offset, inode, path) in maps(stopped.child.id()) {
        if permissions.contains('x') && !path.is_empty() {
            begin.mapping_of(now(), pid, (start, end - start, offset), inode, &path);
        }
    }
    begin
}

fn copied<'a>(stream: &'a mut Stream, stopped: &Stopped, bytes: usize) -> &'a mut Stream {
    let pid = stopped.child.id() as i32;
    let stack = &stopped.stack[..bytes.min(stopped.stack.len())];
    stream.copied(now(), pid, 1, &stopped.registers[..1], stopped.registers, stack)
}

/// Returns the addresses that the kernel finds by frame pointers.
fn chain(stopped: &Stopped) -> Vec<u64> {
    let memory = File::open(format!("/proc/{}/mem", stopped.child.id())).unwrap();
    let [ip, _, mut fp, _] = stopped.registers;
    let mut found = vec![ip];
    let mut frame = [0; 16];
    while found.len() < 100 && memory.read_exact_at(&mut frame, fp).is_ok() {
        let [next, address] = [0, 8].map(|at| u64::from_ne_bytes(*frame[at..].first_chunk().unwrap()));
        found.push(address);
        fp = next;
    }
    found
}

fn unwound(recording: &Path) -> Vec<(bool, Vec<String>)> {
    let done = complete(recording, &mut |_, _| {}, &|| false).unwrap();
    assert!(done.diagnostics.is_empty(), "{:?}", done.diagnostics);
    stacks(recording)
}

/// For each stack, whether it is truncated, and its functions in the program, innermost first.
fn stacks(recording: &Path) -> Vec<(bool, Vec<String>)> {
    let mut trace = Trace::open(&[recording], Options::default()).unwrap();
    let mut stacks = Stacks::open(Some(recording));
    let mut found = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        let Item::Event(event) = item else { continue };
        let Some(stack) = stacks.follow(catalogue, &event) else { continue };
        let (truncated, frames) = (stack.truncated, stack.frames.to_vec());
        let frames = frames.iter().map(|id| stacks.frame(*id)).filter(|frame| frame.module == "nested");
        found.push((truncated, frames.map(|frame| frame.function.clone()).collect()));
    }
    found
}

#[test]
fn stacks_without_frame_pointers_are_unwound_to_the_first_function() {
    for flags in [&[][..], &["-static"], &["-fcf-protection=none", "-no-pie"], &["-gdwarf-5"]] {
        let place = tempfile::tempdir().unwrap();
        let program = build(place.path(), flags);
        for arguments in [&[][..], &["thread"]] {
            let stopped = stop(&program, arguments);
            let recording = recording(&begin(&stopped), &[copied(&mut Stream::default(), &stopped, usize::MAX).bytes(0)]);
            let (truncated, functions) = unwound(recording.path()).remove(0);
            assert!(!truncated, "{flags:?} {arguments:?}: {functions:?}");
            let own: Vec<&str> = functions.iter().map(String::as_str).filter(|name| NESTED.contains(name)).collect();
            assert_eq!(own, NESTED, "{flags:?} {arguments:?}: {functions:?}");
            let first = if arguments.is_empty() { "main" } else { "thread" };
            assert!(functions.iter().any(|name| name == first), "{flags:?}: {functions:?}");
            assert!(stopped.tid == stopped.child.id() as i32 || !arguments.is_empty());
        }
    }
}

#[test]
fn the_code_at_which_a_program_begins_is_the_first_function_without_a_table() {
    let place = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/start.c");
    let program = place.path().join("nested");
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-nostdlib", "-static", "-fno-stack-protector"];
    assert!(Command::new("cc").args(flags).arg("-o").arg(&program).arg(source).status().unwrap().success());
    let stopped = stop(&program, &[]);
    let recording = recording(&begin(&stopped), &[copied(&mut Stream::default(), &stopped, usize::MAX).bytes(0)]);
    let found = unwound(recording.path());
    assert_eq!(found, [(false, ["leaf", "start", "_start"].map(str::to_owned).to_vec())]);
}

#[test]
fn stacks_of_go_end_where_its_runtime_says() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/waits.go");
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("nested");
    // With and without names and unwinding tables, and for any address.
    for flags in [&["-ldflags="][..], &["-ldflags=-s -w"], &["-buildmode=pie"]] {
        let mut go = Command::new("go");
        go.args(["build", "-o"]).arg(&program).args(flags).arg(source).env("CGO_ENABLED", "0").env("GO111MODULE", "off");
        match go.status() {
            Err(_) => return println!("skipped: go is missing"),
            Ok(status) => assert!(status.success()),
        }
        // The goroutine of the first thread, and a thread of the runtime.
        for thread in [0, 1] {
            let stopped = stop_one(&program, &[], |threads| threads[thread]);
            let (pid, begin, mut stream) = (stopped.child.id() as i32, begin(&stopped), Stream::default());
            stream.copied(now(), pid, 1, &chain(&stopped), stopped.registers, &stopped.stack);
            let recording = recording(&begin, &[stream.bytes(0)]);
            let (truncated, functions) = unwound(recording.path()).remove(0);
            assert!(!truncated && functions.len() > 2, "{flags:?} {thread}: {functions:?}");
            if thread == 0 && flags[0] != "-ldflags=-s -w" {
                let (first, rest) = functions.split_last().unwrap();
                let of_program: Vec<&str> = rest[rest.len() - 4..].iter().map(String::as_str).collect();
                assert_eq!(of_program, ["main.leaf", "main.outer", "main.main", "runtime.main"]);
                assert!(first.starts_with("runtime.goexit"), "{first}");
            }
        }
    }
}

#[test]
fn a_stack_that_was_copied_in_part_is_marked_and_has_no_wrong_functions() {
    let place = tempfile::tempdir().unwrap();
    let stopped = stop(&build(place.path(), &[]), &[]);
    let (begin, mut stream) = (begin(&stopped), Stream::default());
    let sizes = [0, 8, 64, 200, 400, 1200, 1600, 2000, 4096, usize::MAX];
    for bytes in sizes {
        copied(&mut stream, &stopped, bytes);
    }
    let recording = recording(&begin, &[stream.bytes(0)]);
    let found = unwound(recording.path());
    let whole = &found.last().unwrap().1;
    assert_eq!(found.len(), sizes.len());
    for (truncated, functions) in &found {
        assert!(whole.starts_with(functions) && *truncated == (functions.len() < whole.len()), "{functions:?} of {whole:?}");
    }
    assert!(found[0].0 && found.iter().filter(|(truncated, _)| *truncated).count() >= 4, "{found:?}");
}

#[test]
fn a_removed_program_keeps_the_stack_by_frame_pointers() {
    let place = tempfile::tempdir().unwrap();
    let program = build(place.path(), &[]);
    let mut stopped = stop(&program, &[]);
    let begin = begin(&stopped);
    // The thread waits in another module; here it is in the program.
    let is_code = |permissions: &str, path: &str| permissions.contains('x') && Path::new(path) == program;
    let code = maps(stopped.child.id()).find(|(_, _, permissions, _, _, path)| is_code(permissions, path)).unwrap();
    let ip = code.0 + 64;
    stopped.registers[0] = ip;
    let chain = [ip, ip + 16, ip + 32, ip + 48, ip + 16];
    let pid = stopped.child.id() as i32;
    let mut stream = Stream::default();
    stream.copied(now(), pid, 1, &chain, stopped.registers, &stopped.stack);
    let recording = recording(&begin, &[stream.bytes(0)]);
    drop(stopped);
    fs::remove_file(&program).unwrap();
    complete(recording.path(), &mut |_, _| {}, &|| false).unwrap();
    let (truncated, functions) = stacks(recording.path()).remove(0);
    assert!(truncated && functions.len() == chain.len(), "{functions:?}");
}

#[test]
fn copies_are_removed_and_an_interrupted_conversion_is_continued() {
    let place = tempfile::tempdir().unwrap();
    let stopped = stop(&build(place.path(), &[]), &[]);
    let cpu = |count: usize| {
        (0..count).fold(Stream::default(), |mut stream, _| {
            copied(&mut stream, &stopped, usize::MAX);
            stream
        })
    };
    let recording = recording(&begin(&stopped), &[cpu(3).bytes(0), cpu(2).bytes(0)]);
    let has_secret = |name: &str| {
        let bytes = fs::read(recording.path().join("samples").join(name)).unwrap();
        bytes.windows(SECRET.len()).any(|window| window == SECRET)
    };
    assert!(has_secret("cpu0") && has_secret("cpu1"));
    assert!(complete(recording.path(), &mut |_, _| {}, &|| true).is_err());
    assert!(!recording.path().join("symbols/functions.jsonl").exists());
    assert_eq!(remaining(recording.path()), Some(Remaining { stacks: 5, host: Some("elsewhere".to_owned()) }));
    // What a killed process leaves.
    fs::write(recording.path().join("samples/.cpu0"), b"half").unwrap();
    let before = stacks(recording.path());
    assert_eq!(before.len(), 5);
    let found = unwound(recording.path());
    assert!(found.len() == 5 && found.iter().all(|(truncated, functions)| !truncated && functions.len() > NESTED.len()), "{found:?}");
    assert!(!has_secret("cpu0") && !has_secret("cpu1"));
    assert_eq!(remaining(recording.path()), None);
    let mut names: Vec<_> = fs::read_dir(recording.path().join("samples")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["begin", "cpu0", "cpu1", "metadata"]);
}

#[test]
fn damage_costs_only_the_events_behind_it_in_its_packet() {
    let place = tempfile::tempdir().unwrap();
    let stopped = stop(&build(place.path(), &[]), &[]);
    let packet = || copied(copied(copied(&mut Stream::default(), &stopped, 2000), &stopped, 2000), &stopped, 2000).padded(0);
    let begin = begin(&stopped);
    let (first, second, third) = (packet(), packet(), packet());
    let length = first.len();
    // In the second packet, the class of the second event is wrong.
    let mut damaged = [first.clone(), second, third.clone()].concat();
    let event = length + 76 + (2000 + 18 + 5 + 2 + 2 + 8 + 32 + 4);
    damaged[event] = 99;
    // Bytes between two packets that are none.
    let garbled = [first, vec![0xee; 4096], third].concat();
    let recording = recording(&begin, &[damaged, garbled]);
    complete(recording.path(), &mut |_, _| {}, &|| false).unwrap();
    let mut trace = Trace::open(&[recording.path()], Options::default()).unwrap();
    let (mut stacks, mut lost) = (0, 0);
    let mut reader = Stacks::open(Some(recording.path()));
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        match item {
            Item::Event(event) => stacks += u64::from(reader.follow(catalogue, &event).is_some()),
            Item::Loss(loss) => lost += loss.events.unwrap_or(0),
        }
    }
    assert_eq!((stacks, lost), (3 + 1 + 3 + 3 + 3, 2));
}
