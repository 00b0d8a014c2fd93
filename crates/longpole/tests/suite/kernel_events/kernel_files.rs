//! The verbs on kernel events answer from files of other tools: the tracer's text and trace.dat
//! give the same answers.

use longpole_testing::trace_dat::{format, Buffer, Compression, Machine, Page, Record, TraceDat};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(arguments: &[&str], trace: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).env_remove("LONGPOLE_ROOT").args(arguments).arg(trace).output().unwrap()
}

fn text(arguments: &[&str], trace: &Path) -> String {
    let output = run(arguments, trace);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(verb: &str, trace: &Path) -> Value {
    serde_json::from_str(&text(&[verb, "--json"], trace)).unwrap()
}

const SWITCH: u16 = 300;
const WAKING: u16 = 301;

/// Two threads on two CPUs that wake each other in turn: one works for 50 us, the other for 300 us.
/// The same events are written as text and as records.
struct PingPong {
    text: String,
    /// CPU, time in ns, and record.
    records: Vec<(u32, u64, Record)>,
    machine: Machine,
    t_ns: u64,
}

impl PingPong {
    fn new(rounds: u32, machine: Machine) -> PingPong {
        let mut made = PingPong { text: "# tracer: nop\n".to_owned(), records: Vec::new(), machine, t_ns: 100_000_000_000 };
        for _ in 0..rounds {
            for (own, other, cpu) in [(("ping", 11), ("pong", 12), 0), (("pong", 12), ("ping", 11), 1)] {
                made.waking(own, other, cpu);
                made.t_ns += 2_000;
                made.switch(("swapper", 0), other, 1 - cpu, 0);
                made.t_ns += 1_000;
                made.switch(own, ("swapper", 0), cpu, 1);
                made.t_ns += if other.1 == 12 { 300_000 } else { 50_000 };
            }
        }
        made
    }

    fn head(&mut self, who: (&str, u64), cpu: u32, name: &str) {
        let comm = if who.1 == 0 { "<idle>" } else { who.0 };
        let (seconds, micros) = (self.t_ns / 1_000_000_000, self.t_ns / 1000 % 1_000_000);
        self.text += &format!("{comm:>16}-{:<7} [{cpu:03}] d..2. {seconds}.{micros:06}: {name}: ", who.1);
    }

    fn waking(&mut self, who: (&str, u64), whom: (&str, u64), cpu: u32) {
        self.head(who, cpu, "sched_waking");
        self.text += &format!("comm={} pid={} prio=120 target_cpu={:03}\n", whom.0, whom.1, 1 - cpu);
        let mut record = Record::new(self.machine, WAKING, who.1 as i32);
        record.put(8, whom.0.as_bytes()).put(23, &[0]).at(24, whom.1, 4).at(28, 120, 4).at(32, (1 - cpu).into(), 4);
        self.records.push((cpu, self.t_ns, record));
    }

    fn switch(&mut self, from: (&str, u64), to: (&str, u64), cpu: u32, state: u64) {
        self.head(from, cpu, "sched_switch");
        let letter = if state == 0 { "R" } else { "S" };
        self.text += &format!(
            "prev_comm={} prev_pid={} prev_prio=120 prev_state={letter} ==> next_comm={} next_pid={} next_prio=120\n",
            from.0, from.1, to.0, to.1
        );
        let mut record = Record::new(self.machine, SWITCH, from.1 as i32);
        record.put(8, from.0.as_bytes()).at(24, from.1, 4).at(28, 120, 4).at(32, state, 8);
        record.put(40, to.0.as_bytes()).at(56, to.1, 4).at(60, 120, 4);
        self.records.push((cpu, self.t_ns, record));
    }

    fn file(&self) -> TraceDat {
        let comm = |name: &str, at| (format!("char {name}[16]"), at, 16, false);
        let number = |name: &str, at| (format!("int {name}"), at, 4, true);
        let declared = |fields: &[(String, usize, usize, bool)], name, id| {
            let fields: Vec<_> = fields.iter().map(|(field, at, size, signed)| (field.as_str(), *at, *size, *signed)).collect();
            format(name, id, &fields, "\"\"")
        };
        let switch = [
            comm("prev_comm", 8),
            number("prev_pid", 24),
            number("prev_prio", 28),
            ("long prev_state".to_owned(), 32, 8, true),
            comm("next_comm", 40),
            number("next_pid", 56),
            number("next_prio", 60),
        ];
        let waking = [comm("comm", 8), number("pid", 24), number("prio", 28), number("target_cpu", 32)];
        let pages = |cpu: u32| {
            let own: Vec<_> = self.records.iter().filter(|(of, ..)| *of == cpu).collect();
            let mut bytes = Vec::new();
            for part in own.chunks(40) {
                let mut page = Page::new(self.machine, part[0].1);
                let mut last = part[0].1;
                for (_, t_ns, record) in part {
                    page = page.event((t_ns - last) as u32, record);
                    last = *t_ns;
                }
                bytes.extend(page.bytes());
            }
            bytes
        };
        TraceDat {
            machine: self.machine,
            of_ftrace: Vec::new(),
            systems: vec![("sched", vec![declared(&switch, "sched_switch", SWITCH), declared(&waking, "sched_waking", WAKING)])],
            printk: String::new(),
            cmdlines: "11 ping\n12 pong\n".to_owned(),
            options: Vec::new(),
            buffers: vec![Buffer { name: "", clock: "local", cpus: vec![(0, pages(0)), (1, pages(1))] }],
            text: None,
        }
    }
}

fn written(folder: &Path) -> Vec<PathBuf> {
    let little = PingPong::new(200, Machine::ALL[0]);
    let big = PingPong::new(200, Machine::ALL[1]);
    let files = [
        ("trace.txt", little.text.clone().into_bytes()),
        ("6.dat", little.file().version_6()),
        ("7.dat", little.file().version_7(Compression::NONE)),
        ("big.dat", big.file().version_6()),
    ];
    files
        .map(|(name, bytes)| {
            let path = folder.join(name);
            fs::write(&path, bytes).unwrap();
            path
        })
        .to_vec()
}

#[test]
fn cpu_sched_and_report_give_the_same_answers_from_each_kind_of_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = written(folder.path());
    let (cpu, sched) = (json("cpu", &files[0]), json("sched", &files[0]));
    for file in &files[1..] {
        assert_eq!(json("cpu", file), cpu, "{}", file.display());
        assert_eq!(json("sched", file), sched, "{}", file.display());
    }
    let ping = sched.as_array().unwrap().iter().find(|thread| thread["name"] == "ping").unwrap();
    assert_eq!((&ping["count"], &ping["mean_ns"]), (&200.into(), &2000.0.into()));
    for file in &files {
        let report = text(&["report"], file);
        assert!(report.starts_with("pong (pid 12) is the bottleneck: it runs its own code for 8"), "{report}");
        assert!(text(&["check"], file).contains("sound: 1,200 events, 0 lost"));
        let info = json("info", file);
        assert_eq!((&info["events"], &info["sources"][0]), (&1200.into(), &"ftrace".into()));
        let printed = text(&["print"], file);
        let first = printed.lines().next().unwrap();
        for part in ["ping(11)", "sched_waking: ", "cpu_id = 0", "comm = \"pong\", pid = 12, prio = 120, target_cpu = "] {
            assert!(first.contains(part), "{part}: {first}");
        }
    }
}
