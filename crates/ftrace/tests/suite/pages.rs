//! Each kind of entry that a page can contain, written by hand in both byte orders and with both
//! sizes of `long`.

use longpole_ftrace::format::{HeaderEvent, Shape};
use longpole_ftrace::{ByteOrder, EventFormat, Item, Loss, Page, PageErrorKind, PageLayout, PageStream};

/// Writes one page like a kernel with that byte order and size of `long`.
struct Writer {
    order: ByteOrder,
    long: usize,
    time: u64,
    body: Vec<u8>,
}

impl Writer {
    fn new(order: ByteOrder, long: usize, time: u64) -> Writer {
        Writer { order, long, time, body: Vec::new() }
    }

    fn number(&self, value: u64, size: usize) -> Vec<u8> {
        match self.order {
            ByteOrder::Little => value.to_le_bytes()[..size].to_vec(),
            ByteOrder::Big => value.to_be_bytes()[8 - size..].to_vec(),
        }
    }

    fn word(mut self, kind: u32, delta: u32) -> Writer {
        let word = match self.order {
            ByteOrder::Little => kind | delta << 5,
            ByteOrder::Big => kind << 27 | delta,
        };
        self.body.extend(self.number(word.into(), 4));
        self
    }

    fn raw(mut self, value: u64, size: usize) -> Writer {
        self.body.extend(self.number(value, size));
        self
    }

    /// Adds a record of `words` words, whose first two bytes are the id.
    fn event(self, delta: u32, id: u16, words: u32) -> Writer {
        let mut out = self.word(words, delta).raw(id.into(), 2);
        out.body.extend(vec![0; words as usize * 4 - 2]);
        out
    }

    fn big(self, delta: u32, id: u16, bytes: u32) -> Writer {
        let mut out = self.word(0, delta).raw(u64::from(bytes) + 4, 4).raw(id.into(), 2);
        out.body.extend(vec![0; bytes as usize - 2]);
        out
    }

    fn extend(self, kind: u32, value: u64) -> Writer {
        self.word(kind, (value & ((1 << 27) - 1)) as u32).raw(value >> 27, 4)
    }

    fn layout(&self) -> PageLayout {
        let text = format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:{};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:{};\tsize:{};\tsigned:0;\n",
            self.long,
            8 + self.long,
            4096 - 8 - self.long
        );
        PageLayout::parse(&text, self.order).unwrap()
    }

    /// `flags` are the two highest bits of the commit word; `lost` is stored behind the events.
    fn page(&self, flags: u64, lost: Option<u64>) -> Vec<u8> {
        let mut out = self.number(self.time, 8);
        out.extend(self.number(self.body.len() as u64 | flags << 30, self.long));
        out.extend(&self.body);
        out.extend(lost.map_or(Vec::new(), |l| self.number(l, self.long)));
        out.resize(4096, 0);
        out
    }

    fn times(&self) -> Vec<(u64, u16, usize)> {
        let bytes = self.page(0, None);
        let page = Page::new(&self.layout(), &bytes, 0, 0).unwrap();
        page.events().map(|e| e.unwrap()).map(|e| (e.time, e.id, e.data.len())).collect()
    }
}

fn kernels() -> impl Iterator<Item = (ByteOrder, usize)> {
    [ByteOrder::Little, ByteOrder::Big].into_iter().flat_map(|order| [(order, 4), (order, 8)])
}

#[test]
fn times_of_small_and_large_records_and_extensions_are_summed() {
    for (order, long) in kernels() {
        let page = Writer::new(order, long, 1000).event(0, 7, 2).event(5, 8, 28).extend(30, 1 << 40).event(3, 9, 1).big(2, 10, 200);
        let base = 1005 + (1u64 << 40) + 3;
        assert_eq!(page.times(), [(1000, 7, 8), (1005, 8, 112), (base, 9, 4), (base + 2, 10, 200)], "{order:?} {long}");
        assert_eq!(page.layout().long_size(), long);
    }
}

#[test]
fn a_discarded_event_is_skipped_and_padding_without_a_time_ends_the_page() {
    for (order, long) in kernels() {
        let page = Writer::new(order, long, 50)
            .event(1, 7, 1)
            .word(29, 10)
            .raw(8, 4)
            .raw(0, 4)
            .word(29, 1)
            .raw(4, 4)
            .event(2, 8, 1)
            .word(29, 0)
            .event(9, 9, 1);
        assert_eq!(page.times(), [(51, 7, 4), (63, 8, 4)]);
    }
}

#[test]
fn an_absolute_timestamp_takes_its_five_highest_bits_from_the_time_before() {
    for (order, long) in kernels() {
        let low = Writer::new(order, long, 77).extend(31, 1 << 50).event(1, 7, 1);
        assert_eq!(low.times(), [((1 << 50) + 1, 7, 4)]);
        let high = Writer::new(order, long, (3 << 59) + 10).extend(31, 500).event(1, 7, 1);
        assert_eq!(high.times(), [((3 << 59) + 501, 7, 4)]);
        // The clock crossed the boundary between the page's time and the timestamp.
        let wrapped = Writer::new(order, long, (4 << 59) - 10).extend(31, 5).event(0, 7, 1);
        assert_eq!(wrapped.times(), [((4 << 59) + 5, 7, 4)]);
    }
}

#[test]
fn losses_are_reported_with_and_without_their_count() {
    for (order, long) in kernels() {
        let page = Writer::new(order, long, 9).event(1, 7, 1);
        for (flags, stored, expected) in
            [(0, None, None), (2, None, Some(Loss { count: None })), (3, Some(12345), Some(Loss { count: Some(12345) }))]
        {
            let bytes = page.page(flags, stored);
            let read = Page::new(&page.layout(), &bytes, 0, 0).unwrap();
            assert_eq!((read.loss(), read.events().count()), (expected, 1));
            let mut stream = PageStream::new(&bytes[..], page.layout());
            if let Some(loss) = expected {
                assert_eq!(stream.next_item().unwrap(), Some(Item::Loss { time: 9, loss }));
            }
            assert!(matches!(stream.next_item().unwrap(), Some(Item::Event(_))));
            assert_eq!(stream.next_item().unwrap(), None);
        }
    }
}

#[test]
fn a_damaged_page_is_reported_with_its_position_and_the_next_one_is_read() {
    let good = Writer::new(ByteOrder::Little, 8, 1).event(1, 7, 1);
    let cut = Writer::new(ByteOrder::Little, 8, 1).event(1, 7, 1).word(9, 1);
    let mut too_full = good.page(0, None);
    too_full[8..12].copy_from_slice(&4081u32.to_le_bytes());
    let mut file = cut.page(0, None);
    file.extend(&too_full);
    file.extend(good.page(0, None));
    file.extend(&good.page(0, None)[..20]);
    let (mut events, mut errors) = (Vec::new(), Vec::new());
    PageStream::new(&file[..], good.layout()).for_each(
        |item| {
            if let Item::Event(record) = item {
                events.push(record.offset);
            }
        },
        |error| errors.push((error.page, error.page_offset, error.offset, error.kind)),
    );
    assert_eq!(events, [16, 16]);
    assert_eq!(errors[0], (0, 0, 24, PageErrorKind::EventBeyondCommit { need: 40, have: 4 }));
    assert_eq!(errors[1], (1, 4096, 8, PageErrorKind::CommitBeyondPage { commit: 4081, room: 4080 }));
    assert_eq!(errors[2], (3, 12288, 20, PageErrorKind::Truncated { need: 24, have: 20 }));
    assert_eq!(errors.len(), 3);
}

#[test]
fn a_page_or_event_header_of_an_unknown_kind_is_rejected() {
    let text = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\
        \tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
    assert_eq!(HeaderEvent::parse(text).unwrap(), HeaderEvent::default());
    let error = HeaderEvent::parse(&text.replace("27 bits", "28 bits")).unwrap_err();
    assert!(error.to_string().contains("time_delta bits 28"), "{error}");
    assert!(PageLayout::parse("\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n", ByteOrder::Little).is_err());
}

#[test]
fn fields_of_every_shape_are_read_from_a_record() {
    let format = EventFormat::parse(
        "made",
        "name: up\nID: 77\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
         \tfield:s8 small;\toffset:2;\tsize:1;\tsigned:1;\n\tfield:const char * name;\toffset:4;\tsize:4;\tsigned:0;\n\
         \tfield:__data_loc char[] text;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:__rel_loc u16[] list;\toffset:12;\tsize:4;\tsigned:0;\n\
         \tfield:char comm[4];\toffset:16;\tsize:4;\tsigned:0;\n\tfield:char rest[];\toffset:20;\tsize:0;\tsigned:0;\n\n\
         print fmt: \"%s\", REC->comm\n",
    )
    .unwrap();
    assert_eq!((format.id, format.common.len(), format.fields.len()), (77, 1, 6));
    assert_eq!(format.print_fmt, "\"%s\", REC->comm");
    let mut record = vec![77, 0, 0xfe, 0, 1, 0, 0, 0];
    record.extend(&[20, 0, 3, 0]); // 3 bytes at 20
    record.extend(&[8, 0, 4, 0]); // 4 bytes, 8 behind the field's end
    record.extend(b"ab\0d");
    record.extend(b"xy\0!");
    record.extend(&[1, 0, 2, 1]);
    let order = ByteOrder::Little;
    let field = |name: &str| format.field(name).unwrap();
    assert_eq!(field("small").int(&record, order), Ok(-2));
    assert_eq!((field("name").type_text.as_str(), field("name").shape), ("const char *", Shape::Scalar));
    assert_eq!(field("text").text(&record, order), Ok(&b"xy"[..]));
    assert_eq!(field("list").element_size(8), Some(2));
    assert_eq!(field("list").ints(&record, order, 2).unwrap().collect::<Vec<_>>(), [1, 258]);
    assert_eq!(field("comm").text(&record, order), Ok(&b"ab"[..]));
    assert_eq!(field("rest").bytes(&record, order).unwrap().len(), 8);
    assert!(field("list").bytes(&record[..20], order).is_err());
    assert!(field("comm").text(&record[..17], order).is_err());
    assert!(field("small").text(&record, order).is_err());
    let error = EventFormat::parse("made", "name: x\nID: many\n").unwrap_err();
    assert_eq!(error.to_string(), "line 2: `many` is not a number");
}
