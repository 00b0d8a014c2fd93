//! Samples to stacks, from files that say what the test wants: no kernel, no root, no program is
//! needed. The metadata is that of a real recording.

use crate::stream::{Stream, EXIT, METADATA, WAITING_RATE};
use longpole_symbols::{Cause, Origin, Stack, Stacks};
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::fs;
use std::path::Path;

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
fn frames_of_the_interpreter_between_two_functions_of_a_script_are_folded() {
    let (mut begin, mut cpu) = (Stream::default(), Stream::default());
    begin.mapping(10, 9, 0x1000, 0x1000, 0, "/bin/one").mapping(10, 9, 0x9000, 0x1000, 0, "//anon");
    begin.mapping(10, 9, 0x2000, 0x1000, 0, "/lib/other.so");
    // In the interpreter, called by one function of the script, called by another one.
    cpu.sample(20, 9, &[], &[0x1040, 0x9201, 0x1041, 0x1061, 0x9301, 0x1041]);
    // A library between the two functions remains.
    cpu.sample(30, 9, &[], &[0x9200, 0x1041, 0x2001, 0x1041, 0x9301]);
    let place = recording(&begin.bytes(1), &cpu.bytes(0));
    let names = place.path().join("symbols/functions.jsonl");
    let mut text = fs::read_to_string(&names).unwrap();
    for (address, name) in [(0x9200, "inner"), (0x9300, "outer")] {
        text += &format!(
            "\n{{\"pid\":9,\"address\":{address},\"functions\":[{{\"name\":\"{name}\",\"file\":\"a.py\",\"interpreted\":true}}]}}"
        );
    }
    fs::write(&names, text).unwrap();
    let expected = [": one@one inner@[jit] outer@[jit] one@one", ": inner@[jit] one@one other.so@other.so one@one outer@[jit]"];
    assert_eq!(stacks(place.path()), expected);
}

#[test]
fn stacks_have_their_cause_and_the_rate_of_waits_on_their_cpu() {
    let (begin, mut cpu) = (example().0, Stream::default());
    cpu.stack(20, 7, (0, 0), 0, &[0x1010]).event(WAITING_RATE, 30, 0, 0, &1000u64.to_le_bytes());
    cpu.stack(40, 7, (1, 0), 1, &[0x1010]).stack(50, 7, (2, 8), 0, &[0x1010]).event(WAITING_RATE, 60, 0, 0, &2000u64.to_le_bytes());
    // A cause of a later version is no stack of this one.
    cpu.stack(70, 7, (3, 0), 0, &[0x1010]).copied(80, 7, 1, &[0x1010], [0; 4], &[]).sample(90, 7, &[], &[0x1010]);
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
    let done = longpole_symbols::complete(place.path(), &mut |_, _| {}, &|| false).unwrap();
    assert!(done.diagnostics.is_empty(), "{:?}", done.diagnostics);
    assert!(done.places > 0 && fs::read_to_string(&names).unwrap().contains("\"trouble\""));
    assert_eq!(stacks(place.path())[0], "first: one@one one@one");
    // Done once.
    let before = fs::read(&names).unwrap();
    longpole_symbols::complete(place.path(), &mut |_, _| {}, &|| false).unwrap();
    assert_eq!(fs::read(&names).unwrap(), before);
}
