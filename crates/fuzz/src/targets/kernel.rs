//! The kernel's tracer: its descriptions and pages, its text, and trace-cmd's file.

use super::Target;
use crate::seeds::{self, FORMAT, HEADER_PAGE};
use longpole_ftrace::{text, ByteOrder, Dat, EventFormat, Field, Item, PageLayout, PageStream};
use longpole_trace::Options;
use std::io::Cursor;

fn touch(field: &Field, record: &[u8]) {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let _ = field.int(record, order);
        let _ = field.text(record, order);
        let _ = field.ints(record, order, field.element_size(8).unwrap_or(1)).map(Iterator::count);
    }
}

pub const FORMATS: Target = Target {
    name: "formats",
    what: "the tracer's descriptions of events and pages",
    seeds: |_| Ok(vec![FORMAT.as_bytes().to_vec(), HEADER_PAGE.as_bytes().to_vec()]),
    words: &[
        "\tfield:",
        "offset:",
        "size:",
        "signed:",
        "name: ",
        "ID: ",
        "format:",
        "print fmt: ",
        "__data_loc ",
        "__rel_loc ",
        "[",
        "]",
        "char ",
        "{ 0x1, \"R\" }",
    ],
    run: |input, _| {
        let text = String::from_utf8_lossy(input);
        match EventFormat::parse("sched", &text) {
            Ok(format) => {
                format.fields.iter().chain(&format.common).for_each(|field| {
                    touch(field, input);
                    let _ = format.labels(&field.name);
                });
            }
            Err(error) => drop(error.to_string()),
        }
        if let Ok(layout) = PageLayout::parse(&text, ByteOrder::Little) {
            let size = layout.page_size().max(64);
            PageStream::new(seeds::PAGES, layout.with_page_size(size)).for_each(|_| {}, |error| drop(error.to_string()));
        }
    },
};

pub const PAGES: Target = Target {
    name: "pages",
    what: "pages of the tracer's ring buffer",
    seeds: |_| Ok(vec![seeds::PAGES[..4096].to_vec(), seeds::PAGES.to_vec()]),
    words: &[],
    run: |input, _| {
        let (Ok(layout), Ok(format)) = (PageLayout::parse(HEADER_PAGE, ByteOrder::Little), EventFormat::parse("sched", FORMAT)) else {
            panic!("the seed cannot be read");
        };
        let mut events = 0;
        let each = |item: Item<'_>| {
            if let Item::Event(record) = item {
                events += 1;
                format.fields.iter().for_each(|field| touch(field, record.data));
            }
        };
        PageStream::new(input, layout).for_each(each, |error| drop(error.to_string()));
        assert!(events <= input.len() / 4);
    },
};

pub const TRACE_DAT: Target = Target {
    name: "trace_dat",
    what: "trace-cmd's trace.dat",
    seeds: |_| {
        let mut all = vec![seeds::trace_dat()];
        all.extend(seeds::corpora("ftrace", 1 << 20));
        Ok(all)
    },
    words: &[
        "\x17\x08\x44tracing",
        "options  \0",
        "latency  \0",
        "flyrecord\0",
        "header_page\0",
        "header_event\0",
        "zstd\0",
        "7\0",
        "sched\0",
    ],
    run: |input, folder| match Dat::open(Cursor::new(input)) {
        Ok(dat) => {
            super::traces::file(input, folder, Options::default());
            for (index, buffer) in dat.buffers().iter().enumerate() {
                for cpu in buffer.cpus.iter().take(8) {
                    if let Ok(mut stream) = dat.stream(index, cpu.cpu) {
                        stream.for_each(|_| {}, |error| drop(error.to_string()));
                    }
                }
            }
            let _ = (dat.clock(), dat.cmdlines().count(), dat.options().len());
        }
        Err(error) => drop(error.to_string()),
    },
};

pub const FTRACE_TEXT: Target = Target {
    name: "ftrace_text",
    what: "text of the tracer, and of trace-cmd report",
    seeds: |_| {
        let mut all = vec![TEXT.as_bytes().to_vec()];
        all.extend(seeds::corpora("ftrace", 64 << 10));
        Ok(all)
    },
    words: &[
        "# tracer: nop\n",
        " [000] ",
        " d..2. ",
        " 123.456789: ",
        "(  12) ",
        "CPU:3 [LOST 12 EVENTS]\n",
        " ==> ",
        " <-",
        "sched_switch: ",
        "prev_state=D|K",
        "sys_write(fd: 1)",
        " -> 0x5",
        "NR 1 (2)",
        " 17us+: ",
        " | 0) ",
        "entries-in-buffer/entries-written: 1/2",
        "=",
        "\n => ",
    ],
    run: |input, folder| {
        let mut found = Vec::new();
        for line in input.split(|byte| *byte == b'\n') {
            if let text::Line::Event(head) = text::line(line) {
                text::fields(line, head.rest, &mut found);
            }
        }
        super::traces::file(input, folder, Options::default());
    },
};

const TEXT: &str = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 6/9   #P:4\n\
    bash-1977    [000] d..2. 17284.993652: sched_switch: prev_comm=bash prev_pid=1977 prev_state=R+ ==> next_comm=a b=c next_pid=12\n\
    CPU:3 [LOST 12 EVENTS]\n  <idle>-0 ( 1970) [003] dNh4. 17284.993660: softirq_raise: vec=1 [action=TIMER]\n\
    sh-9 [001] .... 5.000001: do_sys_open <-__x64_sys_open\n => a\n  sh-9 [001] .... 5.000004: sys_write(fd: 1, buf: 7ffc0)\n\
    <idle>-0       0d.s2    0us+: _raw_spin_lock_irq <-run_timer\n  12.000010 |   0)    bash-77   |   1.234 us    |  foo();\n\
    a-1 [000]   7.000000001: sched_switch:  my sh:1 [120] S ==> kworker/0:1:18 [0]\n  sh-9 [001] .... 5.000006: sys_exit: NR 39 = -22\n";
