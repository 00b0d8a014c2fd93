//! perf.data files that are made byte by byte, as `perf_event.h` and perf's documentation of its
//! file format describe them. They are tested in both byte orders, as a file and as the output of a
//! pipe, with every part that a sample can have, and damaged.

use longpole_trace::Catalogue;
use longpole_trace::Event;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use longpole_trace::Value;
use std::path::{Path, PathBuf};

/// All parts, except those that exclude another one.
const ALL: u64 = (1 << 24) - 1;
const USER_REGS: u64 = 0b101;
const INTR_REGS: u64 = 0b1;
/// Times and ids of counters in a group.
const READ_FORMAT: u64 = 1 | 2 | 4 | 8;
const IDS: [u64; 2] = [70, 71];
const CLOCK_DATA: u32 = 29;

#[derive(Clone, Copy)]
struct Machine {
    big: bool,
}

impl Machine {
    fn number(self, value: u64, size: usize) -> Vec<u8> {
        match self.big {
            true => value.to_be_bytes()[8 - size..].to_vec(),
            false => value.to_le_bytes()[..size].to_vec(),
        }
    }

    fn words(self, words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| self.number(*word, 8)).collect()
    }

    fn halves(self, halves: &[u32]) -> Vec<u8> {
        halves.iter().flat_map(|half| self.number((*half).into(), 4)).collect()
    }

    fn flag(self, bit: u32) -> u64 {
        if self.big {
            1 << (63 - bit)
        } else {
            1 << bit
        }
    }

    fn record(self, kind: u32, misc: u64, body: &[u8]) -> Vec<u8> {
        let body = [body, &vec![0; body.len().next_multiple_of(8) - body.len()][..]].concat();
        [self.number(kind.into(), 4), self.number(misc, 2), self.number(8 + body.len() as u64, 2), body].concat()
    }

    /// Makes the attribute of a software event: with all parts, or only with process, thread, time
    /// and CPU.
    fn attribute(self, config: u64, sample_type: u64) -> Vec<u8> {
        let mut out = self.halves(&[1, 128]);
        out.extend(self.words(&[config, 1000, sample_type, READ_FORMAT, self.flag(18) | self.flag(25)]));
        out.extend(self.halves(&[0, 0]));
        out.extend(self.words(&[0, 0, 1 << 17, USER_REGS]));
        // CLOCK_MONOTONIC.
        out.extend(self.halves(&[64, 1]));
        out.extend(self.words(&[INTR_REGS]));
        out.resize(128, 0);
        out
    }

    fn full_sample(self, time: u64) -> Vec<u8> {
        let mut body = self.words(&[IDS[0], 0x1111]);
        body.extend(self.halves(&[40, 41]));
        body.extend(self.words(&[time, 0x2222, IDS[0], 5]));
        body.extend(self.halves(&[3, 0]));
        body.extend(self.words(&[99]));
        // A group of two counters, a call chain, and a branch preceded by an index.
        body.extend(self.words(&[2, 500, 400, 8, IDS[0], 9, IDS[1]]));
        body.extend(self.words(&[2, 0xffff_ffff_ffff_ff80, 0x3333]));
        body.extend([self.number(4, 4), vec![1, 2, 3, 4]].concat());
        body.extend(self.words(&[1, 0, 0x10, 0x20, 3]));
        body.extend(self.words(&[2, 0xa, 0xb]));
        body.extend(self.words(&[8, 0x0102_0304_0506_0708, 4]));
        body.extend(self.words(&[6, 7, 8]));
        body.extend(self.words(&[2, 0xc]));
        body.extend(self.words(&[0x4444, 12, 4096, 8192]));
        body.extend(self.words(&[8, 0x0908]));
        self.record(9, 2, &body)
    }

    /// Makes the trailer of records that are no samples.
    fn trailer(self, time: u64) -> Vec<u8> {
        let mut out = self.halves(&[40, 41]);
        out.extend(self.words(&[time, IDS[0], 5]));
        out.extend(self.halves(&[3, 0]));
        out.extend(self.words(&[IDS[0]]));
        out
    }

    fn data(self) -> Vec<u8> {
        let comm = [self.halves(&[40, 41]), b"a thread\0\0\0\0\0\0\0\0".to_vec()].concat();
        let lost = self.words(&[IDS[0], 17]);
        let task = [self.halves(&[40, 40, 42, 41]), self.words(&[2500])].concat();
        [
            // A record of perf itself, which has no time.
            self.record(3, 0, &[comm.clone(), self.trailer(0)].concat()),
            self.full_sample(3000),
            self.record(3, 1 << 13, &[comm, self.trailer(1000)].concat()),
            self.record(7, 0, &[task, self.trailer(2500)].concat()),
            self.record(2, 0, &[lost, self.trailer(3500)].concat()),
            self.record(14, 1 << 13, &self.trailer(3600)),
            self.record(68, 0, b""),
            self.record(68, 0, b""),
            self.full_sample(4000),
        ]
        .concat()
    }

    fn feature(self) -> Vec<u8> {
        [self.halves(&[1, 1]), self.words(&[1_700_000_000_000_000_000, 0])].concat()
    }

    fn file(self) -> Vec<u8> {
        self.file_of(self.data())
    }

    fn file_of(self, data: Vec<u8>) -> Vec<u8> {
        let magic: &[u8] = if self.big { b"2ELIFREP" } else { b"PERFILE2" };
        let attributes = [self.attribute(0, ALL), self.words(&[0, 0]), self.attribute(2, ALL), self.words(&[0, 0])].concat();
        let ids = self.words(&IDS);
        let at_attributes = 104 + ids.len();
        let at_data = at_attributes + attributes.len();
        let end = at_data + data.len();
        let mut out = magic.to_vec();
        out.extend(self.words(&[104, 144, at_attributes as u64, attributes.len() as u64, at_data as u64, data.len() as u64, 0, 0]));
        out.extend(self.words(&[1 << CLOCK_DATA, 0, 0, 0]));
        out.extend(&ids);
        out.extend(&attributes);
        for (index, at) in [at_attributes + 128, at_attributes + 144 + 128].into_iter().enumerate() {
            out[at..at + 16].copy_from_slice(&self.words(&[104 + 8 * index as u64, 8]));
        }
        out.extend(data);
        out.extend(self.words(&[end as u64 + 16, self.feature().len() as u64]));
        out.extend(self.feature());
        out
    }

    fn pipe(self) -> Vec<u8> {
        let magic: &[u8] = if self.big { b"2ELIFREP" } else { b"PERFILE2" };
        let attribute = |config, id| self.record(64, 0, &[self.attribute(config, ALL), self.words(&[id])].concat());
        let name = [self.words(&[2, IDS[0]]), b"my clock\0".to_vec()].concat();
        let clock = [self.words(&[CLOCK_DATA.into()]), self.feature()].concat();
        [
            magic.to_vec(),
            self.words(&[16]),
            attribute(0, IDS[0]),
            attribute(2, IDS[1]),
            self.record(78, 0, &name),
            self.record(80, 0, &clock),
            self.data(),
        ]
        .concat()
    }
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Str(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Value::Nested(nested) => {
            let mut all = Vec::new();
            let done: Result<(), ()> = nested.each(|name, part| {
                all.push(name.map(|name| format!("{name}:")).unwrap_or_default() + &shown(&part));
                Ok(())
            });
            done.unwrap();
            format!("[{}]", all.join(" "))
        }
        value => value.as_i64().map_or_else(|| format!("{:#x}", value.as_u64().unwrap()), |number| number.to_string()),
    }
}

fn line(event: &Event<'_>, catalogue: &Catalogue) -> String {
    let (who, class) = (&catalogue.subjects[event.subject.0 as usize], &catalogue.classes[event.class.0 as usize]);
    let cpu = event.cpu.map_or("?".to_owned(), |cpu| cpu.to_string());
    let fields: Vec<String> = class.fields.iter().zip(event.fields).map(|(name, value)| format!("{name}={}", shown(value))).collect();
    let ids = (who.pid.unwrap_or(-1), who.tid.unwrap_or(-1));
    format!("{} {cpu} {}-{}/{} {}: {}", event.t_ns % 1_000_000, who.label, ids.0, ids.1, class.event_name, fields.join(" "))
}

fn read(path: &Path) -> Result<(Vec<String>, Vec<String>), String> {
    let mut trace = Trace::open(&[path], Options::default()).map_err(|error| error.to_string())?;
    let mut lines = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().map_err(|error| error.to_string())? {
        lines.push(match item {
            Item::Event(event) => line(&event, catalogue),
            Item::Loss(loss) => format!("{} lost {:?} since {}", loss.end_ns % 1_000_000, loss.events, loss.begin_ns % 1_000_000),
        });
    }
    Ok((lines, trace.diagnostics().iter().map(ToString::to_string).collect()))
}

fn written(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("perf.data");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn every_part_of_a_sample_is_read_in_both_byte_orders_from_files_and_pipes() {
    let folder = tempfile::tempdir().unwrap();
    for big in [false, true] {
        let machine = Machine { big };
        for (bytes, name) in [(machine.file(), "cpu-clock"), (machine.pipe(), "my clock")] {
            let (lines, diagnostics) = read(&written(folder.path(), &bytes)).unwrap();
            let stack = if big { "01020304" } else { "08070605" };
            let aux = if big { "0000000000000908" } else { "0809000000000000" };
            let parts = format!(
                "ip=4369 addr=8738 period=99 counters=[time_enabled:500 time_running:400 values:[[value:8 id:70] [value:9 id:71]]] \
                 callchain=[0xffffffffffffff80 13107] branches=[[from:16 to:32 flags:3]] user_regs=[10 11] user_stack={stack} weight=6 data_src=7 \
                 transaction=8 intr_regs=[12] phys_addr=17476 cgroup=12 data_page_size=4096 code_page_size=8192 aux={aux}"
            );
            let comm = "pid=40 tid=41";
            let expected = [
                format!("1000 3 a thread-40/41 PERF_RECORD_COMM: {comm} exec=0 comm=a thread"),
                format!("1000 3 a thread-40/41 PERF_RECORD_COMM: {comm} exec=1 comm=a thread"),
                "2500 3 a thread-40/41 PERF_RECORD_FORK: pid=40 ppid=40 tid=42 ptid=41".to_owned(),
                format!("3000 3 a thread-40/41 {name}: {parts}"),
                "3500 lost Some(17) since 3000".to_owned(),
                "3600 3 a thread-40/41 PERF_RECORD_SWITCH: out=1 preempt=0".to_owned(),
                format!("4000 3 a thread-40/41 {name}: {parts}"),
            ];
            assert_eq!(lines, expected, "big: {big}");
            assert_eq!(diagnostics, [""; 0]);
            let trace = Trace::open(&[folder.path().join("perf.data")], Options::default()).unwrap();
            assert_eq!(trace.start_ns(), Some(1_700_000_000_000_001_000));
            assert!(trace.clock().source.as_deref().is_none_or(|clock| clock == "CLOCK_MONOTONIC"));
        }
    }
}

#[test]
fn record_time_out_of_range_is_reported_and_never_wraps_around() {
    let folder = tempfile::tempdir().unwrap();
    for big in [false, true] {
        let machine = Machine { big };
        let data = [machine.full_sample(3000), machine.full_sample(i64::MAX as u64), machine.full_sample(u64::MAX)].concat();
        let path = written(folder.path(), &machine.file_of(data));
        let mut trace = Trace::open(&[&path], Options::default()).unwrap();
        let mut times = Vec::new();
        while let Some(item) = trace.next_item().unwrap() {
            if let Item::Event(event) = item {
                times.push(event.t_ns);
            }
        }
        assert_eq!(times, [1_700_000_000_000_003_000, i64::MAX, i64::MAX]);
        let diagnostics: Vec<String> = trace.diagnostics().iter().map(ToString::to_string).collect();
        assert!(
            diagnostics.len() == 1 && diagnostics[0].contains("a record of the time 9223372036854775807: 64 bits of ns"),
            "{diagnostics:?}"
        );
        assert!(trace.is_damaged());
    }
}

#[test]
fn file_of_a_killed_perf_is_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Machine { big: false }.file();
    // A killed perf has not written the length of the data, nor the sections after it.
    let data = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    bytes.truncate(data + Machine { big: false }.data().len() - 5);
    bytes[48..56].fill(0);
    let (lines, diagnostics) = read(&written(folder.path(), &bytes)).unwrap();
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert!(diagnostics.iter().all(|diagnostic| diagnostic.contains("perf.data ends inside")) && diagnostics.len() == 2, "{diagnostics:?}");
}

/// The layout that `perf record --threads` writes.
#[test]
fn files_of_a_folder_form_one_recording() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("perf.data");
    std::fs::create_dir(&place).unwrap();
    let machine = Machine { big: false };
    let put = |name: &str, bytes: &[u8]| std::fs::write(place.join(name), bytes).unwrap();
    // Times between and after those of the other files. The order of the files is that of their
    // numbers and not of their names.
    put("data", &machine.file());
    put("data.0", &[machine.full_sample(3500), machine.full_sample(5000)].concat());
    put("data.2", &machine.full_sample(500));
    put("data.10", &machine.full_sample(3500));
    put("data.old", b"something else");
    let times = |path: &Path| {
        let (lines, diagnostics) = read(path).unwrap();
        let times: Vec<String> = lines.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        (times, lines[0].clone(), diagnostics)
    };
    let (all, first, diagnostics) = times(&place);
    assert_eq!(all, ["500", "500", "1000", "2500", "3000", "3500", "3500", "3500", "3600", "4000", "5000"]);
    assert!(first.contains("PERF_RECORD_COMM"), "{first}");
    assert_eq!(diagnostics, [""; 0]);
    // A record that perf itself made gets the time of the first other record, even if its own file
    // has no other record.
    put(
        "data",
        &machine.file_of(machine.record(3, 0, &[machine.halves(&[40, 41]), b"a\0\0\0\0\0\0\0".to_vec(), machine.trailer(0)].concat())),
    );
    assert_eq!(times(&place).0, ["500", "500", "3500", "3500", "5000"]);
    put("data", &machine.file());
    // The folder below another folder, and with damaged files.
    assert_eq!(times(folder.path()).0, all);
    put("data.2", &machine.full_sample(500)[..100]);
    put("data.10", &[9, 0, 0, 0, 0, 0, 1, 0]);
    let (less, _, diagnostics) = times(&place);
    assert_eq!(less, ["1000", "1000", "2500", "3000", "3500", "3500", "3600", "4000", "5000"]);
    assert!(
        diagnostics.len() == 2 && diagnostics[0].contains("data.2 ends inside") && diagnostics[1].contains("data.10: at byte 0"),
        "{diagnostics:?}"
    );
}

#[test]
fn damaged_files_lead_to_an_error_or_to_other_events() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut below = |limit: usize| random.usize(..limit);
    let mut opened = 0;
    for big in [false, true] {
        for whole in [Machine { big }.file(), Machine { big }.pipe()] {
            for case in 0..2000 {
                let mut bytes = whole.clone();
                for _ in 0..=below(4) {
                    let at = below(bytes.len());
                    match below(6) {
                        0 => bytes[at] = below(256) as u8,
                        1 => bytes[at] = [0, 0xff, 0x7f, 0x80][below(4)],
                        2 => {
                            let end = (at / 8 * 8 + 8).min(bytes.len());
                            bytes[at / 8 * 8..end].fill([0, 0xff, 0x7f][below(3)]);
                        }
                        3 => bytes.truncate(at.max(1)),
                        4 => {
                            let piece = bytes[at..(at + below(200)).min(bytes.len())].to_vec();
                            let to = below(bytes.len());
                            bytes.splice(to..to, piece);
                        }
                        _ => bytes[at] ^= 1 << below(8),
                    }
                }
                match read(&written(folder.path(), &bytes)) {
                    Ok((lines, _)) => {
                        opened += 1;
                        assert!(lines.len() <= bytes.len() / 8, "case {case}");
                    }
                    Err(error) => assert!(error.contains("perf.data"), "{error}"),
                }
            }
        }
    }
    assert!(opened > 2000, "{opened} of 8,000 could be opened");
}
