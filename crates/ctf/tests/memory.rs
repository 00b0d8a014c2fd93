//! Memory for events with very many parts: it depends on the parts that are recorded, not on their
//! number.

use longpole_ctf::{BytesSource, DecodeErrorKind, Metadata, Step, StreamDecoder, Value};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls are forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

static TURN: Mutex<()> = Mutex::new(());

/// Every test holds this from its start, because the counters are global: the bytes that another
/// test decodes would count as memory in use.
fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Maximum memory in bytes while `work` runs, beyond the memory in use before.
fn most(work: impl FnOnce()) -> usize {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    work();
    MOST.load(Relaxed) - before
}

fn decoder(fields: &str, bytes: Vec<u8>) -> StreamDecoder<BytesSource<Vec<u8>>> {
    let text = format!(
        "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = le; }};
        typealias integer {{ size = 1; align = 1; }} := bit; typealias integer {{ size = 32; align = 1; }} := length;
        event {{ name = e; fields := struct {{ {fields} }}; }};"
    );
    StreamDecoder::new(Arc::new(Metadata::from_text(&text).unwrap()), BytesSource(bytes))
}

#[test]
fn an_array_of_fixed_layout_structures_takes_one_record() {
    let _turn = turn();
    let count = 8_000_000u32;
    let mut bytes = count.to_le_bytes().to_vec();
    bytes.extend((0..count / 8).map(|byte| (byte % 251) as u8));
    let mut decoder = decoder("length n; struct { bit a; struct { bit b; } c; bit d[2]; } list[n];", bytes);
    let taken = most(|| {
        // 8 million elements of four bits are twice the available data, so the file ends within the
        // array.
        while let Ok(Some(_)) = decoder.advance() {}
    });
    assert!(taken < 1 << 20, "{taken} bytes");
    let mut bytes = (count / 4).to_le_bytes().to_vec();
    bytes.extend((0..count / 8).map(|byte| (byte % 251) as u8));
    let mut decoder = self::decoder("length n; struct { bit a; struct { bit b; } c; bit d[2]; } list[n];", bytes);
    let mut sum = 0;
    let taken = most(|| {
        assert_eq!(decoder.advance().unwrap(), Some(Step::PacketBegin));
        assert_eq!(decoder.advance().unwrap(), Some(Step::Event));
        sum = ones(&decoder.event().get("list").unwrap());
    });
    assert!(taken < 1 << 20, "{taken} bytes");
    assert_eq!(sum, (0..count / 8).map(|byte| ((byte % 251) as u8).count_ones()).sum::<u32>());
    assert_eq!(decoder.advance().unwrap(), Some(Step::PacketEnd));
}

#[test]
fn an_array_of_structures_of_both_byte_orders_takes_one_record_if_the_order_changes_between_bytes() {
    let _turn = turn();
    let count = 1_000_000u32;
    let mut bytes = count.to_le_bytes().to_vec();
    bytes.extend((0..count).flat_map(|n| [n as u8, 0, 0, 1]));
    let fields =
        "length n; struct { integer { size = 16; align = 1; } little; integer { size = 16; align = 1; byte_order = be; } big; } list[n];";
    let mut decoder = decoder(fields, bytes);
    let taken = most(|| while decoder.advance().unwrap() != Some(Step::Event) {});
    assert!(taken < 1 << 20, "{taken} bytes");
    let Some(Value::Compound(list)) = decoder.event().get("list") else { panic!("no list") };
    let Some((_, Value::Compound(last))) = list.iter().last() else { panic!("no structure") };
    let last: Vec<_> = last.iter().map(|(_, value)| value.as_u64().unwrap()).collect();
    assert_eq!(last, [u64::from((count - 1) as u8), 1]);
}

fn ones(value: &Value<'_>) -> u32 {
    match value {
        Value::U64(bit) => *bit as u32,
        Value::Array(array) => array.iter().map(|part| ones(&part)).sum(),
        Value::Compound(parts) => parts.iter().map(|(_, part)| ones(&part)).sum(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_number_of_parts_at_variable_places_is_limited() {
    let _turn = turn();
    let count = 8_000_000u32;
    let mut bytes = count.to_le_bytes().to_vec();
    bytes.resize(4 + 1_000_000, 0);
    let fields = "length n; struct { enum : bit { none = 0, one = 1 } tag; variant <tag> { struct { } none; bit one; } v; } list[n];";
    let mut decoder = decoder(fields, bytes);
    let mut stopped = None;
    let taken = most(|| {
        stopped = loop {
            match decoder.advance() {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(error) => break Some(error.kind),
            }
        };
    });
    assert_eq!(stopped, Some(DecodeErrorKind::TooManyParts));
    assert!(taken < 256 << 20, "{taken} bytes");
}

#[test]
fn possibly_empty_elements_are_backed_by_the_data_if_they_are_not_empty() {
    let _turn = turn();
    let count = 6000u32;
    let variants = "length n; enum : bit { none = 0, one = 1 } tag; integer { size = 7; align = 1; } rest; variant <tag> { struct { } none; bit one; } list[n];";
    for (tag, bytes) in [(0, 0), (1, 750)] {
        let mut content = count.to_le_bytes().to_vec();
        content.push(tag);
        content.resize(5 + bytes, 0xff);
        let mut decoder = decoder(variants, content);
        while decoder.advance().unwrap() != Some(Step::Event) {}
        let Some(Value::Compound(list)) = decoder.event().get("list") else { panic!("no list") };
        assert_eq!(list.iter().count(), 6000);
        assert_eq!(decoder.advance().unwrap(), Some(Step::PacketEnd));
    }
}
