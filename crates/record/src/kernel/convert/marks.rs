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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_far_as_it_says_and_a_damaged_one_tells_nothing() {
        let text = "name: raw_data\nID: 19\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:unsigned int id;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:char buf[];\toffset:12;\tsize:0;\tsigned:0;\n";
        let marks = Marks::new(&EventFormat::parse("ftrace", text).unwrap()).unwrap();
        let record = |number: u32, tid: i32, length: u32, list: &[u8]| {
            [&[0; 8], &number.to_ne_bytes()[..], &tid.to_ne_bytes(), &length.to_ne_bytes(), list].concat()
        };
        let whole = record(MARK, 77, 3, b"0-1\0");
        assert_eq!(marks.mask(&whole, ByteOrder::NATIVE), Some((77, &b"0-1"[..])));
        for cut in 0..whole.len() - 1 {
            assert_eq!(marks.mask(&whole[..cut], ByteOrder::NATIVE), None, "{cut}");
        }
        for wrong in [record(MARK, 7, u32::MAX, b"0"), record(MARK ^ 1, 7, 1, b"0"), record(MARK, 7, 3, b"0\0\0\0")] {
            assert_eq!(marks.mask(&wrong, ByteOrder::NATIVE), None);
        }
    }
}
