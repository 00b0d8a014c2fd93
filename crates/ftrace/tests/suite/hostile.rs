//! Bytes that no kernel wrote: for any input the result is a value or an error, in a bounded number
//! of steps.

use std::io::{Cursor, Read};

use longpole_ftrace::{ByteOrder, Dat, EventFormat, Field, Item, Page, PageLayout, PageStream};
use proptest::prelude::*;

const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const FORMAT: &str = include_str!("../fixtures/sched.sched_switch.format");
const PAGES: &[u8] = include_bytes!("../fixtures/cpu0");

fn layout() -> PageLayout {
    PageLayout::parse(HEADER, ByteOrder::Little).unwrap()
}

fn touch(field: &Field, record: &[u8]) {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let _ = field.int(record, order);
        let _ = field.text(record, order);
        let _ = field.ints(record, order, field.element_size(8).unwrap_or(1)).map(|ints| ints.count());
    }
}

/// Records the size of the largest buffer that it was asked to fill.
struct Noting<'a> {
    bytes: &'a [u8],
    longest: &'a mut usize,
}

impl Read for Noting<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        *self.longest = out.len().max(*self.longest);
        self.bytes.read(out)
    }
}

#[test]
fn a_page_that_claims_to_be_long_takes_only_the_memory_that_its_input_has() {
    let layout = layout().with_page_size(2 << 20);
    for length in [0, 100, 4096, 10_000] {
        let (bytes, mut longest) = (vec![0; length], 0);
        PageStream::new(Noting { bytes: &bytes, longest: &mut longest }, layout).for_each(|_| {}, |_| {});
        assert!(longest <= (2 * length).max(4096), "{length} bytes were read into {longest}");
    }
    let (mut whole, mut events) = (vec![0; 2 << 20], 0);
    // A page full of events without data: each has a length and a time difference in one word.
    let commit = (whole.len() - 16) as u64;
    whole[8..16].copy_from_slice(&commit.to_le_bytes());
    whole[16..].chunks_exact_mut(8).for_each(|event| event.copy_from_slice(&[1, 0, 0, 0, 7, 0, 0, 0]));
    PageStream::new(&whole[..], layout).for_each(|_| events += 1, |error| panic!("{error}"));
    assert_eq!(events, commit / 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn damaged_pages_end_and_yield_no_more_events_than_fit(
        flips in proptest::collection::vec((0usize..PAGES.len(), any::<u8>()), 1..40), cut in 0usize..PAGES.len(),
    ) {
        let mut bytes = PAGES.to_vec();
        for (at, value) in flips {
            bytes[at] = value;
        }
        bytes.truncate(bytes.len() - cut / 8);
        let format = EventFormat::parse("sched", FORMAT).unwrap();
        let (mut events, mut errors) = (0, 0);
        PageStream::new(&bytes[..], layout()).for_each(|item| {
            if let Item::Event(record) = item {
                events += 1;
                format.fields.iter().for_each(|field| touch(field, record.data));
            }
        }, |_| errors += 1);
        prop_assert!(events <= bytes.len() / 4 && errors <= bytes.len() / 4096 + 1);
        let (mut again, mut failed) = (0, 0);
        let mut stream = PageStream::new(&bytes[..], layout());
        loop {
            match stream.next_item() {
                Ok(None) => break,
                Ok(Some(Item::Event(_))) => again += 1,
                Ok(Some(Item::Loss { .. })) => {}
                Err(_) => failed += 1,
            }
        }
        prop_assert_eq!((again, failed), (events, errors), "both ways of reading agree");
    }

    #[test]
    fn random_pages_never_panic(mut bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 28u8..32], 0..5000), commit in 0u16..4200, big: bool) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let layout = PageLayout::parse(HEADER, order).unwrap();
        if bytes.len() > 16 {
            let word = u64::from(commit);
            bytes[8..16].copy_from_slice(&if big { word.to_be_bytes() } else { word.to_le_bytes() });
        }
        if let Ok(page) = Page::new(&layout, &bytes, 0, 0) {
            prop_assert!(page.events().count() <= 4096);
        }
    }

    #[test]
    fn damaged_format_texts_never_panic(at in 0usize..FORMAT.len(), len in 0usize..40, with in "[a-z0-9_:;\\[\\] \t\n*-]{0,12}", record in proptest::collection::vec(any::<u8>(), 0..80)) {
        for text in [FORMAT, HEADER] {
            let mut text = text.to_owned();
            let start = at.min(text.len());
            text.replace_range(start..(start + len).min(text.len()), &with);
            if let Ok(format) = EventFormat::parse("s", &text) {
                format.fields.iter().chain(&format.common).for_each(|field| touch(field, &record));
            }
            if let Ok(layout) = PageLayout::parse(&text, ByteOrder::Little) {
                prop_assert!(layout.page_size() <= 32 << 20);
                PageStream::new(PAGES, layout.with_page_size(layout.page_size().max(64))).for_each(|_| {}, |_| {});
            }
        }
    }

    #[test]
    fn damaged_trace_dat_files_never_panic(flips in proptest::collection::vec((0usize..4096, any::<u8>()), 0..20), version in 5u8..9, cut in 0usize..4096) {
        let mut bytes = b"\x17\x08\x44tracing".to_vec();
        bytes.extend_from_slice(&[b'0' + version, 0, 0, 8, 0, 16, 0, 0]);
        if version == 7 {
            bytes.extend_from_slice(b"zstd\x001\0");
            bytes.extend_from_slice(&(bytes.len() as u64 + 8).to_le_bytes());
            bytes.extend_from_slice(&[0, 0, 1, 0, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0]);
        } else {
            bytes.extend_from_slice(b"header_page\0");
            bytes.extend_from_slice(&(HEADER.len() as u64).to_le_bytes());
            bytes.extend_from_slice(HEADER.as_bytes());
            bytes.extend_from_slice(b"header_event\0");
            bytes.extend_from_slice(&[0; 32]);
            bytes.extend_from_slice(&[2, 0, 0, 0]);
            bytes.extend_from_slice(b"flyrecord\0");
        }
        bytes.resize(4096, 0);
        for (at, value) in flips {
            bytes[at] = value;
        }
        bytes.truncate(4096 - cut % 4096);
        if let Ok(dat) = Dat::open(Cursor::new(&bytes)) {
            for (index, buffer) in dat.buffers().iter().enumerate() {
                for cpu in buffer.cpus.iter().take(8) {
                    dat.stream(index, cpu.cpu).unwrap().for_each(|_| {}, |_| {});
                }
            }
        }
    }
}

/// A part to which thousands of options refer would be read and stored thousands of times.
#[test]
fn many_references_to_one_part_of_a_trace_dat_are_rejected() {
    let part = |bytes: &mut Vec<u8>, name: &str, text: &str| {
        bytes.extend(name.bytes());
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.bytes());
    };
    // Version 7: the options are a section, which ends with the offset of the next one.
    let mut seven = b"\x17\x08\x44tracing7\0\0\x08\0\x10\0\0none\0\0".to_vec();
    let (begin, options) = (seven.len() as u64 + 8, 60_000u32);
    let formats = begin + 16 + u64::from(options) * 14 + 14;
    seven.extend(begin.to_le_bytes());
    seven.extend([0u8; 8]);
    seven.extend((u64::from(options) * 14 + 14).to_le_bytes());
    for _ in 0..options {
        seven.extend([18, 0, 8, 0, 0, 0]);
        seven.extend(formats.to_le_bytes());
    }
    seven.extend([0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    seven.extend([18, 0, 0, 0, 0, 0, 0, 0]);
    seven.extend(((1u64 << 20) + 18).to_le_bytes());
    seven.extend([1, 0, 0, 0, b's', 0, 1, 0, 0, 0]);
    seven.extend((1u64 << 20).to_le_bytes());
    seven.resize(seven.len() + (1 << 20), b' ');
    let error = Dat::open(Cursor::new(&seven)).unwrap_err().to_string();
    assert!(error.contains("several options lead to one section"), "{error}");

    // Version 6: instances, each with a table of all CPUs.
    let mut six = b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0".to_vec();
    part(&mut six, "header_page\0", HEADER);
    part(&mut six, "header_event\0", "");
    // No formats, symbols, texts and names, and a large number of CPUs.
    six.extend([0; 4 + 4 + 4 + 4 + 8]);
    six.extend(60_000u32.to_le_bytes());
    six.extend(b"options  \0");
    let table = six.len() as u64 + 60_000 * 16 + 2;
    for _ in 0..60_000 {
        six.extend([3, 0, 10, 0, 0, 0]);
        six.extend(table.to_le_bytes());
        six.extend(b"i\0");
    }
    six.extend([0, 0]);
    six.extend(b"flyrecord\0");
    six.resize(six.len() + 60_000 * 16, 0);
    let error = Dat::open(Cursor::new(&six)).unwrap_err().to_string();
    assert!(error.contains("several options lead to one section"), "{error}");
}
