//! The text of the kernel's tracer, as printed by `trace`, `trace_pipe` and `trace-cmd report`,
//! with all of their columns.

use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use longpole_trace::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Str(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Enum { value, label } => format!("{label}={value}"),
        value => value.as_i64().map(|number| number.to_string()).or_else(|| value.as_u64().map(|number| number.to_string())).unwrap(),
    }
}

/// Shows events as `time cpu comm-tid/pid name {flags} field=value`, and losses as `time cpu lost
/// events since`.
fn read(path: &Path) -> Result<(Vec<String>, Vec<String>), String> {
    let mut trace = Trace::open(&[path], Options::default()).map_err(|error| error.to_string())?;
    let mut lines = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().map_err(|error| error.to_string())? {
        lines.push(match item {
            Item::Event(event) => {
                let class = &catalogue.classes[event.class.0 as usize];
                let who = &catalogue.subjects[event.subject.0 as usize];
                let pid = who.pid.map(|pid| format!("/{pid}")).unwrap_or_default();
                let flags: String = event.context.iter().map(|flags| format!(" {{{}}}", shown(flags))).collect();
                let mut line = format!(
                    "{} {} {}-{}{pid} {}{flags}",
                    event.t_ns,
                    event.cpu.unwrap(),
                    who.label,
                    who.tid.map_or("?".to_owned(), |tid| tid.to_string()),
                    class.event_name
                );
                assert_eq!(class.fields.len(), event.fields.len());
                class.fields.iter().zip(event.fields).for_each(|(name, value)| line.push_str(&format!(" {name}={}", shown(value))));
                line
            }
            Item::Loss(loss) => {
                let stream = &catalogue.streams[loss.stream.0 as usize].name;
                format!("{} {} lost {:?} since {}", loss.end_ns, stream.split('/').next_back().unwrap(), loss.events, loss.begin_ns)
            }
        });
    }
    Ok((lines, trace.diagnostics().iter().map(ToString::to_string).collect()))
}

fn of(text: &str) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, text).unwrap();
    read(&path).unwrap()
}

fn lines(text: &str) -> Vec<String> {
    let (lines, diagnostics) = of(text);
    assert_eq!(diagnostics, [""; 0]);
    lines
}

const NOP: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 6/6   #P:4
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
            bash-1977    [000] d..2. 17284.993652: sched_switch: prev_comm=bash prev_pid=1977 prev_prio=120 prev_state=R+ ==> next_comm=a b=c next_pid=12 next_prio=98
          <idle>-0       [003] dNh4. 17284.993660: sched_wakeup: comm=x y pid=77 prio=120 target_cpu=003
 Web Content [1]-99      [001] ..... 17284.993661: irq_handler_entry: irq=30 name=eth0
            bash-1977    [000] ..... 17284.993700: tracing_mark_write: B|1977|frame=2
           <...>-5       [002] d.h1. 17284.993710: softirq_raise: vec=1 [action=TIMER]
            sh -x-31     [002] d.h1. 17284.993711: hrtimer_start: hrtimer=00000000d3f1a2b3 function=tick_sched_timer expires=500 mode=ABS|PINNED, last=-1
";

#[test]
fn file_trace_is_read_with_its_columns() {
    assert_eq!(
        lines(NOP),
        [
            "17284993652000 0 bash-1977 sched_switch {d..2.} prev_comm=bash prev_pid=1977 prev_prio=120 prev_state=R+=256 next_comm=a b=c next_pid=12 next_prio=98",
            "17284993660000 3 <idle>-0 sched_wakeup {dNh4.} comm=x y pid=77 prio=120 target_cpu=3",
            "17284993661000 1 Web Content [1]-99 irq_handler_entry {.....} irq=30 name=eth0",
            "17284993700000 0 bash-1977 tracing_mark_write {.....} text=B|1977|frame=2",
            "17284993710000 2 <...>-5 softirq_raise {d.h1.} vec=1 action=TIMER",
            "17284993711000 2 sh -x-31 hrtimer_start {d.h1.} hrtimer=3555828403 function=tick_sched_timer expires=500 mode=ABS|PINNED last=-1",
        ]
    );
}

#[test]
fn missing_and_additional_columns_are_accepted() {
    assert_eq!(
        lines(
            "     bash-1977  [000]   123.4: x: a=1\n  bash-1977    ( 1970) [001] .... 123.500000001: x: a=2\n\
             \n   w-5 (-----) [002] d..1 124.000000: x: a=0x1F\n"
        ),
        ["123400000000 0 bash-1977 x a=1", "123500000001 1 bash-1977/1970 x {....} a=2", "124000000000 2 w-5 x {d..1} a=31"]
    );
}

#[test]
fn task_name_may_look_like_the_rest_of_a_line() {
    assert_eq!(
        lines(
            "  a [000] 1.5: b-7 [001] .... 2.000000: x: a=1\n   -3-4 [001] .... 3.000000: y:\n  a-1 [000]-5 [002] .... 4.000000: z: text\n"
        ),
        ["2000000000 1 a [000] 1.5: b-7 x {....} a=1", "3000000000 1 -3-4 y {....}", "4000000000 2 a-1 [000]-5 z {....} text=text"]
    );
}

#[test]
fn lost_events_are_losses_of_their_cpu() {
    let text =
        "  a-1 [000] .... 1.000000: x: a=1\nCPU:0 [LOST 12 EVENTS]\n##### CPU 1 buffer started ####\n  a-1 [001] .... 2.000000: x: a=2\n\
         CPU:1 [LOST EVENTS]\nCPU:0 [7 EVENTS DROPPED]\n  a-1 [000] .... 3.000000: x: a=3\nCPU:1 [LOST 4 EVENTS]\n";
    assert_eq!(
        lines(text),
        [
            "1000000000 0 a-1 x {....} a=1",
            "2000000000 cpu0 lost Some(12) since 1000000000",
            "2000000000 1 a-1 x {....} a=2",
            "3000000000 cpu1 lost None since 2000000000",
            "3000000000 cpu0 lost Some(7) since 1000000000",
            "3000000000 0 a-1 x {....} a=3",
            "3000000000 cpu1 lost Some(4) since 2000000000",
        ]
    );
    let head = "# tracer: nop\n# entries-in-buffer/entries-written: 1/251   #P:2\n  a-1 [000] .... 1.000000: x: a=1\n";
    assert_eq!(lines(head), ["1000000000 trace lost Some(250) since 1000000000", "1000000000 0 a-1 x {....} a=1"]);
}

#[test]
fn calls_stacks_and_messages_of_several_lines_are_events() {
    let text = "# tracer: function\n  sh-9 [001] .... 5.000001: do_sys_open <-__x64_sys_open\n  sh-9 [001] .... 5.000002: <stack trace>\n => a\n => b\n\
         sh-9 [001] .... 5.000003: do_it: first\n second\n  sh-9 [001] .... 5.000004: sys_write(fd: 1, buf: 7ffc0, count: 5)\n\
         sh-9 [001] .... 5.000005: sys_write -> 0x5\n  sh-9 [001] .... 5.000006: sys_enter: NR 39 (0, 7f, 2)\n\
         sh-9 [001] .... 5.000007: sys_exit: NR 39 = -22\n  sh-9 [001] .... 5.000008: funcgraph_entry:   0.5 us |  foo();\n";
    assert_eq!(
        lines(text),
        [
            "5000001000 1 sh-9 function {....} ip=do_sys_open parent_ip=__x64_sys_open",
            "5000002000 1 sh-9 kernel_stack {....} stack==> a\n => b",
            "5000003000 1 sh-9 do_it {....} text=first\n second",
            "5000004000 1 sh-9 sys_enter_write {....} fd=1 buf=524224 count=5",
            "5000005000 1 sh-9 sys_exit_write {....} ret=5",
            "5000006000 1 sh-9 sys_enter {....} id=39 args=0, 7f, 2",
            "5000007000 1 sh-9 sys_exit {....} id=39 ret=-22",
            "5000008000 1 sh-9 funcgraph_entry {....} text=0.5 us |  foo();",
        ]
    );
}

#[test]
fn function_graph_without_times_is_left_out_and_reported() {
    let text = "# tracer: function_graph\n#\n# CPU  DURATION                  FUNCTION CALLS\n 0)               |  sys_open() {\n 0)   1.234 us    |    foo();\n\
         ------------------------------------------\n 0)  bash-1  =>  ls-2\n ------------------------------------------\n\n";
    let (lines, diagnostics) = of(text);
    assert_eq!(lines, [""; 0]);
    assert!(diagnostics.len() == 1 && diagnostics[0].contains("2 lines say how long a call took and not when"), "{diagnostics:?}");
    let timed = "# tracer: function_graph\n  12.000010 |   0)    bash-77   |   1.234 us    |  foo();\n  12.000012 |   1)               |  bar() {\n";
    assert_eq!(
        self::lines(timed),
        ["12000010000 0 bash-77 funcgraph text=1.234 us    |  foo();", "12000012000 1 -? funcgraph text=|  bar() {"]
    );
}

#[test]
fn latency_tracers_and_clocks_that_count_are_read() {
    let text =
        "# tracer: irqsoff\n#  cmd     pid   ||||| time  |   caller\n  <idle>-0       0d.s2    0us+: _raw_spin_lock_irq <-run_timer\n\
         my task-31     3dNs3   17us : trace_hardirqs_on <-run_timer\n";
    assert_eq!(
        lines(text),
        [
            "0 0 <idle>-0 function {d.s2} ip=_raw_spin_lock_irq parent_ip=run_timer",
            "17000 3 my task-31 function {dNs3} ip=trace_hardirqs_on parent_ip=run_timer",
        ]
    );
    let (lines, diagnostics) = of("  a-1 [000] .... 5678901: x: a=1\n");
    assert_eq!(lines, ["5678901 0 a-1 x {....} a=1"]);
    assert!(diagnostics.len() == 1 && diagnostics[0].contains("times are counts"), "{diagnostics:?}");
}

#[test]
fn time_out_of_range_becomes_the_nearest_time_and_is_reported() {
    let (lines, diagnostics) = of("  a-1 [000] .... 1.000000: x: a=1\n  a-1 [000] .... 9223372037.000000: x: a=2\n");
    assert_eq!(lines, ["1000000000 0 a-1 x {....} a=1".to_owned(), format!("{} 0 a-1 x {{....}} a=2", i64::MAX)]);
    assert!(
        diagnostics.len() == 1 && diagnostics[0].contains("an event of the time 9223372037000000000: 64 bits of ns"),
        "{diagnostics:?}"
    );
}

#[test]
fn scheduler_events_printed_by_trace_cmd_have_the_kernels_fields() {
    let text = "cpus=2\n  a-1 [000]   7.000000001: sched_switch:  my sh:1 [120] S ==> kworker/0:1:18 [0]\n\
         <idle>-0 [001]   7.000000002: sched_wakeup:  my sh:1 [120] success=1 CPU:001\n  <idle>-0 [001]   7.000000003: sched_waking:  x:5 [98] CPU:000\n";
    assert_eq!(
        lines(text),
        [
            "7000000001 0 a-1 sched_switch prev_comm=my sh prev_pid=1 prev_prio=120 prev_state=S=1 next_comm=kworker/0:1 next_pid=18 next_prio=0",
            "7000000002 1 <idle>-0 sched_wakeup comm=my sh pid=1 prio=120 target_cpu=1",
            "7000000003 1 <idle>-0 sched_waking comm=x pid=5 prio=98 target_cpu=0",
        ]
    );
}

#[test]
fn other_lines_are_counted_and_a_file_without_tracer_lines_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes");
    std::fs::write(&path, "some notes\n[   12.345] kernel: usb 1-1\nJan 01 00:00:00 host sshd[12]: a b\n").unwrap();
    assert!(read(&path).unwrap_err().contains("is not a trace"));
    let (lines, diagnostics) = of("a line\nanother\n  a-1 [000] .... 1.000000: x: a=1\n");
    assert_eq!(lines.len(), 1);
    assert!(diagnostics.len() == 1 && diagnostics[0].contains("2 lines are not events"), "{diagnostics:?}");
}

#[test]
fn only_whole_numbers_are_numbers_and_task_names_end_at_the_kernels_next_field() {
    let text = "\
        a-1 [000] .... 1.000000: x: a=007 b=-1 c=-9223372036854775808 d=-9223372036854775809 e=18446744073709551615 f=18446744073709551616 g=0x1f h=0xz i=1.5 j=1a\n\
        a-1 [000] .... 2.000000: x: at=ffff888100a0b0c0 skbaddr=c0a81234 order=12345678 target_mask=00000012 name=007\n\
        a-1 [000] .... 3.000000: i2c_read: i2c-0 #0 a=050 f=0001 l=010\n\
        a-1 [000] .... 4.000000: task_newtask: pid=5 comm=a clone_flags=7 clone_flags=3d0f00 oom_score_adj=-10\n\
        a-1 [000] .... 5.000000: sched_switch: prev_comm=a=b prev_pid=9 prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=,( ==> next_pid=2 next_prio=-1\n\
        a-1 [000] .... 6.000000: sched_waking: comm= x=1 [  pid=77 prio=120 target_cpu=010\n\
        a-1 [000] .... 7.000000: sched_process_fork: comm=a pid=1 child_comm=x pid=3 child_pid=4\n\
        a-1 [000] .... 8.000000: sched_process_exec: filename=/a b/pid=3 c pid=4 pid=5 old_pid=5\n\
        a-1 [000] .... 9.000000: task_rename: pid=6 oldcomm=a newcomm=x newcomm=b oom_score_adj=0\n\
        a-1 [000] .... 10.000000: sched_switch: a ==> b:1 [1] S ==> c ==> d:2 [2]\n";
    assert_eq!(
        lines(text),
        [
            "1000000000 0 a-1 x {....} a=7 b=-1 c=-9223372036854775808 d=-9223372036854775809 e=18446744073709551615 f=18446744073709551616 g=31 h=0xz i=1.5 j=1a",
            "2000000000 0 a-1 x {....} at=18446612686375530688 skbaddr=3232240180 order=12345678 target_mask=18 name=007",
            "3000000000 0 a-1 i2c_read {....} text=i2c-0 #0 a=050 f=0001 l=010 a=80 f=1 l=10",
            "4000000000 0 a-1 task_newtask {....} pid=5 comm=a clone_flags=7 clone_flags=4001536 oom_score_adj=-10",
            "5000000000 0 a-1 sched_switch {....} prev_comm=a=b prev_pid=9 prev_pid=1 prev_prio=120 prev_state=S=1 next_comm=,( ==> next_pid=2 next_prio=-1",
            "6000000000 0 a-1 sched_waking {....} comm= x=1 [  pid=77 prio=120 target_cpu=10",
            "7000000000 0 a-1 sched_process_fork {....} comm=a pid=1 child_comm=x pid=3 child_pid=4",
            "8000000000 0 a-1 sched_process_exec {....} filename=/a b/pid=3 c pid=4 pid=5 old_pid=5",
            "9000000000 0 a-1 task_rename {....} pid=6 oldcomm=a newcomm=x newcomm=b oom_score_adj=0",
            "10000000000 0 a-1 sched_switch {....} prev_comm=a ==> b prev_pid=1 prev_prio=1 prev_state=S=1 next_comm=c ==> d next_pid=2 next_prio=2",
        ]
    );
    // The number of fields shows where names end.
    let counts: Vec<usize> = numbers_of_fields(text);
    assert_eq!(counts, [10, 5, 4, 4, 7, 4, 4, 3, 4, 7]);
}

/// Returns the number of fields of each event.
fn numbers_of_fields(text: &str) -> Vec<usize> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, text).unwrap();
    let mut trace = Trace::open(&[&path], Options::default()).unwrap();
    let mut counts = Vec::new();
    while let Some(item) = trace.next_item().unwrap() {
        let Item::Event(event) = item else { panic!("{item:?}") };
        counts.push(event.fields.len());
    }
    counts
}

/// Compares the output of `trace-cmd report` with the file itself: both have the same events at the
/// same times.
#[test]
fn trace_cmd_report_of_a_file_equals_the_file() {
    let Some(folder) = std::env::var_os("LONGPOLE_CORPORA").map(|path| PathBuf::from(path).join("ftrace")) else {
        println!("not at hand: traces of other tools (LONGPOLE_CORPORA)");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    for (name, least, named) in [("trace.dat", 500, 30), ("raw_trace.dat", 700, 4500)] {
        let Ok(report) = Command::new("trace-cmd").args(["report", "-t", "-i"]).arg(folder.join(name)).output() else {
            println!("skipped: a report next to its file (trace-cmd is not installed)");
            return;
        };
        let path = place.path().join(name);
        std::fs::write(&path, report.stdout).unwrap();
        let heads = |path: &Path| -> Vec<String> {
            let (lines, _) = read_heads(path);
            lines
        };
        let (from_text, from_file) = (heads(&path), heads(&folder.join(name)));
        assert!(from_file.len() >= least);
        assert_eq!(from_text, from_file);
        // Numbers and names in the text must equal the file's field of the same name.
        let (texts, values) = (fields(&path), fields(&folder.join(name)));
        let mut compared = 0;
        for (texts, values) in texts.iter().zip(&values) {
            // The letters of a state omit some bits.
            let told = |name: &str, found: &str| name.ends_with("comm") || (found.parse::<i128>().is_ok() && name != "prev_state");
            for (name, found) in texts.iter().filter(|(name, found)| told(name, found)) {
                let Some((_, expected)) = values.iter().find(|(known, _)| known == name) else { continue };
                assert_eq!(found, expected, "{name} of {texts:?} and {values:?}");
                compared += 1;
            }
        }
        println!("{name}: {compared} fields compared");
        assert!(compared >= named, "{compared}");
    }
    for (name, events) in [("raw_trace.txt", 3), ("trace_sched.txt", 11)] {
        let (lines, diagnostics) = read_heads(&folder.join(name));
        assert_eq!((lines.len(), diagnostics.len()), (events, 0));
    }
}

/// Returns the names and values of each event's fields.
fn fields(path: &Path) -> Vec<Vec<(String, String)>> {
    let mut trace = Trace::open(&[path], Options::default()).unwrap();
    let mut all = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        let Item::Event(event) = item else { panic!("{item:?}") };
        let names = &catalogue.classes[event.class.0 as usize].fields;
        let told = |value: &Value<'_>| match value {
            Value::Enum { value, .. } => value.to_string(),
            Value::Nested(_) | Value::Bytes(_) => String::new(),
            value => shown(value),
        };
        all.push(names.iter().cloned().zip(event.fields.iter().map(told)).collect());
    }
    all
}

/// Returns time, CPU, thread and name of each event.
fn read_heads(path: &Path) -> (Vec<String>, Vec<String>) {
    let mut trace = Trace::open(&[path], Options::default()).unwrap();
    let mut lines = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        let Item::Event(event) = item else { panic!("{item:?}") };
        let (who, class) = (&catalogue.subjects[event.subject.0 as usize], &catalogue.classes[event.class.0 as usize]);
        lines.push(format!("{} {:?} {}-{:?} {}", event.t_ns, event.cpu, who.label.replace(' ', ""), who.tid, class.event_name));
    }
    (lines, trace.diagnostics().iter().map(ToString::to_string).collect())
}

/// Returns a folder in memory if possible, because rewriting a file thousands of times takes
/// seconds on some disks.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

#[test]
fn damaged_text_is_read_to_its_end() {
    let folder = in_memory();
    let path = folder.path().join("trace");
    let mut random = fastrand::Rng::with_seed(7);
    let mut below = |limit: usize| random.usize(..limit);
    for case in 0..3000 {
        let mut bytes = [NOP, "CPU:2 [LOST 3 EVENTS]\n x-1 0d.s2 17us+: a <-b\n 1.5 | 0) a-1 | 1 us | f();\n"].concat().into_bytes();
        for _ in 0..=below(12) {
            let at = below(bytes.len());
            match below(4) {
                0 => bytes[at] = below(256) as u8,
                1 => bytes[at] = b"[]():-=. \n#|,\xff\0"[below(15)],
                2 => {
                    bytes.remove(at);
                }
                _ => {
                    let from = below(bytes.len());
                    let piece = bytes[from..(from + 30).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok((lines, _)) = read(&path) {
            assert!(lines.len() <= bytes.len() / 8, "case {case}");
        }
    }
    // Very many events with different names.
    let many: String = (0..6000).map(|number| format!("  a-{number} [{number}] .... {number}.000000: x{number}: a=1\n")).collect();
    std::fs::write(&path, many).unwrap();
    assert_eq!(read(&path).unwrap().0.len(), 6000);
}

#[test]
fn line_that_is_too_long_is_reported_with_its_place() {
    let first = "  a-1 [000] .... 1.000000: x: a=";
    let last = "\n  a-1 [000] .... 9.000000: x: a=1\n";
    // The longest line, with and without its end, and lines that are longer.
    for (extra, told) in [(0, false), (1, false), (2, true), (1 << 20, true)] {
        let text = [first, &"y".repeat((64 << 10) - first.len() - 1 + extra), last].concat();
        let (lines, diagnostics) = of(&format!("# tracer: nop\n{text}"));
        assert_eq!(lines.len(), 2, "{extra}");
        let expected =
            format!("line 2 at byte 14: the line has {} bytes; the bytes after the first 65536 are left out", text.len() - last.len() + 1);
        assert_eq!(
            diagnostics.iter().map(|diagnostic| diagnostic.ends_with(&expected)).collect::<Vec<_>>(),
            vec![true; usize::from(told)],
            "{diagnostics:?}"
        );
    }
    // An event of many lines that is too long. The first lines are reported one by one.
    let (lines, diagnostics) = of(&[first, &"\nmore".repeat(20_000), last].concat());
    assert_eq!(lines.len(), 2);
    assert_eq!(diagnostics.len(), 9);
    assert!(
        diagnostics[0].contains("line 13102 at byte 65533: the event that continues here is longer than 65536 bytes"),
        "{}",
        diagnostics[0]
    );
    assert!(diagnostics[8].ends_with("6892 more lines are not read whole"), "{}", diagnostics[8]);
}
