//! Clocks that jump: the system clock during a recording, and counters that pass the end of their
//! 48 bits, after silences longer than 48 bits can express.
//!
//! A preloaded library shifts the values of CLOCK_REALTIME and CLOCK_MONOTONIC_RAW that the
//! programs and the recorder read. The clocks of other processes are unchanged.

use crate::support::figures::{soak, Figures};
use crate::support::place::{ok, signal, wait_for, Place, Running};
use longpole_trace::event::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;

/// A place with a library that shifts the clocks.
struct Shifted {
    place: Place,
    library: String,
    file: File,
}

impl Shifted {
    fn new() -> Shifted {
        let place = Place::new();
        let library = place.build("shifted", &["-shared", "-fPIC"]);
        let file = File::options().read(true).write(true).create_new(true).open(place.path("shift")).unwrap();
        file.write_all_at(&[0; 16], 0).unwrap();
        Shifted { place, library, file }
    }

    fn shift_realtime(&self, ns: i64) {
        self.file.write_all_at(&ns.to_ne_bytes(), 0).unwrap();
    }

    fn shift_counter(&self, ns: i64) {
        self.file.write_all_at(&ns.to_ne_bytes(), 8).unwrap();
    }

    fn under(&self, mut command: Command) -> Command {
        command.env("LD_PRELOAD", &self.library).env("SHIFTED_CLOCK", self.place.path("shift"));
        command
    }

    /// Like [`Place::recorder`], with these clocks.
    fn recorder(&self, arguments: &[&str], clock: &str) -> Running {
        let mut command = self.under(self.place.longpole(&["record", "--all"]));
        let child = Running::start(command.args(arguments).env("LONGPOLE_CLOCK", clock).stdout(Stdio::null()).stderr(Stdio::piped()));
        wait_for(|| {
            let status = ok(self.place.longpole(&["status", "--json"]).output().unwrap());
            serde_json::from_slice::<serde_json::Value>(&status.stdout).unwrap()["recording"]["pid"] == child.id()
        });
        child
    }

    fn clocked(&self) -> Clocked {
        let program = self.place.build("clocked", &[]);
        let mut child = Running::start(self.under(self.place.command(program)).stdin(Stdio::piped()).stdout(Stdio::piped()));
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Clocked { child, input, output, count: 0 }
    }
}

/// A program that writes events on request.
struct Clocked {
    child: Running,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    count: u64,
}

impl Clocked {
    fn write(&mut self, events: u64) {
        writeln!(self.input, "{events}").unwrap();
        self.output.read_line(&mut String::new()).unwrap();
        self.count += events;
    }

    /// The figures of the program. Its events carry times, which must increase, and it must still
    /// run, because it waits for requests until the test ends.
    fn figures(&mut self, shifted: &Shifted, times: &[(i64, i64)]) -> Figures {
        let mut figures = Figures {
            tried: self.count,
            recorded: times.len() as u64,
            torn: times.windows(2).filter(|pair| pair[1].1 < pair[0].1).count() as u64,
            faults: u64::from(self.child.try_wait().unwrap().is_some()),
            ..Figures::default()
        };
        figures.add_bytes_outside(&shifted.place, &["shifted", "shift", "clocked"]);
        figures
    }
}

fn description(recording: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(recording.join("longpole.json")).unwrap()).unwrap()
}

/// Time of each event in Unix ns, and the time that it carries. No event may be lost.
fn times(recording: &Path) -> Vec<(i64, i64)> {
    let mut trace = Trace::open(&[recording], Options::default()).unwrap();
    let mut times = Vec::new();
    while let Some(item) = trace.next_item().unwrap() {
        match item {
            Item::Event(event) => times.push((event.t_ns, event.fields[0].as_u64().unwrap() as i64)),
            Item::Loss(loss) => panic!("{loss:?}"),
        }
    }
    assert!(!trace.is_damaged(), "{:?}", trace.diagnostics());
    times
}

/// The same times as babeltrace2 reads them. The first word of a line is the time in seconds.
fn their_times(recording: &Path) -> Option<Vec<(i64, i64)>> {
    let Ok(run) = Command::new("babeltrace2").args(["--clock-seconds", "--no-delta"]).arg(recording.join("user")).output() else {
        println!("skipped: times as babeltrace2 reads them (not installed)");
        return None;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let line = |line: &str| {
        let (seconds, rest) = line.strip_prefix('[')?.split_once('.')?;
        let (ns, rest) = rest.split_once(']')?;
        let value = rest.rsplit(['{', ',', '=']).find_map(|word| word.trim().trim_end_matches('}').trim().parse::<i64>().ok())?;
        Some((seconds.parse::<i64>().ok()? * SECOND + ns.parse::<i64>().ok()?, value))
    };
    Some(text.lines().map(|text| line(text).unwrap_or_else(|| panic!("{text}"))).collect())
}

/// Checks that no event is earlier than the time that it carries, nor later than the time that the
/// next event carries.
fn hold(recording: &Path, shifted: &Shifted, program: &mut Clocked, what: &str) {
    let count = program.count;
    let offset = description(recording)["clock"]["offset_ns"].as_i64().unwrap();
    let ours = times(recording);
    for (reader, times) in [("ours", Some(ours.clone())), ("babeltrace2", their_times(recording))] {
        let Some(times) = times else { continue };
        assert_eq!(times.len() as u64, count, "{reader}: {what}");
        for pair in times.windows(2) {
            let [(t, carried), (_, next)] = [pair[0], pair[1]];
            // The offset is rounded to one tick.
            assert!(carried + offset - 1 <= t && t <= next + offset + 1, "{reader}: {what}: {} ns too late", t - offset - carried);
        }
        let last = times[times.len() - 1];
        assert!(last.0 - offset - last.1 < 3600 * SECOND, "{reader}: {what}");
    }
    program.figures(shifted, &ours).hold(what);
}

#[test]
fn events_have_correct_times_after_any_silence_and_when_the_counter_passes_48_bits() {
    // Silences of 40 hours; just below, at, and just beyond 2^48 ns; and of months.
    let all = [40 * HOUR, (1 << 48) - SECOND, 1 << 48, (1 << 48) + SECOND, 3 << 48, 5000 * HOUR];
    // A ring in mode overwrite contains four sub-buffers, and each long silence begins a new one.
    let (some, few) = if soak() { (&all[..], &all[..2]) } else { (&all[..3], &all[2..3]) };
    for (mode, silences) in [("discard", some), ("overwrite", few), ("overwrite", &all[4..]), ("block", few)] {
        let shifted = Shifted::new();
        // The counter of nanoseconds passes 2^48 after one second.
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes into `now`.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut now) };
        let begin = now.tv_sec * SECOND + now.tv_nsec;
        let mut shift = (1i64 << 48) - SECOND - begin;
        shifted.shift_counter(shift);
        let recorder = shifted.recorder(&["--mode", mode, "--buffer", "64KiB"], "mono_raw");
        let mut program = shifted.clocked();
        // A series of events across the end of the 48 bits.
        loop {
            program.write(20);
            // SAFETY: writes into `now`.
            unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut now) };
            if now.tv_sec * SECOND + now.tv_nsec > begin + SECOND + SECOND / 4 {
                break;
            }
            sleep(Duration::from_millis(50));
        }
        for silence in silences {
            // Before the shift, the recorder must have seen the earlier events; after it, the
            // shifted time.
            sleep(Duration::from_millis(250));
            shift += silence;
            shifted.shift_counter(shift);
            sleep(Duration::from_millis(250));
            program.write(if soak() { 1000 } else { 50 });
        }
        signal(&recorder, "-INT");
        let run = wait(recorder);
        assert!(run.contains("exit status: 0"), "{run}");
        hold(
            &shifted.place.newest(),
            &shifted,
            &mut program,
            &format!("{mode}: a counter that passes 2^48, and silences of up to 5,000 h"),
        );
    }
}

fn wait(mut recorder: Running) -> String {
    let mut said = String::new();
    std::io::Read::read_to_string(&mut recorder.stderr.take().unwrap(), &mut said).unwrap();
    said + &recorder.wait().unwrap().to_string()
}

#[test]
fn setting_the_system_clock_by_hours_moves_no_event() {
    let shifted = Shifted::new();
    let recorder = shifted.recorder(&[], "");
    let mut program = shifted.clocked();
    for shift in [0, HOUR, -2 * HOUR, 0, -HOUR] {
        shifted.shift_realtime(shift);
        // The recorder reads the clock once a second.
        sleep(Duration::from_millis(1100));
        program.write(100);
    }
    signal(&recorder, "-INT");
    assert!(wait(recorder).contains("exit status: 0"));
    let recording = shifted.place.newest();
    let description = description(&recording);
    let number = |value: &serde_json::Value| value.as_i64().unwrap();
    let times = times(&recording);
    assert_eq!(times.len() as u64, program.count);
    // The times of the events and the times that they carry come from clocks of this host, so their
    // differences from event to event are equal.
    for pair in times.windows(2) {
        assert!((pair[1].0 - pair[0].0 - (pair[1].1 - pair[0].1)).abs() < SECOND, "{pair:?}");
    }
    // The begin and end in the description enclose the times of the events.
    let (begin, end) = (number(&description["start_ns"]), number(&description["end_ns"]));
    assert!(begin <= times[0].0 && times[times.len() - 1].0 <= end && end - begin < 600 * SECOND, "{begin} {end}");
    // The description contains how far the clock was shifted.
    assert!((number(&description["clock"]["residual_ns"]).abs() - 2 * HOUR).abs() < 10 * SECOND, "{}", description["clock"]);
    program.figures(&shifted, &times).hold("the system's clock set five times");
}

#[test]
fn a_limit_of_age_counts_elapsed_time_and_ignores_jumps_of_the_clock() {
    let shifted = Shifted::new();
    let recorder = shifted.recorder(&["--max-age", "10min", "--max-size", "32MiB", "--buffer", "4MiB"], "");
    let program = shifted.place.build("numbered", &[]);
    let run = || Running::start(shifted.place.command(&program).args(["1", "300000", "200", "1000"]).stdout(Stdio::piped())).output();
    let mut figures = Figures::default();
    figures.ended(&run());
    for shift in [2 * HOUR, -2 * HOUR, 0] {
        shifted.shift_realtime(shift);
        sleep(Duration::from_millis(1100));
        figures.ended(&run());
        sleep(Duration::from_millis(1100));
    }
    signal(&recorder, "-INT");
    assert!(wait(recorder).contains("exit status: 0"));
    let recordings = shifted.place.recordings();
    let mut begin = 0;
    for recording in &recordings {
        figures.add(Figures::of(recording));
        // The order of the names is the order of the recordings.
        let next = description(recording)["start_ns"].as_i64().unwrap();
        assert!(next >= begin && next - begin < 3600 * SECOND || begin == 0, "{recordings:?}");
        begin = next;
    }
    assert!(recordings.len() >= 3, "{recordings:?}");
    figures.hold("a limit of age while the clock is set");
}
