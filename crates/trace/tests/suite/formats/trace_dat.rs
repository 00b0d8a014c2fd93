//! trace.dat files of both versions: the files of our own generator are read as expected, and as
//! `trace-cmd report` reads them.

use longpole_testing::trace_dat::{format, Buffer, Compression, Machine, Page, Record, TraceDat, PAGE};
use longpole_trace::Catalogue;
use longpole_trace::Event;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use longpole_trace::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const ZLIB: Compression = Compression { name: "zlib", pack: Some(|bytes| miniz_oxide::deflate::compress_to_vec_zlib(bytes, 6)) };
const ZSTD: Compression =
    Compression { name: "zstd", pack: Some(|bytes| ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)) };

/// An event as text: `time cpu comm-tid name field=value …`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    t_ns: i64,
    cpu: u32,
    who: String,
    name: String,
    fields: Vec<(String, String)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    rows: Vec<Row>,
    losses: Vec<(String, i64, i64, Option<u64>)>,
    diagnostics: Vec<String>,
}

/// Shows a number in decimal, a text unchanged, a list in brackets, and bytes in hexadecimal.
fn shown(value: &Value<'_>) -> String {
    match value {
        Value::U64(number) => number.to_string(),
        Value::I64(number) => number.to_string(),
        Value::F64(number) => number.to_string(),
        Value::Enum { value, .. } => value.to_string(),
        Value::Str(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Value::Nested(nested) => {
            let mut all = Vec::new();
            let done: Result<(), ()> = nested.each(|_, part| {
                all.push(shown(&part));
                Ok(())
            });
            done.unwrap();
            format!("[{}]", all.join(" "))
        }
        other => format!("{other:?}"),
    }
}

fn row(event: &Event<'_>, catalogue: &Catalogue) -> Row {
    let class = &catalogue.classes[event.class.0 as usize];
    let subject = &catalogue.subjects[event.subject.0 as usize];
    Row {
        t_ns: event.t_ns,
        cpu: event.cpu.unwrap(),
        who: format!("{}-{}", subject.label, subject.tid.unwrap_or(-1)),
        name: class.event_name.clone(),
        fields: class.fields.iter().cloned().zip(event.fields.iter().map(shown)).collect(),
    }
}

fn read(path: &Path) -> Result<Read, String> {
    let mut trace = Trace::open(&[path], Options::default()).map_err(|error| error.to_string())?;
    let mut out = Read::default();
    while let Some((item, catalogue)) = trace.next_with_catalogue().map_err(|error| error.to_string())? {
        match item {
            Item::Event(event) => out.rows.push(row(&event, catalogue)),
            Item::Loss(loss) => {
                let stream = catalogue.streams[loss.stream.0 as usize].name.clone();
                out.losses.push((stream, loss.begin_ns, loss.end_ns, loss.events));
            }
        }
    }
    out.diagnostics = trace.diagnostics().iter().map(ToString::to_string).collect();
    Ok(out)
}

/// Time, CPU, thread, name, and the fields as one text.
type Their = (i64, u32, String, String, String);

/// Returns what trace-cmd reads, or `None` if it is not installed. The fields are one text, because
/// their names are known from our rows.
fn theirs(path: &Path, more: &[&str]) -> Option<Vec<Their>> {
    let output = match Command::new("trace-cmd").args(["report", "-t", "-N"]).args(more).arg("-i").arg(path).output() {
        Ok(output) => output,
        Err(_) => {
            println!("skipped: next to trace-cmd (it is not installed)");
            return None;
        }
    };
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut rows: Vec<Their> = Vec::new();
    for line in text.lines() {
        let parsed = (|| {
            let (who, rest) = line.split_once(" [")?;
            let (cpu, rest) = rest.split_once(']')?;
            let (time, rest) = rest.trim_start().split_once(':')?;
            let (name, fields) = rest.trim_start().split_once(':')?;
            let time = time.trim().replacen('.', "", 1).parse().ok()?;
            Some((time, cpu.parse().ok()?, who.trim().to_owned(), name.to_owned(), fields.trim_start().to_owned()))
        })();
        match (parsed, rows.last_mut()) {
            (Some(row), _) => rows.push(row),
            (None, Some(last)) if !line.starts_with("CPU:") => last.4 += &format!("\n{line}"),
            _ => {}
        }
    }
    Some(rows)
}

/// Compares the meaning of every field's value.
fn same(ours: &[Row], theirs: &[Their], machine: Machine) {
    for (our, their) in ours.iter().zip(theirs) {
        let head = (our.t_ns, our.cpu, our.who.replace(' ', ""), our.name.clone());
        assert_eq!(head, (their.0, their.1, their.2.replace(' ', ""), their.3.clone()), "{our:?}\n{their:?}");
        let mut rest = their.4.as_str();
        for (index, (name, value)) in our.fields.iter().enumerate() {
            let begin = rest.find(&format!("{name}=")).unwrap_or_else(|| panic!("{name} is not in {their:?}")) + name.len() + 1;
            rest = &rest[begin..];
            let next = our.fields.get(index + 1).and_then(|(name, _)| rest.find(&format!(" {name}=")));
            let their_value = &rest[..next.unwrap_or(rest.len())];
            // With `-R`, trace-cmd shows the address of a text and not the text itself. Another
            // test compares the texts.
            if matches!(name.as_str(), "fmt" | "str" | "caller") || (name == "buf" && our.name == "bprint") {
                continue;
            }
            assert!(means(their_value.trim(), value, machine), "{name} of {our:?}: {their_value}");
        }
    }
    assert_eq!(ours.len(), theirs.len());
}

fn means(their: &str, our: &str, machine: Machine) -> bool {
    if their == our.trim() {
        return true;
    }
    if let Some(array) = their.strip_prefix("ARRAY[").and_then(|array| array.strip_suffix(']')) {
        let theirs: String = array.split(", ").collect();
        let Some(list) = our.strip_prefix('[').and_then(|list| list.strip_suffix(']')) else { return theirs == our };
        // Numbers as stored in the file. The number of bytes gives the size of each.
        let numbers: Vec<i128> = list.split(' ').filter(|part| !part.is_empty()).map(|part| part.parse().unwrap()).collect();
        let size = theirs.len() / 2 / numbers.len().max(1);
        let bytes = numbers.iter().flat_map(|number| machine.number(*number as u64, size));
        return bytes.map(|byte| format!("{byte:02x}")).collect::<String>() == theirs;
    }
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse::<i64>().map(|number| number as u64).ok().or_else(|| text.parse().ok()),
    };
    let (Some(theirs), Some(ours)) = (number(their), number(our)) else { return false };
    theirs == ours || theirs == ours & 0xffff_ffff
}

fn corpora() -> Option<PathBuf> {
    let found = std::env::var_os("LONGPOLE_CORPORA").map(|path| PathBuf::from(path).join("ftrace"));
    if found.is_none() {
        println!("not at hand: traces of other tools (LONGPOLE_CORPORA)");
    }
    found
}

const SWITCH: u16 = 300;
const ALL_KINDS: u16 = 301;
const VECTOR: u16 = 302;
const BPRINT: u16 = 6;
const PRINT: u16 = 5;
const BPUTS: u16 = 14;
const STACK: u16 = 4;

/// Makes a file with a field of each kind.
fn example(machine: Machine) -> TraceDat {
    let long = machine.long;
    let of_ftrace = vec![
        format("kernel_stack", STACK, &[("int size", 8, 4, true), ("unsigned long caller[8]", 16, 8 * long, false)], "\"\""),
        format(
            "print",
            PRINT,
            &[("unsigned long ip", 8, long, false), ("char buf[]", 8 + long, 0, true)],
            "\"%ps: %s\", (void *)REC->ip, REC->buf",
        ),
        format(
            "bprint",
            BPRINT,
            &[("unsigned long ip", 8, long, false), ("const char * fmt", 8 + long, long, false), ("u32 buf[]", 8 + 2 * long, 0, false)],
            "\"%ps: %s\", (void *)REC->ip, REC->fmt",
        ),
        format(
            "bputs",
            BPUTS,
            &[("unsigned long ip", 8, long, false), ("const char * str", 8 + long, long, false)],
            "\"%ps: %s\", (void *)REC->ip, REC->str",
        ),
    ];
    let switch = format(
        "sched_switch",
        SWITCH,
        &[
            ("char prev_comm[16]", 8, 16, false),
            ("pid_t prev_pid", 24, 4, true),
            ("int prev_prio", 28, 4, true),
            ("long prev_state", 32, long, true),
            ("char next_comm[16]", 40, 16, false),
            ("pid_t next_pid", 56, 4, true),
            ("int next_prio", 60, 4, true),
        ],
        "\"prev_comm=%s\", REC->prev_comm",
    );
    let kinds = format(
        "all_kinds",
        ALL_KINDS,
        &[
            ("unsigned char u8", 8, 1, false),
            ("signed char i8", 9, 1, true),
            ("short i16", 10, 2, true),
            ("int i32", 12, 4, true),
            ("u64 big", 16, 8, false),
            ("s64 less", 24, 8, true),
            ("void * ptr", 32, long, false),
            ("char comm[8]", 40, 8, false),
            ("__data_loc char[] name", 48, 4, false),
            ("__rel_loc char[] rel", 52, 4, false),
            ("__data_loc u32[] nums", 56, 4, false),
            ("__data_loc unsigned long[] mask", 60, 4, false),
            ("int arr[3]", 64, 12, true),
            ("unsigned char mac[6]", 76, 6, false),
            ("bool flag", 82, 1, false),
            ("__data_loc u8[] blob", 84, 4, false),
        ],
        "\"u8=%d\", REC->u8",
    );
    let vector = format(
        "vector",
        VECTOR,
        &[("unsigned int vec", 8, 4, false)],
        "\"vec=%s\", __print_symbolic(REC->vec, { 0, \"HI\" }, { 1, \"TIMER\" })",
    );
    TraceDat {
        machine,
        of_ftrace,
        systems: vec![("other", vec![kinds, vector]), ("sched", vec![switch])],
        printk: format!("0x{:x} : \"step %d of %s\\n\"\n0x{:x} : \"only text\\n\"\n", 0x8180_0000u32, 0x8180_0040u32),
        cmdlines: "1 init\n27 two words\n28 kworker/1:0\n".to_owned(),
        options: vec![(5, b"Linux box 6.1.0 #1 SMP x86_64\0".to_vec())],
        buffers: vec![Buffer { name: "", clock: "local", cpus: vec![(0, Vec::new()), (1, Vec::new()), (2, Vec::new())] }],
        text: None,
    }
}

fn switch(machine: Machine, pid: i32, state: u64, next: i32) -> Record {
    let mut record = Record::new(machine, SWITCH, pid);
    record.put(8, b"two words").at(24, pid as u64, 4).at(28, 120, 4).at(32, state, machine.long);
    record.put(40, b"kworker/1:0\0").at(56, next as u64, 4).at(60, 100, 4);
    record
}

fn all_kinds(machine: Machine) -> Record {
    let mut record = Record::new(machine, ALL_KINDS, 27);
    record.at(8, 200, 1).at(9, -3i64 as u64, 1).at(10, -300i64 as u64, 2).at(12, -70_000i64 as u64, 4);
    record.at(16, u64::MAX - 1, 8).at(24, -5i64 as u64, 8).at(32, 0xdead_beef, machine.long);
    record.put(40, b"seven77").put(64, &[]).put(76, &[2, 0, 0, 0, 0, 7]).at(82, 1, 1);
    for (index, value) in [-1i64, 2, -3].into_iter().enumerate() {
        record.at(64 + 4 * index, value as u64, 4);
    }
    record.put(88, &[]);
    record.dynamic(48, b"a name\0").relative(52, b"relative\0");
    let numbers: Vec<u8> = [1u64, 0xffff_ffff].iter().flat_map(|number| machine.number(*number, 4)).collect();
    record.dynamic(56, &numbers).dynamic(60, &machine.number(5, machine.long)).dynamic(84, &[9, 8, 7]);
    record
}

fn texts(machine: Machine) -> Vec<Record> {
    let long = machine.long;
    let record = |id| {
        let mut record = Record::new(machine, id, 1);
        record.at(8, 0x8100_1000, long);
        record
    };
    let (mut print, mut bprint, mut bputs) = (record(PRINT), record(BPRINT), record(BPUTS));
    print.put(8 + long, b"hello there\n\0");
    bprint.at(8 + long, 0x8180_0000, long).at(8 + 2 * long, 3, 4).put(12 + 2 * long, b"ten\0");
    bputs.at(8 + long, 0x8180_0040, long);
    let mut stack = Record::new(machine, STACK, 1);
    stack.at(8, 3, 4);
    for (index, address) in [0x8100_1004u64, 0x8100_2008, 0x8100_1008].into_iter().enumerate() {
        stack.at(16 + long * index, address, long);
    }
    vec![print, bprint, bputs, stack]
}

/// Makes pages with everything that a page can contain.
fn full(machine: Machine) -> TraceDat {
    let mut file = example(machine);
    let mut long_text = Record::new(machine, PRINT, 27);
    long_text.at(8, 0x8100_1000, machine.long).put(8 + machine.long, &[&[b'x'; 200][..], b"\0"].concat());
    let first = Page::new(machine, 1_000_000)
        .event(0, &switch(machine, 27, 1, 28))
        .event(100, &all_kinds(machine))
        .taken_back(24)
        .extend(1 << 40)
        .event(5, &long_text);
    let late = 1_000_000 + 100 + 3 + (1 << 40) + 5;
    let second = Page::new(machine, late + 10).lost(Some(7)).stamp(late + 50).event(0, &switch(machine, 28, 0, 27));
    let third = Page::new(machine, late + 70).lost(None).event(3, &switch(machine, 27, 2, 1));
    file.buffers[0].cpus[0].1 = [first.bytes(), second.bytes(), third.bytes()].concat();
    let mut page = Page::new(machine, 1_000_050);
    for record in texts(machine) {
        page = page.event(10, &record);
    }
    let mut vector = Record::new(machine, VECTOR, 0);
    vector.at(8, 1, 4);
    file.buffers[0].cpus[2].1 = page.event(10, &vector).bytes();
    file
}

fn written(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("trace.dat");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn every_kind_of_field_is_read_from_both_versions_for_all_hosts() {
    let folder = tempfile::tempdir().unwrap();
    for machine in Machine::ALL {
        let file = full(machine);
        let old = read(&written(folder.path(), &file.version_6())).unwrap();
        let names: Vec<&str> = old.rows.iter().map(|row| row.name.as_str()).collect();
        let expected =
            ["sched_switch", "print", "bprint", "bputs", "kernel_stack", "all_kinds", "vector", "print", "sched_switch", "sched_switch"];
        assert_eq!(names, expected);
        let field = |row: usize, name: &str| {
            let found = old.rows[row].fields.iter().find(|(field, _)| field == name);
            found.unwrap_or_else(|| panic!("{name} of {:?}", old.rows[row])).1.clone()
        };
        assert_eq!((field(0, "prev_comm"), field(0, "prev_state"), field(0, "next_pid")), ("two words".into(), "1".into(), "28".into()));
        assert_eq!(field(1, "buf"), "hello there\n");
        assert_eq!((field(2, "fmt"), field(2, "buf")), ("step %d of %s\n".into(), "step 3 of ten".into()));
        assert_eq!(field(3, "str"), "only text\n");
        assert_eq!(field(4, "caller"), format!("[{} {} {}]", 0x8100_1004u32, 0x8100_2008u32, 0x8100_1008u32));
        let kinds = [
            ("u8", "200"),
            ("i8", "-3"),
            ("i16", "-300"),
            ("i32", "-70000"),
            ("big", "18446744073709551614"),
            ("less", "-5"),
            ("ptr", "3735928559"),
            ("comm", "seven77"),
            ("name", "a name"),
            ("rel", "relative"),
            ("nums", "[1 4294967295]"),
            ("mask", "[5]"),
            ("arr", "[-1 2 -3]"),
            ("mac", "020000000007"),
            ("flag", "1"),
            ("blob", "090807"),
        ];
        let all: Vec<(&str, &str)> = old.rows[5].fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(all, kinds, "{machine:?}");
        assert_eq!(field(6, "vec"), "1");
        let late = 1_000_108 + (1 << 40);
        let times: Vec<i64> = old.rows.iter().filter(|row| row.cpu == 0).map(|row| row.t_ns).collect();
        assert_eq!(times, [1_000_000, 1_000_100, late, late + 50, late + 73]);
        let who: Vec<&str> = old.rows.iter().map(|row| row.who.as_str()).collect();
        assert_eq!([who[0], who[1], who[6], who[8]], ["two words-27", "init-1", "<idle>-0", "kworker/1:0-28"]);
        let stream = "trace.dat/cpu0".to_owned();
        let losses = [(stream.clone(), late, late + 10, Some(7)), (stream, late + 50, late + 70, None)];
        assert_eq!(old.losses, losses);
        assert_eq!(old.diagnostics, [""; 0]);
        for compression in [Compression::NONE, ZLIB, ZSTD] {
            let new = read(&written(folder.path(), &file.version_7(compression))).unwrap();
            assert_eq!(new, old, "{machine:?} {compression:?}");
        }
    }
}

#[test]
fn every_field_equals_that_of_trace_cmd() {
    let folder = tempfile::tempdir().unwrap();
    for machine in Machine::ALL {
        let file = full(machine);
        for bytes in [file.version_6(), file.version_7(Compression::NONE), file.version_7(ZSTD)] {
            let path = written(folder.path(), &bytes);
            let Some(theirs) = theirs(&path, &["-R"]) else { return };
            same(&read(&path).unwrap().rows, &theirs, machine);
        }
    }
}

#[test]
fn text_of_trace_printk_equals_that_of_trace_cmd() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = vec![written(folder.path(), &full(Machine::ALL[0]).version_6())];
    files.extend(corpora().into_iter().flat_map(|folder| ["trace.dat", "raw_trace.dat"].map(|name| folder.join(name))));
    let mut compared = 0;
    for path in files {
        let Some(theirs) = theirs(&path, &[]) else { return };
        for (our, their) in read(&path).unwrap().rows.iter().zip(&theirs) {
            if our.name == "bprint" {
                let (_, text) = our.fields.iter().find(|(name, _)| name == "buf").unwrap();
                assert!(their.4.trim_end().ends_with(text.as_str()), "{our:?} {their:?}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 1);
}

#[test]
fn fields_of_foreign_recordings_equal_those_of_trace_cmd() {
    let Some(folder) = corpora() else { return };
    for (name, least) in [("trace.dat", 500), ("raw_trace.dat", 700)] {
        let ours = read(&folder.join(name)).unwrap().rows;
        assert!(ours.len() >= least);
        let Some(theirs) = theirs(&folder.join(name), &["-R"]) else { return };
        same(&ours, &theirs, Machine::ALL[0]);
    }
}

/// Reads pages that a kernel's tracer wrote, recorded in a private instance.
#[test]
fn pages_of_a_real_kernel_are_read_as_by_trace_cmd() {
    let fixture = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ftrace/tests/fixtures").join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let machine = Machine::ALL[0];
    let formats: Vec<String> = [
        "sched_switch",
        "sched_waking",
        "sched_wakeup",
        "sched_wakeup_new",
        "sched_process_fork",
        "sched_process_exec",
        "sched_process_exit",
        "sched_process_free",
        "sched_process_wait",
    ]
    .map(|name| String::from_utf8(fixture(&format!("sched.{name}.format"))).unwrap())
    .to_vec();
    let mut file = example(machine);
    file.systems = vec![
        ("sched", formats),
        (
            "raw_syscalls",
            vec![
                String::from_utf8(fixture("raw_syscalls.sys_enter.format")).unwrap(),
                format("sys_exit", 442, &[("long id", 8, 8, true), ("long ret", 16, 8, true)], "\"NR %ld = %ld\", REC->id, REC->ret"),
            ],
        ),
    ];
    for (at, name) in [(0, "cpu0"), (1, "cpu1"), (2, "overrun")] {
        file.buffers[0].cpus[at].1 = fixture(name);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), &file.version_6());
    let ours = read(&path).unwrap();
    assert!(ours.rows.len() > 100);
    assert!(ours.losses.iter().any(|(stream, ..)| stream.ends_with("cpu2")), "{:?}", ours.losses);
    let again = read(&written(folder.path(), &file.version_7(ZLIB))).unwrap();
    assert_eq!(again, ours);
    let Some(theirs) = theirs(&written(folder.path(), &file.version_6()), &["-R"]) else { return };
    same(&ours.rows, &theirs, machine);
}

/// Makes a buffer with one event on each of the named CPUs.
fn buffer(machine: Machine, name: &'static str, clock: &'static str, times: &[(u32, u64)]) -> Buffer {
    let pages = |time| Page::new(machine, time).event(0, &switch(machine, 27, 1, 28)).bytes();
    Buffer { name, clock, cpus: times.iter().map(|&(cpu, time)| (cpu, if time > 0 { pages(time) } else { Vec::new() })).collect() }
}

#[test]
fn instances_are_separate_streams_and_may_have_more_cpus() {
    let folder = tempfile::tempdir().unwrap();
    for machine in Machine::ALL {
        let mut file = example(machine);
        file.buffers = vec![
            buffer(machine, "", "local", &[(0, 500), (1, 0)]),
            buffer(machine, "one", "local", &[(0, 0), (1, 300), (2, 400)]),
            buffer(machine, "two", "local", &[(0, 100), (1, 200)]),
        ];
        for bytes in [file.version_6(), file.version_7(ZSTD)] {
            let path = written(folder.path(), &bytes);
            let mut trace = Trace::open(&[&path], Options::default()).unwrap();
            let mut found = Vec::new();
            while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
                let Item::Event(event) = item else { panic!("{item:?}") };
                found.push((event.t_ns, catalogue.streams[event.stream.0 as usize].name.clone()));
            }
            let expected = [(100, "two/cpu0"), (200, "two/cpu1"), (300, "one/cpu1"), (400, "one/cpu2"), (500, "cpu0")];
            assert_eq!(found, expected.map(|(t_ns, name)| (t_ns, format!("trace.dat/{name}"))));
            let Some(theirs) = theirs(&path, &["-R"]) else { continue };
            let mut times: Vec<i64> = theirs.iter().map(|row| row.0).collect();
            times.sort_unstable();
            assert_eq!(times, [100, 200, 300, 400, 500]);
        }
    }
}

#[test]
fn output_of_a_latency_tracer_is_read_as_text() {
    let text = "# tracer: wakeup\n#\n# wakeup latency trace v1.1.5 on 6.1.0\n# latency: 52 us, #2/2, CPU#1\n\
        <idle>-0       1dNs..   17us+: _raw_spin_lock <-ttwu_do\n      sh-1234      1d..2.   19us : sched_switch: prev_comm=sh prev_pid=1234\n";
    let folder = tempfile::tempdir().unwrap();
    let mut file = example(Machine::ALL[0]);
    file.text = Some(text.to_owned());
    for bytes in [file.version_6(), file.version_7(Compression::NONE), file.version_7(ZLIB)] {
        let rows = read(&written(folder.path(), &bytes)).unwrap().rows;
        let told: Vec<_> = rows.iter().map(|row| (row.t_ns, row.cpu, row.who.as_str(), row.name.as_str())).collect();
        assert_eq!(told, [(17_000, 1, "<idle>-0", "function"), (19_000, 1, "sh-1234", "sched_switch")]);
        let field = |row: usize, at: usize| (rows[row].fields[at].0.as_str(), rows[row].fields[at].1.as_str());
        assert_eq!([field(0, 0), field(0, 1)], [("ip", "_raw_spin_lock"), ("parent_ip", "ttwu_do")]);
        assert_eq!([field(1, 0), field(1, 1)], [("prev_comm", "sh"), ("prev_pid", "1234")]);
    }
}

/// Compares the time options with trace-cmd's interpretation of them.
#[test]
fn times_are_converted_to_the_clock_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    for machine in Machine::ALL {
        let number = |value: u64, size| machine.number(value, size);
        let numbers = |values: &[i64]| values.iter().flat_map(|value| number(*value as u64, 8)).collect::<Vec<u8>>();
        let shift = |flags: u64, cpus: &[[&[i64]; 3]], fractions: &[i64]| {
            let mut data = [number(77, 8), number(flags, 4), number(cpus.len() as u64, 4)].concat();
            for [times, offsets, scalings] in cpus {
                data.extend(number(times.len() as u64, 4));
                data.extend([numbers(times), numbers(offsets), numbers(scalings)].concat());
            }
            data.extend(numbers(fractions));
            data
        };
        let tsc = |shift: u64| [number(2_000_000_000, 4), number(shift, 4), number(0, 8)].concat();
        let three: [&[i64]; 3] = [&[1000, 5000, 9000], &[10, -30, 50], &[1, 1, 1]];
        let cases: Vec<(&str, Vec<(u16, Vec<u8>)>, [i64; 3])> = vec![
            ("an offset", vec![(7, b"-400\0".to_vec())], [600, 5_600, 19_600]),
            ("a date in microseconds", vec![(1, b"0x10\0".to_vec())], [17_000, 22_000, 36_000]),
            ("cycles", vec![(14, tsc(32))], [465, 2793, 9313]),
            ("one sample", vec![(12, shift(1, &[[&[5], &[7], &[1]], [&[5], &[8], &[1]]], &[0, 0]))], [1_007, 6_008, 20_007]),
            ("a line between samples", vec![(12, shift(1, &[three, three], &[0; 6]))], [1_010, 5_990, 20_270]),
            ("steps between samples", vec![(12, shift(0, &[three, three], &[0; 6]))], [1_010, 5_970, 19_970]),
        ];
        for (what, options, expected) in cases {
            let mut file = example(machine);
            file.options = options;
            file.buffers = vec![buffer(machine, "", "local", &[(0, 1_000), (1, 6_000)])];
            let late = Page::new(machine, 20_000).event(0, &switch(machine, 28, 1, 27)).bytes();
            file.buffers[0].cpus[0].1.extend(late);
            let path = written(folder.path(), &file.version_7(Compression::NONE));
            let times: Vec<i64> = read(&path).unwrap().rows.iter().map(|row| row.t_ns).collect();
            assert_eq!(times, expected, "{what}");
            let Some(theirs) = theirs(&path, &["-R"]) else { continue };
            assert_eq!(times, theirs.iter().map(|row| row.0).collect::<Vec<i64>>(), "{what}, {machine:?}, next to trace-cmd");
        }
    }
}

#[test]
fn cpus_with_the_same_data_or_the_same_number_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for machine in Machine::ALL {
        let mut file = example(machine);
        file.buffers = vec![buffer(machine, "", "local", &[(0, 1_000), (1, 6_000)])];
        let whole = file.version_7(Compression::NONE);
        assert_eq!(read(&written(folder.path(), &whole)).unwrap().rows.len(), 2);
        // The table has the cpu, offset and size of each stream.
        let place = |cpu: u64| {
            let row = |bytes: &[u8]| bytes[..4] == machine.number(cpu, 4) && bytes[12..] == machine.number(PAGE as u64, 8);
            whole.windows(20).rposition(row).unwrap()
        };
        let (first, second) = (place(0), place(1));
        let refused = |bytes: &[u8]| read(&written(folder.path(), bytes)).unwrap_err();
        let mut forged = whole.clone();
        forged.copy_within(first + 4..first + 12, second + 4);
        assert!(refused(&forged).contains("the data of cpu 1 is also that of another cpu"), "{}", refused(&forged));
        let mut forged = whole.clone();
        forged.copy_within(first..first + 4, second);
        assert!(refused(&forged).contains("a buffer has data of cpu 0 twice"), "{}", refused(&forged));
    }
}

#[test]
fn times_out_of_range_are_reported_once_and_negative_times_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    for machine in Machine::ALL {
        let with = |options: Vec<(u16, Vec<u8>)>, stamp: u64| {
            let mut file = example(machine);
            file.options = options;
            file.buffers = vec![buffer(machine, "", "local", &[(0, stamp), (1, stamp)])];
            let read = read(&written(folder.path(), &file.version_7(Compression::NONE))).unwrap();
            (read.rows.iter().map(|row| row.t_ns).collect::<Vec<_>>(), read.diagnostics)
        };
        assert_eq!(with(vec![(7, b"-4000\0".to_vec())], 1_000), (vec![-3_000; 2], vec![]));
        let cycles = [machine.number(u32::MAX.into(), 4), machine.number(0, 4), machine.number(0, 8)].concat();
        for options in [vec![], vec![(14, cycles)]] {
            let (times, diagnostics) = with(options, 1 << 63);
            assert_eq!(times, [i64::MAX; 2]);
            assert!(
                diagnostics.len() == 1 && diagnostics[0].contains(": cpu 0, stamp 9223372036854775808: 64 bits of ns do not hold"),
                "{diagnostics:?}"
            );
        }
        // A time between two samples that are as far apart as possible.
        let words = |words: &[u64]| words.iter().flat_map(|word| machine.number(*word, 8)).collect::<Vec<u8>>();
        let ends = words(&[1, u64::MAX, i64::MIN as u64, i64::MAX as u64, u64::MAX, u64::MAX]);
        let one = [machine.number(2, 4), ends].concat();
        let samples = [words(&[77]), machine.number(1, 4), machine.number(2, 4), one.clone(), one].concat();
        assert_eq!(with(vec![(12, samples)], 1 << 62).1.len(), 1);
    }
}

#[test]
fn clock_that_counts_no_ns_is_reported_and_the_final_loss_count_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::ALL[0];
    let mut file = full(machine);
    file.buffers[0].clock = "counter";
    let stats = |cpu: u32, overrun: u64| {
        let text =
            format!("CPU: {cpu}\nentries: 0\noverrun: {overrun}\ncommit overrun: 0\nbytes: 672\ndropped events: 2\nread events: 275\n");
        (2, text.into_bytes())
    };
    file.options = vec![stats(0, 10), stats(2, 0)];
    for bytes in [file.version_6(), file.version_7(Compression::NONE)] {
        let read = read(&written(folder.path(), &bytes)).unwrap();
        assert!(read.diagnostics.len() == 1 && read.diagnostics[0].contains("counts of its clock (counter)"), "{:?}", read.diagnostics);
        let counted: Vec<(&str, Option<u64>)> = read.losses.iter().map(|loss| (loss.0.as_str(), loss.3)).collect();
        // The pages report 7 of the 12 lost events, and a loss without a count.
        let expected = [("trace.dat/cpu2", Some(2)), ("trace.dat/cpu0", Some(7)), ("trace.dat/cpu0", None), ("trace.dat/cpu0", Some(5))];
        assert_eq!(counted, expected);
    }
}

/// A small pseudo-random generator, with the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

#[test]
fn damage_leads_to_an_error_or_to_no_more_events_than_fit_into_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut opened = 0;
    for machine in Machine::ALL {
        let mut file = full(machine);
        file.buffers.push(buffer(machine, "one", "local", &[(0, 300), (1, 400)]));
        for whole in [file.version_6(), file.version_7(Compression::NONE), file.version_7(ZLIB), file.version_7(ZSTD)] {
            for case in 0..250 {
                let mut bytes = whole.clone();
                for _ in 0..=random.below(4) {
                    let at = random.below(bytes.len());
                    match random.below(6) {
                        0 => bytes[at] = random.below(256) as u8,
                        1 => bytes[at] = 0xff,
                        2 => {
                            let end = (at + 8).min(bytes.len());
                            bytes[at..end].fill([0, 0xff, 0x7f][random.below(3)]);
                        }
                        3 => bytes.truncate(at.max(1)),
                        4 => {
                            let from = random.below(bytes.len());
                            let length = random.below(64).min(bytes.len() - from.max(at));
                            bytes.copy_within(from..from + length, at);
                        }
                        _ => bytes[at] ^= 1 << random.below(8),
                    }
                }
                let path = written(folder.path(), &bytes);
                match read(&path) {
                    Ok(read) => {
                        opened += 1;
                        assert!(read.rows.len() <= bytes.len() / 4 * 4, "{machine:?} case {case}: {} events", read.rows.len());
                    }
                    Err(error) => assert!(error.contains("trace.dat"), "{error}"),
                }
            }
        }
    }
    assert!(opened > 1000, "{opened} of 4,000 could be opened");
}
