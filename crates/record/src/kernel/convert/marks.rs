//! What the recorder has put among the kernel's events by the tracer's marker (see `masks`).

use super::super::masks::MARK;
use longpole_ftrace::{ByteOrder, EventFormat, Field};

pub struct Marks {
    number: Field,
}

impl Marks {
    pub fn new(format: &EventFormat) -> Option<Marks> {
        Some(Marks { number: format.field("id")?.clone() })
    }

    /// A thread, and the list of CPUs on which it may run. None: the mark is another one, or damaged.
    pub fn mask<'a>(&self, record: &'a [u8], order: ByteOrder) -> Option<(i32, &'a [u8])> {
        if self.number.int(record, order).ok()? != i128::from(MARK) {
            return None;
        }
        let rest = record.get((self.number.offset + self.number.size) as usize..)?;
        let word = |at: usize| Some(<[u8; 4]>::try_from(rest.get(at..at + 4)?).ok()?);
        let (tid, length) = (i32::from_ne_bytes(word(0)?), u32::from_ne_bytes(word(4)?) as usize);
        // The kernel fills the record up.
        let list = rest.get(8..8usize.checked_add(length)?)?;
        list.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b',')).then_some((tid, list))
    }
}
