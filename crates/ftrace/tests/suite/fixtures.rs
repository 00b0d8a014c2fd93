//! Pages recorded by a kernel; no root needed. `live.rs` recorded `tests/fixtures`, with
//! LONGPOLE_FIXTURES set to the path of that directory.

use std::fs;
use std::path::PathBuf;

use longpole_ftrace::{ByteOrder, CpuStats, EventFormat, Formats, Item, PageLayout, PageStream};

fn file(name: &str) -> Vec<u8> {
    fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

fn text(name: &str) -> String {
    String::from_utf8(file(name)).unwrap()
}

fn formats() -> Formats {
    let mut formats = Formats::default();
    for entry in fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some((system, _)) = name.strip_suffix(".format").and_then(|n| n.split_once('.')) {
            formats.add(EventFormat::parse(system, &text(&name)).unwrap());
        }
    }
    formats
}

#[test]
fn on_each_cpu_the_thread_that_is_switched_in_is_switched_out_next() {
    let formats = formats();
    let layout = PageLayout::parse(&text("header_page"), ByteOrder::Little).unwrap();
    let switch = formats.by_name("sched", "sched_switch").unwrap();
    let layout = layout.with_ids_of(switch);
    let field = |name: &str| switch.field(name).unwrap();
    let pid = |name: &str, record: &[u8]| field(name).i64(record, ByteOrder::Little).unwrap();
    let mut checked = 0;
    for cpu in ["cpu0", "cpu1"] {
        let bytes = file(cpu);
        // The last page does not directly follow the others.
        let whole = &bytes[..bytes.len() - layout.page_size()];
        let (mut running, mut last) = (None::<(i64, Vec<u8>)>, 0);
        PageStream::new(whole, layout).for_each(
            |item| {
                let Item::Event(record) = item else {
                    return running = None;
                };
                assert!(record.time >= last);
                last = record.time;
                let format = formats.by_id(record.id).unwrap();
                let by = format.field("common_pid").unwrap().i64(record.data, ByteOrder::Little).unwrap();
                // The kernel of the fixture did not trace the idle thread of the second CPU, so the
                // end of that thread is missing.
                if running.as_ref().is_some_and(|(next, _)| cpu == "cpu1" && *next == 0) {
                    running = None;
                }
                if let Some((next, _)) = &running {
                    assert_eq!(by, *next, "{}", format.name);
                }
                if record.id == switch.id {
                    let prev = pid("prev_pid", record.data);
                    let comm = field("prev_comm").text(record.data, ByteOrder::Little).unwrap();
                    if let Some((next, name)) = &running {
                        assert_eq!(prev, *next);
                        checked += usize::from(comm == name);
                    }
                    let name = field("next_comm").text(record.data, ByteOrder::Little).unwrap();
                    running = Some((pid("next_pid", record.data), name.to_vec()));
                }
            },
            |error| panic!("{error}"),
        );
    }
    assert!(checked > 10, "{checked} switches");
}

#[test]
fn dynamic_texts_and_arrays_are_read_as_the_format_states() {
    let formats = formats();
    let layout = PageLayout::parse(&text("header_page"), ByteOrder::Little).unwrap();
    let (mut files, mut calls) = (Vec::new(), 0);
    for cpu in ["cpu0", "cpu1"] {
        PageStream::new(&file(cpu)[..], layout).for_each(
            |item| {
                let Item::Event(record) = item else { return };
                let format = formats.by_id(record.id).unwrap();
                match format.name.as_str() {
                    "sched_process_exec" => {
                        let name = format.field("filename").unwrap();
                        files.push(String::from_utf8(name.text(record.data, ByteOrder::Little).unwrap().to_vec()).unwrap());
                    }
                    "sys_enter" => {
                        let args = format.field("args").unwrap();
                        assert_eq!(args.element_size(8), Some(8));
                        assert_eq!(args.ints(record.data, ByteOrder::Little, 8).unwrap().count(), 6);
                        calls += 1;
                    }
                    _ => {}
                }
            },
            |error| panic!("{error}"),
        );
    }
    assert!(calls > 100, "{calls}");
    assert!(files.iter().any(|f| f.ends_with("/true")), "{files:?}");
}

#[test]
fn statistics_of_a_cpu_are_parsed() {
    let stats = CpuStats::parse(&text("cpu0.stats")).unwrap();
    assert!(stats.read > 0 && stats.entries == 0 && stats.lost() == 0, "{stats:?}");
    let lossy =
        "entries: 7\noverrun: 3\ncommit overrun: 2\nbytes: 100\noldest event ts:  1.5\nnow ts: 2.0\ndropped events: 4\nread events: 9\n";
    assert_eq!(CpuStats::parse(lossy).unwrap().lost(), 9);
    assert_eq!(CpuStats::parse("overrun: many").unwrap_err(), "overrun: many");
}

#[test]
fn pages_of_an_overrun_buffer_report_the_losses_that_the_kernel_counted() {
    let layout = PageLayout::parse(&text("header_page"), ByteOrder::Little).unwrap();
    let stats = CpuStats::parse(&text("overrun.stats")).unwrap();
    let (mut events, mut lost) = (0, 0);
    PageStream::new(&file("overrun")[..], layout).for_each(
        |item| match item {
            Item::Event(_) => events += 1,
            Item::Loss { loss, .. } => lost += loss.count.unwrap(),
        },
        |error| panic!("{error}"),
    );
    assert_eq!((events, lost), (stats.read, stats.lost()));
    assert!(lost > 100);
}
