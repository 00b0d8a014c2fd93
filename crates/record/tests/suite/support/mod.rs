//! Shared code of the recorder's tests: programs with probes, a recorder that can be killed, and a
//! reader of `user/` that shares no code with the recorder.

use longpole_testing::alike;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

pub mod kernel;

/// Returns whether the kernel can be recorded here; otherwise prints that `what` is skipped.
pub fn live(what: &str) -> bool {
    // SAFETY: geteuid has no preconditions.
    let possible = unsafe { libc::geteuid() } == 0 && Path::new(kernel::TRACEFS).join("instances").exists();
    if !possible {
        println!("skipped: {what} (needs root and tracefs)");
    }
    possible
}

/// A runtime directory and a folder for recordings, both of this test only.
pub struct Place {
    pub directory: tempfile::TempDir,
    damage: AtomicBool,
}

impl Drop for Place {
    /// Checks that babeltrace2 reads the recordings in the same way as `longpole`; see [`alike`].
    fn drop(&mut self) {
        let longpole = built().join("longpole");
        match longpole.exists() {
            _ if std::thread::panicking() || self.damage.load(Ordering::Relaxed) => {}
            true => alike::check_all_with_babeltrace2(&longpole, &self.root()),
            false => println!("skipped: comparing recordings with babeltrace2 (cargo build --release -p longpole)"),
        }
    }
}

impl Place {
    /// Makes both in memory, if possible.
    pub fn new() -> Place {
        let shared = Path::new("/dev/shm");
        let directory = match shared.is_dir() {
            true => tempfile::tempdir_in(shared),
            false => tempfile::tempdir(),
        }
        .expect("a temporary directory");
        let place = Place { directory, damage: AtomicBool::new(false) };
        fs::create_dir(place.runtime()).unwrap();
        fs::create_dir(place.home()).unwrap();
        fs::set_permissions(place.runtime(), fs::Permissions::from_mode(0o700)).unwrap();
        place
    }

    /// Excludes the recordings from the comparison, because the test damages them on purpose.
    pub fn damages(&self) {
        self.damage.store(true, Ordering::Relaxed);
    }

    /// Working directory of recorders, and home of programs and recorders.
    fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// Bytes written anywhere but into recordings and the runtime directory. `known`: files of the
    /// test.
    pub fn outside(&self, known: &[&str]) -> u64 {
        let folders = [self.directory.path().to_owned(), self.home()];
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap().map(Result::unwrap));
        let strange = entries.filter(|entry| !["run", "traces", "home"].iter().chain(known).any(|name| entry.file_name() == **name));
        strange.inspect(|entry| println!("outside: {}", entry.path().display())).map(|entry| entry.metadata().unwrap().len().max(1)).sum()
    }

    pub fn runtime(&self) -> PathBuf {
        self.directory.path().join("run")
    }

    pub fn root(&self) -> PathBuf {
        self.directory.path().join("traces")
    }

    pub fn progress(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Number of events that each thread of a `numbered` program has emitted, from its progress
    /// file.
    pub fn emitted(&self, name: &str) -> Vec<u64> {
        let bytes = fs::read(self.progress(name)).unwrap_or_default();
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    /// Returns whether each of the threads has reached its first probe. Before the program runs,
    /// its progress file is missing or too short, which counts as no.
    pub fn begun(&self, name: &str, threads: usize) -> bool {
        let emitted = self.emitted(name);
        emitted.len() > threads && emitted[..threads].iter().all(|count| *count > 0)
    }

    /// Number of events of a thread at an enabled probe: each of these is recorded or lost.
    pub fn met(&self, name: &str, thread: usize) -> u64 {
        self.emitted(name).get(64 + thread).copied().unwrap_or(0)
    }

    /// Number of events of 16 bytes in a process's rings that no recorder has taken, and of losses
    /// that are in no packet.
    pub fn left_in_rings(&self, pid: i32) -> u64 {
        let mut left = 0;
        for entry in fs::read_dir(self.runtime()).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with(&format!("{pid}-")) && name.ends_with(".ring") {
                let bytes = fs::read(entry.path()).unwrap();
                let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
                let (head, lost, tail, reported, size, subbuffer) = (word(0), word(32), word(64), word(88), word(144), word(152));
                left += lost - reported;
                let mut at = tail;
                while at < head {
                    let begin = at - at % subbuffer;
                    let closed = head > begin + subbuffer;
                    let end = if closed { begin + word(4096 + (begin % size) as usize + 8) } else { head };
                    left += end.saturating_sub(at.max(begin + 256)) / 16;
                    at = begin + subbuffer;
                }
            }
        }
        left
    }

    /// Command for one of the C programs of this directory, with this runtime directory.
    pub fn program(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(compiled(name));
        command.args(arguments).env("LONGPOLE_RUNTIME_DIR", self.runtime()).env_remove("LONGPOLE_LABEL");
        command.env("HOME", self.home()).env("TMPDIR", self.home());
        command
    }

    /// Starts threads that each emit `events` in bursts. Their progress goes to `file`.
    pub fn numbered(&self, threads: u32, events: u64, burst: u64, pause_us: u32, file: &str) -> Command {
        let progress = self.progress(file);
        let words = [threads.to_string(), events.to_string(), burst.to_string(), pause_us.to_string()];
        let mut all: Vec<&str> = words.iter().map(String::as_str).collect();
        all.push(progress.to_str().unwrap());
        self.program("numbered", &all)
    }

    /// Starts a recorder. `buffer`: size of every ring, `0` for the default.
    pub fn recorder(&self, buffer: &str, config: Option<&Path>) -> Recorder {
        let config = config.map_or("-", |config| config.to_str().unwrap());
        self.recorder_with(&[buffer, config])
    }

    /// Starts a recorder with these arguments after its directory.
    pub fn recorder_with(&self, arguments: &[&str]) -> Recorder {
        let mut command = Command::new(example("recorder"));
        command.arg(self.root()).args(arguments);
        command.env("LONGPOLE_RUNTIME_DIR", self.runtime()).stdout(Stdio::piped());
        command.current_dir(self.home()).env("HOME", self.home()).env("TMPDIR", self.home());
        let mut child = command.spawn().expect("the recorder starts");
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut path = String::new();
        out.read_line(&mut path).unwrap();
        assert!(!path.is_empty(), "the recorder did not start: {:?}", child.wait());
        Recorder { child, out, path: PathBuf::from(path.trim_end()) }
    }
}

/// A running program, killed when this value is dropped, so that a failing test leaves none behind.
pub struct Running(Child);

impl Running {
    pub fn start(command: &mut Command) -> Running {
        Running(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the program starts"))
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// Waits for the program's own end, which must be successful.
    pub fn succeed(mut self) {
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status:?}");
    }

    /// Kills the program, which must still be running.
    pub fn kill(mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "a program ended before it was killed");
    }

    /// Number of faults (0 or 1) of a program that ends by itself.
    pub fn ended(mut self) -> u64 {
        u64::from(!self.0.wait().unwrap().success())
    }

    /// Number of faults (0 or 1) of a program that should run until it is killed.
    pub fn killed(mut self) -> u64 {
        u64::from(self.0.try_wait().unwrap().is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running recorder, the example `recorder`; killed when this value is dropped.
pub struct Recorder {
    child: Child,
    out: BufReader<ChildStdout>,
    pub path: PathBuf,
}

/// Output of a recorder that ended normally.
pub struct Ended {
    pub path: PathBuf,
    pub recorded: u64,
    pub lost: u64,
    pub empty: String,
    pub diagnostics: Vec<String>,
}

impl Recorder {
    /// Interrupts the recorder and reads its output.
    pub fn finish(mut self) -> Ended {
        // SAFETY: signals a child that has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status:?}: {text}");
        let mut lines = text.lines();
        let mut words = lines.next().expect("an outcome").splitn(3, ' ');
        let mut number = || words.next().unwrap().parse().unwrap();
        let (recorded, lost) = (number(), number());
        Ended {
            recorded,
            lost,
            empty: words.next().unwrap().to_owned(),
            diagnostics: lines.map(str::to_owned).collect(),
            path: self.path.clone(),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(mut self) -> PathBuf {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.path.clone()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: signals a child that has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles a program of this directory once.
fn compiled(name: &str) -> PathBuf {
    static ONCE: Mutex<()> = Mutex::new(());
    let _one_at_a_time = ONCE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = manifest.join("tests/programs").join(format!("{name}.c"));
    let include = manifest.join("../../include");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    if !target.exists() {
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-O2", "-pthread", "-I"]).arg(include).arg(source).arg("-o").arg(&target);
        assert!(command.status().expect("a C compiler").success());
    }
    target
}

/// Checks that babeltrace2 and `longpole info` read a copy in the same way. For copies from which
/// the damaged parts were removed; [`Place`] checks recordings without damage.
pub fn alike_except_damage(copy: &Path) {
    let longpole = built().join("longpole");
    if !longpole.exists() {
        println!("skipped: comparing recordings with babeltrace2 (cargo build --release -p longpole)");
    } else if alike::hold(&longpole, copy).is_none() {
        println!("skipped: comparing recordings with babeltrace2 (it is not installed)");
    }
}

/// The folder of cargo's build results.
fn built() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().parent().unwrap().to_owned()
}

/// Path of an example of this crate, which `cargo test` has built.
fn example(name: &str) -> PathBuf {
    let path = built().join("examples").join(name);
    assert!(path.exists(), "{} was not built", path.display());
    path
}

/// A decoded packet of a stream file.
#[derive(Debug)]
pub struct Packet {
    pub begin: u64,
    pub end: u64,
    pub sequence: u64,
    pub discarded: u64,
    pub pid: i32,
    pub tid: i32,
    pub label: String,
    pub thread: String,
    pub events: Vec<u8>,
}

/// Reads a lane as specified in docs/formats/user-trace.md, and checks it against that.
pub fn lane(path: &Path) -> Vec<Packet> {
    let bytes = fs::read(path).unwrap();
    let mut packets: Vec<Packet> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let word = |offset: usize| u64::from_ne_bytes(bytes[at + offset..at + offset + 8].try_into().unwrap());
        let half = |offset: usize| u32::from_ne_bytes(bytes[at + offset..at + offset + 4].try_into().unwrap());
        let text = |offset: usize, length: usize| {
            let raw = &bytes[at + offset..at + offset + length];
            String::from_utf8_lossy(&raw[..raw.iter().position(|byte| *byte == 0).unwrap_or(length)]).into_owned()
        };
        assert_eq!(half(0), 0xc1fc_1fc1, "{} at {at}", path.display());
        let (content, size) = (word(40) as usize / 8, word(48) as usize / 8);
        assert!(content >= 256 && size >= content && at + size <= bytes.len(), "{} at {at}: {content} {size}", path.display());
        let packet = Packet {
            begin: word(24),
            end: word(32),
            sequence: word(56),
            discarded: word(64),
            pid: half(72) as i32,
            tid: half(76) as i32,
            label: text(88, 128),
            thread: text(216, 32),
            events: bytes[at + 256..at + content].to_vec(),
        };
        assert!(packet.begin <= packet.end);
        match packets.last() {
            Some(last) => {
                assert!(packet.begin >= last.end, "{} at {at}: {} {}", path.display(), packet.begin, last.end);
                assert!(packet.discarded >= last.discarded);
                assert_eq!(packet.sequence, last.sequence + 1, "{} at {at}", path.display());
            }
            None => assert_eq!((packet.discarded, packet.events.len()), (0, 0), "a lane begins with an empty packet of loss 0"),
        }
        packets.push(packet);
        at += size;
    }
    packets
}

/// The packets of all stream files, by file name.
pub fn lanes(recording: &Path) -> BTreeMap<String, Vec<Packet>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(recording.join("user")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name != "metadata" && !name.starts_with('.') {
            all.insert(name, lane(&entry.path()));
        }
    }
    all
}

/// Class ids by event name.
pub fn classes(recording: &Path) -> BTreeMap<String, u16> {
    let text = fs::read_to_string(recording.join("user/metadata")).unwrap();
    let mut all = BTreeMap::new();
    let mut name = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("name = \"") {
            name = rest.strip_suffix("\";").map(str::to_owned);
        } else if let Some(id) = line.strip_prefix("id = ").and_then(|rest| rest.strip_suffix(';')) {
            if let (Some(name), Ok(id)) = (name.take(), id.parse()) {
                all.insert(name, id);
            }
        }
    }
    all
}

/// Counts of one thread of `numbered` programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub recorded: u64,
    pub lost: u64,
    /// Number of events that are incomplete, out of order, repeated, of an unknown class, or
    /// outside of their packet's time.
    pub torn: u64,
}

impl Count {
    pub fn add(&mut self, other: Count) {
        self.recorded += other.recorded;
        self.lost += other.lost;
        self.torn += other.torn;
    }
}

/// Checks that no event of `numbered` programs in a recording is torn. Returns the counts by (pid,
/// thread number).
pub fn numbered(recording: &Path) -> BTreeMap<(i32, u64), Count> {
    let counts = numbered_or_torn(recording);
    assert!(counts.values().all(|count| count.torn == 0), "{counts:?}");
    counts
}

fn numbered_or_torn(recording: &Path) -> BTreeMap<(i32, u64), Count> {
    let mut counts: BTreeMap<(i32, u64), Count> = BTreeMap::new();
    let class = classes(recording).get("mark:numbered").copied();
    for (name, packets) in lanes(recording) {
        let mut discarded = 0;
        let mut owner = None;
        let mut newest: BTreeMap<(i32, u64), u64> = BTreeMap::new();
        for packet in &packets {
            let mut time = packet.begin;
            for event in packet.events.chunks(16) {
                if event.len() != 16 {
                    println!("torn: {name}: {} bytes behind the last event", event.len());
                    counts.entry(owner.unwrap_or((packet.pid, 0))).or_default().torn += 1;
                    break;
                }
                let header = u64::from_ne_bytes(event[..8].try_into().unwrap());
                let data = u64::from_ne_bytes(event[8..].try_into().unwrap());
                // Extended as every reader does: the next value with these low bits.
                time += ((header >> 16).wrapping_sub(time)) & 0xffff_ffff_ffff;
                let (thread, number) = (data >> 40, data & 0xff_ffff_ffff);
                let key = (packet.pid, thread);
                let before = newest.insert(key, number);
                let torn = Some(header as u16) != class || time > packet.end || before.is_some_and(|before| number <= before);
                let count = counts.entry(key).or_default();
                count.recorded += 1;
                if torn {
                    println!("torn: {name}: class {} at {time}, packet until {}, {number} after {before:?}", header as u16, packet.end);
                    count.torn += 1;
                }
                owner = Some(key);
            }
            if packet.discarded > discarded {
                let key = packet.events.get(8..16).map(|data| u64::from_ne_bytes(data.try_into().unwrap()) >> 40);
                // If the thread wrote no event into the lane, its name identifies it.
                let named = || packet.thread.strip_prefix("worker ").and_then(|thread| thread.parse().ok());
                let key = key.map(|thread| (packet.pid, thread)).or(owner).or_else(|| Some((packet.pid, named()?)));
                let key = key.expect("a loss belongs to a thread");
                counts.entry(key).or_default().lost += packet.discarded - discarded;
                discarded = packet.discarded;
            }
        }
    }
    counts
}

/// Counts of several recordings together; [`figures`] checks the torn events.
pub fn sum(recordings: &[&Path]) -> BTreeMap<(i32, u64), Count> {
    let mut all: BTreeMap<(i32, u64), Count> = BTreeMap::new();
    for recording in recordings {
        for (key, count) in numbered_or_torn(recording) {
            all.entry(key).or_default().add(count);
        }
    }
    all
}

/// Returns whether `make soak` demands the long form of the tests.
pub fn soak() -> bool {
    std::env::var_os("LONGPOLE_SOAK").is_some()
}

/// Prints and checks the figures with which each reliability test ends. `faults`: programs that
/// ended unexpectedly; `outside`: bytes, see [`Place::outside`].
pub fn figures(what: &str, tried: u64, count: Count, faults: u64, outside: u64) {
    let Count { recorded, lost, torn } = count;
    println!("figures: {what}: tried {tried}, recorded {recorded}, lost {lost}, torn {torn}, faults {faults}, bytes outside {outside}");
    assert_eq!(tried, recorded + lost, "{what}");
    assert_eq!((torn, faults, outside), (0, 0, 0), "{what}");
}

/// Runs a tool. Returns `None` and prints a line if it is not installed.
pub fn tool(name: &str, arguments: &[&Path]) -> Option<(bool, String)> {
    match Command::new(name).args(arguments).output() {
        Ok(output) => {
            Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)))
        }
        Err(_) => {
            println!("skipped: {name} ({name} is not installed)");
            None
        }
    }
}

/// Waits until `done`, even on a slow host. Fails after some minutes.
pub fn until(mut done: impl FnMut() -> bool) {
    for _ in 0..100_000 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    panic!("it never happened");
}
