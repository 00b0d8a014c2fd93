//! Samples to stacks, from files that say what the test wants: no kernel, no root, no program is
//! needed. The metadata is that of a real recording.

use longpole_symbols::{Cause, Origin, Stack, Stacks};
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::fs;
use std::path::Path;

const METADATA: &str = include_str!("fixtures/metadata");
const SAMPLE: u16 = 0;
const MAPPING: u16 = 1;
const COMM: u16 = 2;
const FORK: u16 = 3;
const EXIT: u16 = 4;
const COPIED: u16 = 6;
const STACK: u16 = 7;
const WAITING_RATE: u16 = 8;

/// A stream of one packet.
#[derive(Default)]
struct Stream {
    events: Vec<u8>,
    last: u64,
}

impl Stream {
    fn event(&mut self, id: u16, time: u64, pid: i32, tid: i32, fields: &[u8]) -> &mut Stream {
        self.events.extend(id.to_le_bytes());
        self.events.extend(time.to_le_bytes());
        self.events.extend([pid, tid].iter().flat_map(|id| id.to_le_bytes()));
        self.events.extend(fields);
        self.last = time;
        self
    }

    fn sample(&mut self, time: u64, pid: i32, kernel: &[u64], user: &[u64]) -> &mut Stream {
        self.event(SAMPLE, time, pid, pid, &[chain(kernel), chain(user)].concat())
    }

    fn stack(&mut self, time: u64, pid: i32, (cause, other): (u8, i32), truncated: u8, user: &[u64]) -> &mut Stream {
        let fields = [vec![cause], other.to_le_bytes().to_vec(), vec![truncated], chain(&[]), chain(user)].concat();
        self.event(STACK, time, pid, pid, &fields)
    }

    /// A sample with registers and a copy of an empty stack.
    fn copied(&mut self, time: u64, pid: i32, cause: u8, user: &[u64]) -> &mut Stream {
        let fields = [vec![cause], vec![0; 4], chain(&[]), chain(user), vec![0; 4 * 8], vec![0; 4]].concat();
        self.event(COPIED, time, pid, pid, &fields)
    }

    fn mapping(&mut self, time: u64, pid: i32, start: u64, length: u64, offset: u64, path: &str) -> &mut Stream {
        let mut fields: Vec<u8> = [start, length, offset, 77].iter().flat_map(|word| word.to_le_bytes()).collect();
        fields.extend(path.bytes().chain([0]));
        self.event(MAPPING, time, pid, pid, &fields)
    }

    fn comm(&mut self, time: u64, pid: i32, exec: u8, name: &str) -> &mut Stream {
        self.event(COMM, time, pid, pid, &[&[exec], name.as_bytes(), &[0]].concat())
    }

    fn fork(&mut self, time: u64, parent: i32, pid: i32) -> &mut Stream {
        self.event(FORK, time, pid, pid, &[parent, parent].iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>())
    }

    fn bytes(&self, class: u32) -> Vec<u8> {
        let mut bytes = 0xc1fc_1fc1u32.to_le_bytes().to_vec();
        let uuid = METADATA.split("uuid = \"").nth(1).unwrap().split('"').next().unwrap().replace('-', "");
        bytes.extend((0..16).map(|at| u8::from_str_radix(&uuid[2 * at..2 * at + 2], 16).unwrap()));
        bytes.extend(class.to_le_bytes());
        let bits = (76 + self.events.len() as u64) * 8;
        bytes.extend([0, self.last, bits, bits, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(&self.events);
        bytes
    }
}

fn chain(of: &[u64]) -> Vec<u8> {
    [(of.len() as u16).to_le_bytes().to_vec(), of.iter().flat_map(|word| word.to_le_bytes()).collect()].concat()
}

fn recording(begin: &[u8], cpu: &[u8]) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for folder in ["samples", "symbols", "user"] {
        fs::create_dir(place.path().join(folder)).unwrap();
    }
    let write = |name: &str, bytes: &[u8]| fs::write(place.path().join(name), bytes).unwrap();
    write("longpole.json", b"{\"host\":\"elsewhere\"}");
    write("samples/metadata", METADATA.as_bytes());
    write("samples/begin", begin);
    write("samples/cpu0", cpu);
    write("symbols/kallsyms", b"ffffffff81000000 T of_the_kernel\nffffffffc0000000 t of_a_module\t[m]\n");
    let lines = [
        r#"{"version":1}"#,
        r#"{"module":5,"path":"/bin/one","inode":77}"#,
        // Of a sample at 0x1010, and of a return to 0x1021.
        r#"{"module":5,"offset":16,"functions":[{"name":"inner","file":"a.c","line":3},{"name":"outer"}]}"#,
        r#"{"module":5,"offset":20,"functions":[{"name":"inner","file":"a.c","line":4},{"name":"outer"}]}"#,
        r#"{"module":5,"offset":32,"functions":[{"name":"main"}]}"#,
        r#"{"pid":9,"address":36865,"functions":[{"name":"made"}]}"#,
    ];
    write("symbols/functions.jsonl", lines.join("\n").as_bytes());
    place
}

/// What `shown` says of each stack.
fn each<T>(recording: &Path, mut shown: impl FnMut(&Stacks, Stack<'_>) -> T) -> Vec<T> {
    let mut trace = Trace::open(&[recording], Options::default()).unwrap();
    let mut stacks = Stacks::open(Some(recording));
    let mut found = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        let Item::Event(event) = item else { continue };
        let Some(stack) = stacks.follow(catalogue, &event) else { continue };
        let (frames, places) = (stack.frames.to_vec(), stack.places.to_vec());
        let stack = Stack { frames: &frames, places: &places, ..stack };
        found.push(shown(&stacks, stack));
    }
    found
}

/// Each stack as `process: function@module …`, innermost first.
fn stacks(recording: &Path) -> Vec<String> {
    each(recording, |stacks, stack| {
        let frame = |id| {
            let frame = stacks.frame(id);
            format!("{}@{}{}", frame.function, frame.module, if frame.origin == Origin::Kernel { "_k" } else { "" })
        };
        let names: Vec<String> = stack.frames.iter().map(|&id| frame(id)).collect();
        format!("{}: {}", stack.process, names.join(" "))
    })
}

fn example() -> (Vec<u8>, Vec<u8>) {
    let (mut begin, mut cpu) = (Stream::default(), Stream::default());
    begin.comm(10, 7, 0, "first").mapping(10, 7, 0x1000, 0x1000, 0, "/bin/one");
    // In the program, and in the kernel called by it; the outer addresses are where calls return
    // to.
    cpu.sample(20, 7, &[], &[0x1010, 0x1021]);
    cpu.sample(30, 7, &[0xffff_ffff_c000_0004, 0xffff_ffff_8100_0009], &[0x1010, 0x5000]);
    // A child has what its parent had, until it becomes another program.
    cpu.fork(40, 7, 8).sample(50, 8, &[], &[0x1010]).comm(60, 8, 1, "second").sample(70, 8, &[], &[0x1010]);
    cpu.mapping(80, 8, 0x1000, 0x1000, 0x1000, "/bin/two").sample(90, 8, &[], &[0x1010]);
    // Code that was made at run time; and a process that ended.
    cpu.mapping(100, 9, 0x9000, 0x1000, 0, "//anon").sample(110, 9, &[], &[0x9001]).sample(111, 9, &[], &[0x9002]);
    cpu.event(EXIT, 120, 7, 7, &[]).sample(130, 7, &[], &[0x1010]);
    (begin.bytes(1), cpu.bytes(0))
}

#[test]
fn stacks_are_named_by_what_was_mapped_at_their_time() {
    let (begin, cpu) = example();
    let expected = [
        "first: inner@one outer@one main@one",
        "first: of_a_module@[m]_k of_the_kernel@[kernel]_k inner@one outer@one [unknown]@[unknown]",
        "first: inner@one outer@one",
        "second: [unknown]@[unknown]",
        "second: two@two",
        ": made@[jit]",
        ": [jit]@[jit]",
        "first: inner@one outer@one",
    ];
    assert_eq!(stacks(recording(&begin, &cpu).path()), expected);
}

#[test]
fn a_function_has_one_id_and_its_places_have_lines() {
    let (begin, mut cpu) = (example().0, Stream::default());
    // Two places in `one`, two places without a name in the same file, and the first again.
    cpu.sample(20, 7, &[], &[0x1010]).sample(30, 7, &[], &[0x1014]).sample(40, 7, &[], &[0x1040]).sample(50, 7, &[], &[0x1050]);
    let place = recording(&begin, &cpu.sample(60, 7, &[], &[0x1010]).bytes(0));
    let found = each(place.path(), |stacks, stack| {
        let shown = |id| {
            let frame = stacks.frame(id);
            format!("{} {}:{}", frame.function, frame.file.as_deref().unwrap_or("-"), frame.line.unwrap_or(0))
        };
        assert_eq!(stack.frames.len(), stack.places.len());
        (stack.frames[0], shown(stack.frames[0]), shown(stack.places[0]), stack.places[0])
    });
    let shown: Vec<[&str; 2]> = found.iter().map(|(_, function, place, _)| [function.as_str(), place]).collect();
    let expected = [["inner -:0", "inner a.c:3"], ["inner -:0", "inner a.c:4"], ["one -:0", "one+0x40 -:0"], ["one -:0", "one+0x50 -:0"]];
    assert_eq!(shown, [&expected[..], &expected[..1]].concat());
    assert!(found[0].0 == found[1].0 && found[2].0 == found[3].0 && found[0].3 == found[4].3);
}

#[test]
fn stacks_have_their_cause_and_the_rate_of_waits_on_their_cpu() {
    let (begin, mut cpu) = (example().0, Stream::default());
    cpu.stack(20, 7, (0, 0), 0, &[0x1010]).event(WAITING_RATE, 30, 0, 0, &1000u64.to_le_bytes());
    cpu.stack(40, 7, (1, 0), 1, &[0x1010]).stack(50, 7, (2, 8), 0, &[0x1010]).event(WAITING_RATE, 60, 0, 0, &2000u64.to_le_bytes());
    // A cause of a later version is no stack of this one.
    cpu.stack(70, 7, (3, 0), 0, &[0x1010]).copied(80, 7, 1, &[0x1010]).sample(90, 7, &[], &[0x1010]);
    let place = recording(&begin, &cpu.bytes(0));
    let found = each(place.path(), |_, stack| (stack.cause, stack.truncated, stack.waiting_period_ns));
    let expected = [
        (Cause::Running, false, None),
        (Cause::Waited, true, Some(1000)),
        (Cause::Woke { tid: 8 }, false, Some(1000)),
        (Cause::Waited, true, Some(2000)),
        (Cause::Running, false, Some(2000)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn whatever_the_bytes_are_reading_them_ends() {
    let (begin, cpu) = example();
    let place = recording(&begin, &cpu);
    let stream = place.path().join("samples/cpu0");
    for at in 0..cpu.len() {
        let mut wrong = cpu.clone();
        wrong[at] ^= 0xff;
        fs::write(&stream, &wrong).unwrap();
        let _ = stacks(place.path());
        fs::write(&stream, &cpu[..at]).unwrap();
        assert!(stacks(place.path()).len() <= 8);
    }
}

#[test]
fn a_recording_of_another_machine_is_left_as_it_is() {
    let (begin, cpu) = example();
    let place = recording(&begin, &cpu);
    fs::remove_file(place.path().join("symbols/functions.jsonl")).unwrap();
    assert!(!longpole_symbols::is_pending(place.path()));
}

#[test]
fn files_that_are_gone_leave_a_completed_recording_without_their_names() {
    let (begin, cpu) = example();
    let place = recording(&begin, &cpu);
    let names = place.path().join("symbols/functions.jsonl");
    fs::remove_file(&names).unwrap();
    let done = longpole_symbols::complete(place.path(), &|| false).unwrap();
    assert!(done.diagnostics.is_empty(), "{:?}", done.diagnostics);
    assert!(done.places > 0 && fs::read_to_string(&names).unwrap().contains("\"trouble\""));
    assert_eq!(stacks(place.path())[0], "first: one@one one@one");
    // Done once.
    let before = fs::read(&names).unwrap();
    longpole_symbols::complete(place.path(), &|| false).unwrap();
    assert_eq!(fs::read(&names).unwrap(), before);
}
