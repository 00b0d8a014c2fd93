//! A folder copied from the kernel's tracer: its formats and the raw pages of its CPUs.

use longpole_testing::trace_dat::{format, Machine, Page, Record};
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::fs;
use std::path::Path;

fn read(path: &Path) -> Result<Vec<String>, String> {
    let mut trace = Trace::open(&[path], Options::default()).map_err(|error| error.to_string())?;
    let mut lines = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().map_err(|error| error.to_string())? {
        lines.push(match item {
            Item::Event(event) => {
                let (who, class) = (&catalogue.subjects[event.subject.0 as usize], &catalogue.classes[event.class.0 as usize]);
                let value = event.fields[0].as_u64();
                format!("{} cpu{} {}-{} {} {value:?}", event.t_ns, event.cpu.unwrap(), who.label, who.tid.unwrap(), class.event_name)
            }
            Item::Loss(loss) => format!("{} lost {:?}", loss.end_ns, loss.events),
        });
    }
    lines.extend(trace.diagnostics().iter().map(ToString::to_string));
    Ok(lines)
}

fn make(folder: &Path, machine: Machine) {
    let event = folder.join("events/other/one");
    fs::create_dir_all(&event).unwrap();
    fs::write(folder.join("events/header_page"), machine.header_page()).unwrap();
    fs::write(event.join("format"), format("one", 500, &[("int value", 8, 4, true)], "\"%d\", REC->value")).unwrap();
    let record = |pid, value| {
        let mut record = Record::new(machine, 500, pid);
        record.at(8, value, 4);
        record
    };
    for (cpu, time) in [(0, 1000), (12, 900)] {
        let pages = [
            Page::new(machine, time).event(0, &record(1, 7)).bytes(),
            Page::new(machine, time + 200).lost(Some(3)).event(5, &record(2, 8)).bytes(),
        ];
        fs::create_dir_all(folder.join(format!("per_cpu/cpu{cpu}"))).unwrap();
        fs::write(folder.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw")), pages.concat()).unwrap();
    }
    fs::create_dir_all(folder.join("per_cpu/cpu1")).unwrap();
    fs::write(folder.join("per_cpu/cpu1/trace_pipe_raw"), "").unwrap();
}

#[test]
fn pages_of_each_cpu_form_a_stream_in_either_byte_order() {
    for machine in Machine::ALL {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path(), machine);
        let expected = |name: &str| {
            vec![
                format!("900 cpu12 {name}-1 one Some(7)"),
                format!("1000 cpu0 {name}-1 one Some(7)"),
                "1100 lost Some(3)".to_owned(),
                "1105 cpu12 <...>-2 one Some(8)".to_owned(),
                "1200 lost Some(3)".to_owned(),
                "1205 cpu0 <...>-2 one Some(8)".to_owned(),
            ]
        };
        assert_eq!(read(folder.path()).unwrap(), expected("<...>"), "{machine:?}");
        fs::write(folder.path().join("saved_cmdlines"), "1 my init\n").unwrap();
        assert_eq!(read(folder.path()).unwrap(), expected("my init"));
        fs::write(folder.path().join("trace_clock"), "local global [counter]\n").unwrap();
        assert!(read(folder.path()).unwrap().last().unwrap().contains("times are counts of its clock (counter)"));
    }
}

#[test]
fn folder_with_invalid_pages_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), Machine::ALL[0]);
    fs::write(folder.path().join("per_cpu/cpu0/trace_pipe_raw"), [0x5a; 4096]).unwrap();
    assert!(read(folder.path()).unwrap_err().contains("in either byte order"));
    make(folder.path(), Machine::ALL[0]);
    fs::write(folder.path().join("events/other/one/format"), "name: one\n").unwrap();
    let error = read(folder.path()).unwrap_err();
    assert!(error.contains("events/other/one/format") && error.contains("no line `ID:`"), "{error}");
    fs::write(folder.path().join("events/header_page"), "\tfield: u64 timestamp;\toffset:0;").unwrap();
    assert!(read(folder.path()).unwrap_err().contains("events/header_page: line 1"));
}
