//! Stacks of waits on the critical path: a kernel's events by hand, and samples in the form in
//! which a recording has them.

use crate::support::composed::{drawn, options, two_cpus, BLOCKED};
use crate::support::linux::{Kernel, Val, DEAD};
use longpole_analysis::critical_path::samples::CriticalFunction;
use longpole_analysis::critical_path::{Answer, CriticalPath};
use longpole_analysis::pipeline::samples::{path_stacks, PathStacksOf, StackSamples};
use longpole_analysis::pipeline::wait_stacks::{WaitStack, WaitStacksReader};
use longpole_analysis::pipeline::Error;
use longpole_analysis::scheduling::flame_graph::{Code, Unit};
use longpole_analysis::scheduling::sampled_waits::{SampledWait, SampledWaits};
use longpole_analysis::scheduling::stack_gaps::{Remedy, StackGaps, Unnamed};
use longpole_analysis::scheduling::stacks::FunctionShare;
use longpole_analysis::scheduling::time_kind::TimeKind;
use longpole_analysis::verdict::code::add_places;
use longpole_analysis::verdict::data::because::Because;
use longpole_analysis::verdict::data::{Basis, Locks, Named, Outcome, SubjectLevel, Verdict, WaitPlaces};
use longpole_analysis::verdict::limits::Limits;
use longpole_analysis::what_if::functions::only_waits;
use longpole_analysis::what_if::Scenario;
use longpole_model::causes::{About, Composer, RunsOn};
use longpole_trace::{Options, Trace};
use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

const METADATA: &str = include_str!("../../../symbols/tests/fixtures/metadata");
const SAMPLE: u16 = 0;
const MAPPING: u16 = 1;
const COMM: u16 = 2;
const STACK: u16 = 7;
const WAITING_RATE: u16 = 8;
const WAITED: (u8, i32) = (1, 0);

/// Places in the program and in the C library, as return addresses.
const COMPUTES: u64 = 0x1041;
const WAITS: u64 = 0x1021;
const ANSWERS: u64 = 0x1051;
const MAIN: u64 = 0x1031;
/// The same place in the main function, if it runs itself.
const IN_MAIN: u64 = 0x1030;
const LIBRARY: u64 = 0x2010;
const LIBRARY_TOO: u64 = 0x2021;
/// A place without a name in the program, one in code that it generated, the function that
/// interprets scripts, and a function of a script.
const STRIPPED: u64 = 0x1091;
const GENERATED: u64 = 0x3011;
const INTERPRETER: u64 = 0x1061;
const SCRIPT: u64 = 0x3021;

/// A stream of samples; times are those of the kernel's events.
#[derive(Default)]
struct Stream {
    events: Vec<u8>,
    last: u64,
    /// Process of all threads; by default, each thread is a process.
    pid: Option<i32>,
}

impl Stream {
    fn event(&mut self, id: u16, time: u64, tid: i32, fields: &[u8]) {
        self.events.extend(id.to_le_bytes());
        self.events.extend(time.to_le_bytes());
        self.events.extend([self.pid.unwrap_or(tid), tid].iter().flat_map(|id| id.to_le_bytes()));
        self.events.extend(fields);
        self.last = time;
    }

    fn process(&mut self, tid: i32) {
        self.event(COMM, 1, tid, format!("\0p{tid}\0").as_bytes());
        for (start, path) in [(0x1000u64, "/bin/one"), (0x2000, "/usr/lib/libc.so.6"), (0x3000, "//anon")] {
            let mut fields: Vec<u8> = [start, 0x1000, 0, 77].iter().flat_map(|word| word.to_le_bytes()).collect();
            fields.extend(path.bytes().chain([0]));
            self.event(MAPPING, 1, tid, &fields);
        }
    }

    fn ran(&mut self, time: u64, tid: i32, user: &[u64]) {
        self.event(SAMPLE, time, tid, &[chain(&[]), chain(user)].concat());
    }

    fn stack(&mut self, time: u64, tid: i32, (cause, other): (u8, i32), user: &[u64]) {
        self.stack_with(time, tid, (cause, other), 0, user);
    }

    fn stack_with(&mut self, time: u64, tid: i32, (cause, other): (u8, i32), truncated: u8, user: &[u64]) {
        let fields = [vec![cause], other.to_le_bytes().to_vec(), vec![truncated], chain(&[]), chain(user)].concat();
        self.event(STACK, time, tid, &fields);
    }

    fn period(&mut self, ns: u64) {
        self.event(WAITING_RATE, 2, 0, &ns.to_le_bytes());
    }

    fn recording(&self) -> tempfile::TempDir {
        let clock =
            [("freq = 2599998132", "freq = 1000000000"), ("offset_s = 1795296710", "offset_s = 0"), ("offset = 1019740570", "offset = 0")];
        let metadata = clock.iter().fold(METADATA.to_owned(), |text, (from, to)| text.replace(from, to));
        let uuid = METADATA.split("uuid = \"").nth(1).unwrap().split('"').next().unwrap().replace('-', "");
        let mut bytes = 0xc1fc_1fc1u32.to_le_bytes().to_vec();
        bytes.extend((0..16).map(|at| u8::from_str_radix(&uuid[2 * at..2 * at + 2], 16).unwrap()));
        bytes.extend(0u32.to_le_bytes());
        let bits = (76 + self.events.len() as u64) * 8;
        bytes.extend([0, self.last, bits, bits, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(&self.events);
        let place = tempfile::tempdir().unwrap();
        for folder in ["samples", "symbols"] {
            fs::create_dir(place.path().join(folder)).unwrap();
        }
        fs::write(place.path().join("longpole.json"), "{\"host\":\"elsewhere\"}").unwrap();
        fs::write(place.path().join("samples/metadata"), metadata).unwrap();
        fs::write(place.path().join("samples/cpu0"), bytes).unwrap();
        let functions = [
            r#"{"version":1}"#,
            r#"{"module":5,"path":"/bin/one","inode":77}"#,
            r#"{"module":5,"offset":32,"functions":[{"name":"waits","file":"/src/a.c","line":12}]}"#,
            r#"{"module":5,"offset":48,"functions":[{"name":"main","file":"/src/a.c","line":40}]}"#,
            r#"{"module":5,"offset":64,"functions":[{"name":"computes"}]}"#,
            r#"{"module":5,"offset":65,"functions":[{"name":"computes"}]}"#,
            r#"{"module":5,"offset":80,"functions":[{"name":"answers"}]}"#,
            r#"{"module":5,"offset":96,"functions":[{"name":"_PyEval_EvalFrameDefault.cold"}]}"#,
            r#"{"pid":11,"address":12320,"functions":[{"name":"script","file":"a.py","interpreted":true}]}"#,
            r#"{"module":6,"path":"/usr/lib/libc.so.6","inode":77}"#,
            r#"{"module":6,"offset":16,"functions":[{"name":"in_the_library"}]}"#,
            r#"{"module":6,"offset":32,"functions":[{"name":"of_the_library"}]}"#,
        ];
        fs::write(place.path().join("symbols/functions.jsonl"), functions.join("\n")).unwrap();
        place
    }
}

fn chain(of: &[u64]) -> Vec<u8> {
    [(of.len() as u16).to_le_bytes().to_vec(), of.iter().flat_map(|word| word.to_le_bytes()).collect()].concat()
}

/// The path of the kernel's events, with the waits that samples are of.
struct Read {
    composer: Composer,
    waits: SampledWaits,
    answer: Answer,
    recording: tempfile::TempDir,
}

impl Read {
    /// Reads the kernel's events and the samples in the order of time.
    fn new(kernel: &Kernel, stream: &Stream) -> Read {
        let recording = stream.recording();
        let mut samples = Trace::open(&[recording.path().join("samples")], Options::default()).unwrap();
        let mut composer = Composer::built_in(About::default()).unwrap();
        let mut critical_path = CriticalPath::new(options());
        let mut waits = SampledWaits::default();
        let mut drain = |composer: &mut Composer| {
            while let Some(interaction) = composer.next_interaction() {
                critical_path.interaction(composer.vocabulary(), &interaction);
            }
        };
        let mut ahead = Vec::new();
        while let Some(t_ns) = samples.see_next(|item, _| item.t_ns()).unwrap() {
            ahead.push(t_ns);
        }
        let mut samples = Trace::open(&[recording.path().join("samples")], Options::default()).unwrap();
        let mut ahead = ahead.into_iter().peekable();
        kernel.replay(|catalogue, item| {
            while ahead.next_if(|&t_ns| t_ns < item.t_ns()).is_some() {
                samples.see_next(|item, catalogue| waits.item(composer.linux(), catalogue, item)).unwrap();
            }
            composer.item_with(catalogue, item, &mut waits);
            drain(&mut composer);
        });
        composer.finish(&kernel.catalogue);
        drain(&mut composer);
        let answer = critical_path.answer(composer.vocabulary()).unwrap();
        Read { composer, waits, answer, recording }
    }

    fn with<T>(&self, ask: impl FnOnce(&PathStacksOf<'_>, &[FunctionShare]) -> T) -> T {
        let mut runs_on: HashMap<&str, Vec<RunsOn>> = HashMap::new();
        for &(machine, place) in self.composer.runs_on() {
            runs_on.entry(self.composer.vocabulary().machine_name(machine)).or_default().push(place);
        }
        let read = |samples: &mut StackSamples| feed(self.recording.path(), samples);
        let recording = Some(self.recording.path().to_owned());
        let (of_path, all, _) = path_stacks::<Error>(&runs_on, self.answer.segments.as_ref(), (&self.waits, recording), read).unwrap();
        ask(&of_path, &all)
    }

    fn functions(&self) -> Vec<CriticalFunction> {
        self.with(|of_path, all| of_path.table(all).functions(self.answer.length_ns))
    }
}

fn feed(recording: &Path, samples: &mut StackSamples) -> Result<(), Error> {
    let mut trace = Trace::open(&[recording.join("samples")], Options::default()).unwrap();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        samples.item(catalogue, &item, true);
    }
    Ok(())
}

/// A thread that computes, sleeps, and computes again.
fn sleeper() -> Kernel {
    let mut kernel = two_cpus();
    kernel.syscall(10_000, 0, "nanosleep", None);
    kernel.switch(10_100, 0, 11, BLOCKED, 0);
    kernel.waking(40_000, 0, 11, 0);
    kernel.switch(40_100, 0, 0, 0, 11);
    kernel.syscall(40_200, 0, "nanosleep", Some(0));
    kernel.syscall(50_100, 0, "getpid", None);
    kernel
}

fn sleeper_samples(period_ns: u64) -> Stream {
    let mut stream = Stream::default();
    stream.process(11);
    stream.period(period_ns);
    stream.ran(5_000, 11, &[COMPUTES, MAIN]);
    stream.stack(40_150, 11, WAITED, &[LIBRARY, WAITS, MAIN]);
    stream.ran(45_000, 11, &[COMPUTES, MAIN]);
    stream
}

#[test]
fn a_wait_on_the_path_belongs_to_the_programs_own_function_that_waits() {
    let read = Read::new(&sleeper(), &sleeper_samples(1_000));
    assert_eq!(
        drawn(&read.answer),
        "100-10000 t11::run, 10000-10100 t11::nanosleep, 10100-40000 t11::asleep, 40000-40100 t11::runnable, \
         40100-40200 t11::nanosleep, 40200-50100 t11::user"
    );
    let functions = read.functions();
    let row = |name: &str, time: TimeKind| functions.iter().find(|row| row.function == name && row.time == time).unwrap();
    let waits = row("waits", TimeKind::Timer);
    // The wait was certainly sampled. The interval allows for the few samples of the running code.
    assert!((waits.share - 29_900.0 / 50_000.0).abs() < 1e-9 && waits.low < waits.share && waits.high > waits.share, "{waits:?}");
    assert_eq!(
        (waits.process.as_str(), waits.module.as_str(), waits.file.as_deref(), waits.line),
        ("p11", "one", Some("/src/a.c"), Some(12))
    );
    assert_eq!((waits.caller.as_deref(), waits.profile_rank), (Some("main"), None));
    let for_cpu = row("waits", TimeKind::Cpu);
    assert!((for_cpu.share - 100.0 / 50_000.0).abs() < 1e-9, "{for_cpu:?}");
    let computes = row("computes", TimeKind::Running);
    assert!((computes.share - 20_000.0 / 50_000.0).abs() < 1e-9 && computes.profile_rank == Some(1), "{computes:?}");
    assert!(!functions.iter().any(|row| row.function == "in_the_library"), "{functions:?}");
}

#[test]
fn a_wait_that_was_sampled_by_chance_has_an_interval() {
    let mut stream = sleeper_samples(300_000);
    stream.ran(46_000, 11, &[COMPUTES, MAIN]);
    let functions = Read::new(&sleeper(), &stream).functions();
    let waits = functions.iter().find(|row| row.time == TimeKind::Timer).unwrap();
    // The state's time is known, however rarely its waits are sampled.
    assert!((waits.share - 29_900.0 / 50_000.0).abs() < 1e-9, "{waits:?}");
    assert!(waits.low < 0.3 && waits.high > 0.8, "{waits:?}");
}

#[test]
fn the_stacks_cover_the_whole_path_and_waits_say_for_what() {
    let read = Read::new(&sleeper(), &sleeper_samples(1_000));
    let lines = read.with(|of_path, _| of_path.lines());
    assert_eq!(
        lines,
        [
            "p11;main;computes 20000",
            "p11;main;waits;in_the_library;[waits for a CPU] 100",
            "p11;main;waits;in_the_library;[waits for a timer] 29900"
        ]
    );
    // Without samples of the wait, its state remains.
    let mut stream = Stream::default();
    stream.process(11);
    stream.ran(5_000, 11, &[COMPUTES, MAIN]);
    let lines = Read::new(&sleeper(), &stream).with(|of_path, _| of_path.lines());
    assert_eq!(lines, ["p11;main;computes 20000", "t11;[asleep] 29900", "t11;[runnable] 100"]);
}

/// Without code of the program's own, as in a stripped program, no function is named.
#[test]
fn the_code_of_a_state_has_the_function_within_it_that_takes_the_time() {
    let codes = |stacks: &[&[u64]]| {
        let mut stream = Stream::default();
        stream.process(11);
        for (at, stack) in stacks.iter().enumerate() {
            stream.ran(2_000 + 500 * at as u64, 11, stack);
        }
        let read = Read::new(&sleeper(), &stream);
        let codes = read.with(|of_path, all| of_path.table(all).codes());
        let first = codes.into_iter().find(|code| code.time == TimeKind::Running).unwrap();
        (first.function.unwrap_or_default(), first.callees.join(" "))
    };
    let named = |function: &str, callee: &str| (function.to_owned(), callee.to_owned());
    assert_eq!(codes(&[&[LIBRARY, MAIN], &[LIBRARY, MAIN], &[IN_MAIN]]), named("main", "in_the_library"));
    assert_eq!(codes(&[&[LIBRARY, MAIN], &[IN_MAIN]]), named("main", ""));
    assert_eq!(codes(&[&[LIBRARY, LIBRARY_TOO, MAIN], &[LIBRARY, LIBRARY_TOO, MAIN]]), named("main", "of_the_library in_the_library"));
    assert_eq!(codes(&[&[LIBRARY, LIBRARY_TOO], &[LIBRARY, LIBRARY_TOO]]), named("", ""));
    assert_eq!(codes(&[&[LIBRARY, STRIPPED], &[STRIPPED, STRIPPED]]), named("", ""));
}

/// Returns the samples of waits, and with `has_running` of running code, in a range.
fn folded(read: &Read, range: Range<i64>, has_running: bool) -> StackSamples<'_> {
    let recording = Some(read.recording.path().to_owned());
    let mut samples = StackSamples::new(recording, None, true).waits(read.waits.all(), range, has_running);
    feed(read.recording.path(), &mut samples).unwrap();
    samples
}

#[test]
fn of_a_wait_at_the_edge_of_a_range_the_time_within_counts() {
    let read = Read::new(&sleeper(), &sleeper_samples(1_000));
    let lines = |ns: [u64; 2]| {
        let line = |(kind, ns): (&str, u64)| format!("p11;main;waits;in_the_library;[waits for a {kind}] {ns}");
        [("CPU", ns[0]), ("timer", ns[1])].map(line).to_vec()
    };
    assert_eq!(folded(&read, i64::MIN..i64::MAX, false).lines(), lines([100, 29_900]));
    // The sample comes after the range, and is needed.
    let samples = folded(&read, 20_000..40_050, false);
    assert_eq!((samples.lines(), samples.last_ns()), (lines([50, 20_000]), 40_150));
    assert!(folded(&read, 40_100..60_000, false).lines().is_empty());
    // A wait that was sampled by chance stands for others, also with a part of it.
    let read = Read::new(&sleeper(), &sleeper_samples(300_000));
    assert_eq!(folded(&read, 20_000..40_050, false).lines(), lines([500, 200_000]));
}

#[test]
fn a_flame_graph_of_a_range_has_the_times_of_running_code_and_of_waits() {
    let read = Read::new(&sleeper(), &sleeper_samples(1_000));
    let frames = |range: Range<i64>| -> Vec<(String, u64)> {
        let graph = folded(&read, range, true).flame_graph(Some(7_000));
        assert_eq!(graph.unit, Unit::Ns);
        graph.frames.into_iter().filter(|frame| frame.own > 0).map(|frame| (frame.name, frame.own)).collect()
    };
    let own = |frames: &[(&str, u64)]| frames.iter().map(|&(name, ns)| (name.to_owned(), ns)).collect::<Vec<_>>();
    assert_eq!(frames(0..40_000), own(&[("computes", 7_000), ("waits for a timer", 29_900)]));
    assert_eq!(frames(40_000..50_000), own(&[("computes", 7_000), ("waits for a CPU", 100)]));
    assert_eq!(frames(5_001..45_000), own(&[("waits for a CPU", 100), ("waits for a timer", 29_900)]));
}

#[test]
fn a_wait_is_of_the_kind_of_what_ended_it() {
    let kinds = |waker: &dyn Fn(&mut Kernel)| {
        let mut kernel = two_cpus();
        kernel.syscall(10_000, 0, "read", None);
        kernel.switch(10_100, 0, 11, BLOCKED, 0);
        waker(&mut kernel);
        kernel.switch(40_100, 0, 0, 0, 11);
        kernel.syscall(40_200, 0, "read", Some(0));
        kernel.syscall(50_100, 0, "getpid", None);
        let read = Read::new(&kernel, &sleeper_samples(1_000));
        let parts = read.waits.all()[0].parts();
        parts.map(|(kind, part)| (kind, part.start, part.end))
    };
    let of = |kind: TimeKind| [(kind, 10_100, 40_000), (TimeKind::Cpu, 40_000, 40_100)];
    let softirq = |number: i64| {
        move |kernel: &mut Kernel| {
            kernel.event(39_900, 0, "irq_softirq_entry", &[("vec", Val::I(number))]);
            kernel.waking(40_000, 0, 11, 0);
            kernel.event(40_050, 0, "irq_softirq_exit", &[("vec", Val::I(number))]);
        }
    };
    assert_eq!(kinds(&softirq(1)), of(TimeKind::Timer));
    assert_eq!(kinds(&softirq(3)), of(TimeKind::Network));
    assert_eq!(kinds(&softirq(6)), of(TimeKind::Waiting));
    assert_eq!(kinds(&|kernel| kernel.waking(40_000, 1, 11, 0)), of(TimeKind::Waiting));
}

#[test]
fn a_wait_and_its_wake_up_are_shown_with_their_lines() {
    let (kernel, stream) = joined_user_of_lock();
    let read = Read::new(&kernel, &stream);
    let mut reader = WaitStacksReader::new(Some(read.recording.path()), read.waits.all());
    let mut trace = Trace::open(&[read.recording.path().join("samples")], Options::default()).unwrap();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        reader.item(catalogue, &item);
    }
    let stacks = reader.finish();
    let wait = read.waits.all().iter().find(|wait| wait.tid == 12).unwrap();
    let WaitStack { waiter, waker, woken_ns, .. } = stacks.of(wait).unwrap();
    let own = &waiter.frames[waiter.own.unwrap()];
    assert_eq!((own.function.as_str(), own.file.as_deref(), own.line), ("waits", Some("/src/a.c"), Some(12)));
    let functions: Vec<&str> = waiter.frames.iter().map(|frame| frame.function.as_str()).collect();
    assert_eq!((functions, waiter.process.as_str(), waiter.truncated), (vec!["in_the_library", "waits", "main"], "p10", false));
    let waker = waker.unwrap();
    assert_eq!((waker.tid, waker.frames[waker.own.unwrap()].function.as_str(), woken_ns), (11, "answers", Some(10_010)));
    // A wait whose sample is not in the trace has no stack.
    assert_eq!(stacks.of(&SampledWait { t_ns: wait.t_ns + 1, ..*wait }), None);
}

#[test]
fn stacks_that_end_early_are_marked_and_counted() {
    let mut stream = Stream::default();
    stream.process(11);
    stream.period(1_000);
    stream.ran(5_000, 11, &[COMPUTES, MAIN]);
    stream.stack_with(40_150, 11, WAITED, 1, &[LIBRARY, WAITS]);
    stream.ran(45_000, 11, &[COMPUTES, MAIN]);
    let read = Read::new(&sleeper(), &stream);
    let (lines, graph, gaps) = read.with(|of_path, _| (of_path.lines(), of_path.flame_graph(), of_path.gaps()));
    assert_eq!(
        lines,
        [
            "p11;[truncated];waits;in_the_library;[waits for a CPU] 100",
            "p11;[truncated];waits;in_the_library;[waits for a timer] 29900",
            "p11;main;computes 20000"
        ]
    );
    let truncated = graph.frames.iter().find(|frame| frame.code == Code::Truncated).unwrap();
    assert_eq!((truncated.name.as_str(), truncated.depth, truncated.count), ("[truncated]", 1, 30_000));
    // One sample, which covers two states of the path. Of the others, nothing is known.
    assert_eq!((gaps.truncated, gaps.truncated_share, gaps.unnamed.len()), (Some(1), Some(1.0), 0), "{gaps:?}");
    // All samples of running code, as `cpu` counts them.
    stream.stack_with(46_000, 11, (0, 0), 1, &[COMPUTES]);
    stream.stack_with(46_100, 11, (0, 0), 0, &[COMPUTES, MAIN]);
    let read = Read::new(&sleeper(), &stream);
    let mut samples = StackSamples::new(Some(read.recording.path().to_owned()), None, true);
    feed(read.recording.path(), &mut samples).unwrap();
    assert_eq!(samples.lines(), ["p11;[truncated];computes 1", "p11;main;computes 3"]);
    let gaps = samples.gaps();
    assert_eq!((gaps.truncated, gaps.truncated_share), (Some(1), Some(0.5)), "{gaps:?}");
    assert_eq!(gaps.truncated_in.iter().map(|it| (it.process.as_str(), it.share)).collect::<Vec<_>>(), [("p11", 0.5)]);
}

#[test]
fn code_without_names_has_the_remedy_that_fits_its_origin() {
    let unnamed = |stacks: &[&[u64]]| {
        let mut stream = Stream::default();
        stream.process(11);
        for (at, stack) in stacks.iter().enumerate() {
            stream.ran(5_000 + at as u64, 11, stack);
        }
        let read = Read::new(&sleeper(), &stream);
        let of_path = read.with(|of_path, _| of_path.gaps());
        let mut samples = StackSamples::new(Some(read.recording.path().to_owned()), None, false);
        feed(read.recording.path(), &mut samples).unwrap();
        let row = |it: &Unnamed| (it.process.clone().unwrap(), it.module.clone(), it.remedy, (100.0 * it.share).round() as u64);
        let rows = |gaps: &StackGaps| gaps.unnamed.iter().map(row).collect::<Vec<_>>();
        assert_eq!(of_path.truncated, None);
        // All these samples are on the path, each with the same time.
        assert_eq!(rows(&of_path), rows(&samples.gaps()));
        rows(&of_path)
    };
    let of = |module: &str, remedy, share| ("p11".to_owned(), module.to_owned(), remedy, share);
    // A stack counts once for a module, however often it goes through it.
    let stacks: [&[u64]; 4] = [&[COMPUTES, STRIPPED, STRIPPED + 4, MAIN], &[STRIPPED - 1, MAIN], &[GENERATED, MAIN], &[COMPUTES, MAIN]];
    assert_eq!(unnamed(&stacks), [of("one", Remedy::DebugInformation, 50), of("[jit]", Remedy::Runtime, 25)]);
    // The functions of an interpreted program are missing only where none of them is known.
    assert_eq!(unnamed(&[&[COMPUTES, INTERPRETER, MAIN], &[COMPUTES, MAIN]]), [of("Python", Remedy::Runtime, 50)]);
    assert_eq!(unnamed(&[&[COMPUTES, INTERPRETER, SCRIPT, INTERPRETER, MAIN]]), []);
}

#[test]
fn names_of_the_kernel_are_missing_only_if_none_of_its_functions_has_one() {
    let mut stream = Stream::default();
    stream.process(11);
    // A function of the kernel, and code that the kernel generated.
    for (time, kernel) in [(5_000, 0xffff_ffff_8100_0010u64), (6_000, 0xffff_ffff_c000_0010)] {
        stream.event(SAMPLE, time, 11, &[chain(&[kernel]), chain(&[COMPUTES, MAIN])].concat());
    }
    let recording = stream.recording();
    let unnamed = || {
        let mut samples = StackSamples::new(Some(recording.path().to_owned()), None, false);
        feed(recording.path(), &mut samples).unwrap();
        let unnamed = samples.gaps().unnamed;
        unnamed.into_iter().map(|it| (it.process, it.module, it.remedy, it.share)).collect::<Vec<_>>()
    };
    assert_eq!(unnamed(), [(None, "[kernel]".to_owned(), Remedy::KernelSymbols, 1.0)]);
    let symbols = "ffffffff81000000 T a_function\nffffffff81001000 T _etext\n";
    fs::write(recording.path().join("symbols/kallsyms"), symbols).unwrap();
    assert_eq!(unnamed(), []);
}

#[test]
fn the_part_of_a_state_within_a_function_includes_its_callees() {
    let read = Read::new(&sleeper(), &sleeper_samples(1_000));
    let within = read.with(|of_path, _| [of_path.within("main"), of_path.within("in_the_library"), of_path.within("nothing")]);
    let states = |at: usize| within[at].iter().map(|it| (it.state.as_str(), it.part)).collect::<Vec<_>>();
    assert_eq!(states(0), [("asleep", 1.0), ("run", 1.0), ("user", 1.0), ("runnable", 1.0)]);
    assert_eq!(states(1), [("asleep", 1.0), ("runnable", 1.0)]);
    assert!(states(2).is_empty());
}

#[test]
fn a_wait_for_another_thread_has_the_stacks_of_both_ends() {
    let mut kernel = two_cpus();
    kernel.switch(110, 1, 0, 0, 12);
    kernel.syscall(120, 1, "read", None);
    kernel.switch(130, 1, 12, BLOCKED, 0);
    kernel.syscall(150, 0, "write", None);
    kernel.waking(10_200, 0, 12, 1);
    kernel.switch(10_207, 1, 0, 0, 12);
    kernel.syscall(10_210, 1, "read", Some(1));
    kernel.syscall(10_300, 1, "getpid", None);
    let mut stream = Stream::default();
    stream.process(11);
    stream.process(12);
    stream.period(1_000);
    stream.stack(10_200, 11, (2, 12), &[LIBRARY, ANSWERS, MAIN]);
    stream.stack(10_208, 12, WAITED, &[LIBRARY, WAITS, MAIN]);
    let read = Read::new(&kernel, &stream);
    let pairs = read.with(|of_path, _| of_path.ended_waits(read.answer.length_ns));
    let [pair] = &pairs[..] else { panic!("{pairs:?}") };
    assert_eq!((pair.waiter.process.as_str(), pair.waiter.function.as_str()), ("p12", "waits"));
    assert_eq!((pair.waker.process.as_str(), pair.waker.function.as_str()), ("p11", "answers"));
    assert_eq!(pair.waiter.stack, ["in_the_library", "waits", "main"]);
    // From the begin of the wait to the wake-up; what follows is the waiter's own time.
    assert_eq!((pair.count, pair.ns), (1.0, 10_070));
}

/// A thread that holds a lock, one that waits for it, and one that joins the second for the whole
/// run.
fn joined_user_of_lock() -> (Kernel, Stream) {
    let mut kernel = two_cpus();
    let mut futex = |t: i64, cpu: u32, address: i64, op: i64| {
        kernel.event(t, cpu, "syscall_entry_futex", &[("uaddr", Val::I(address)), ("op", Val::I(op)), ("val", Val::I(1))]);
    };
    futex(120, 1, 0x9000, 265);
    futex(140, 1, 0x7000, 128);
    futex(10_000, 0, 0x7000, 129);
    kernel.switch(110, 1, 0, 0, 13);
    kernel.switch(130, 1, 13, BLOCKED, 12);
    kernel.switch(150, 1, 12, BLOCKED, 0);
    kernel.waking(10_010, 0, 12, 1);
    kernel.syscall(10_020, 0, "futex", Some(1));
    kernel.switch(10_025, 1, 0, 0, 12);
    kernel.syscall(10_030, 1, "futex", Some(0));
    kernel.switch(10_100, 0, 11, BLOCKED, 0);
    kernel.waking(15_000, 1, 13, 1);
    kernel.switch(15_010, 1, 12, DEAD, 13);
    kernel.syscall(15_020, 1, "futex", Some(0));
    kernel.syscall(15_100, 1, "getpid", None);
    kernel.events.sort_by_key(|event| event.0);
    let mut stream = Stream { pid: Some(10), ..Stream::default() };
    stream.process(10);
    stream.period(1_000);
    stream.stack(10_010, 11, (2, 12), &[LIBRARY, ANSWERS, MAIN]);
    stream.stack(10_026, 12, WAITED, &[LIBRARY, WAITS, MAIN]);
    stream.stack(15_000, 12, (2, 13), &[LIBRARY, COMPUTES]);
    stream.stack(15_011, 13, WAITED, &[LIBRARY, MAIN]);
    (kernel, stream)
}

#[test]
fn the_places_of_a_lock_are_not_those_of_a_longer_wait_for_the_end_of_a_thread() {
    let (kernel, stream) = joined_user_of_lock();
    let read = Read::new(&kernel, &stream);
    let pairs = read.with(|of_path, _| of_path.ended_waits(read.answer.length_ns));
    let functions: Vec<_> = pairs.iter().map(|pair| (pair.waiter.function.as_str(), pair.waker.function.as_str())).collect();
    assert_eq!(functions, [("main", "computes"), ("waits", "answers")]);
    let places = |address: &str, program: &str| {
        let locks = Some(Locks { count: 1, address: address.to_owned(), share: 1.0 });
        let because = vec![Because::Lock { count: 1, share: 0.6, locks }];
        let subject = Some(Named::of_name(SubjectLevel::Process, program));
        let mut verdict = Verdict { subject, because, share: Some(0.6), ..Verdict::new(Outcome::Bottleneck, Basis::Subjects) };
        add_places(&mut verdict, &pairs, &Limits::built_in().unwrap());
        verdict.wait_places
    };
    let expected = WaitPlaces { waits_in: "waits".to_owned(), ended_in: "answers".to_owned() };
    assert_eq!(places("0x7000", "p10"), Some(expected));
    assert_eq!((places("0x8000", "p10"), places("0x7000", "other")), (None, None));
}

#[test]
fn a_change_of_a_function_leaves_out_waits_that_depend_on_others() {
    let mut kernel = two_cpus();
    kernel.syscall(10_000, 0, "read", None);
    kernel.switch(10_100, 0, 11, BLOCKED, 0);
    kernel.waking(40_000, 0, 11, 0);
    kernel.switch(40_100, 0, 0, 0, 11);
    kernel.syscall(40_200, 0, "read", Some(0));
    kernel.syscall(50_100, 0, "getpid", None);
    let read = Read::new(&kernel, &sleeper_samples(1_000));
    let within = read.with(|of_path, _| of_path.within("main"));
    let (scalable, waits): (Vec<_>, Vec<_>) = within.iter().cloned().partition(|it| it.is_scalable);
    assert!(!scalable.is_empty() && !waits.is_empty(), "{within:?}");
    let change = Scenario::parse("main x0.5").unwrap();
    let [estimated, ..] = change.of_function(0.5, &within).unwrap();
    let changes = format!("{estimated:?}");
    for it in &within {
        assert_eq!(changes.contains(&format!("{:?}", it.state)), it.is_scalable, "{}: {changes}", it.state);
    }
    assert!(change.of_function(0.5, &waits).is_none());
    let why = only_waits("main", &waits);
    assert!(why.contains(&format!("{}::{}", waits[0].class, waits[0].state)) && why.contains("only waits"), "{why}");
}
