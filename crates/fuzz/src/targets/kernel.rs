//! What the kernel's tracer says, and trace-cmd's file of it.

use super::Target;
use crate::seeds::{self, FORMAT, HEADER_PAGE};
use longpole_ftrace::{ByteOrder, Dat, EventFormat, Field, Item, PageLayout, PageStream};
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
    run: |input, _| match Dat::open(Cursor::new(input)) {
        Ok(dat) => {
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
