//! Converts system calls. The kernel's events have the call's number and untyped words, whether
//! they are events of all calls (`raw_syscalls`) or of a single call (`syscalls`). LTTng has one
//! event class per call, with named fields.

use super::super::layout::encode::integer;
use super::super::layout::{Int, Kind, Layout, ValueSource};
use longpole_ftrace::{ByteOrder, EventFormat};

const WORDS: usize = 6;
/// Offsets of `syscall_entry_unknown` and `syscall_exit_unknown`, which precede the classes of all
/// known calls.
const ENTER: u16 = 0;
const EXIT: u16 = 1;
const RESULT: Int = Int { signed: true, ..Int::unsigned(64) };
const NUMBER: Int = Int { signed: true, ..Int::unsigned(32) };

/// Classes of system calls.
#[derive(Default)]
pub struct Calls {
    /// Id of the first class of system calls.
    pub first: u16,
    by_number: Vec<Option<Call>>,
}

/// Classes of one system call, and its arguments.
struct Call {
    enter: u16,
    exit: u16,
    /// For each written field, the argument's index and its integer type.
    args: Vec<(usize, Int)>,
}

/// Positions of the fields in a record of the begin or the end of a call.
pub struct FieldOffsets {
    id: usize,
    id_size: usize,
    /// Offset of the arguments, or of the result.
    words: usize,
    word_size: usize,
    order: ByteOrder,
}

impl FieldOffsets {
    /// Takes the format of the begin of calls. `None` if it lacks the expected fields.
    pub fn enter(format: &EventFormat, order: ByteOrder) -> Option<FieldOffsets> {
        match format.system.as_str() {
            "raw_syscalls" => FieldOffsets::of(format, "args", WORDS as u32, order),
            _ => FieldOffsets::of_single(format, order),
        }
    }

    /// Takes the format of the end of calls. `None` if it lacks the expected fields.
    pub fn exit(format: &EventFormat, order: ByteOrder) -> Option<FieldOffsets> {
        match format.system.as_str() {
            "raw_syscalls" => FieldOffsets::of(format, "ret", 1, order),
            _ => FieldOffsets::of_single(format, order),
        }
    }

    /// Events of a single call have its number, and then each argument, or the result, as a word.
    fn of_single(format: &EventFormat, order: ByteOrder) -> Option<FieldOffsets> {
        let id = format.field("__syscall_nr")?;
        let words: Vec<_> = format.fields.iter().filter(|field| field.offset > id.offset).collect();
        let size = words.first().map_or(8, |word| word.size);
        let first = words.first().map_or(id.offset + id.size, |word| word.offset);
        let in_row = words.iter().zip(0..).all(|(word, at)| word.size == size && word.offset == first + at * size);
        (in_row && id.size == 4 && matches!(size, 4 | 8) && words.len() <= WORDS).then_some(FieldOffsets {
            id: id.offset as usize,
            id_size: id.size as usize,
            words: first as usize,
            word_size: size as usize,
            order,
        })
    }

    fn of(format: &EventFormat, words: &str, count: u32, order: ByteOrder) -> Option<FieldOffsets> {
        let id = format.field("id")?;
        let words = format.field(words)?;
        let size = words.size / count;
        let fits = |size: u32| matches!(size, 4 | 8);
        if !fits(id.size) || !fits(size) || words.size % count != 0 {
            return None;
        }
        Some(FieldOffsets {
            id: id.offset as usize,
            id_size: id.size as usize,
            words: words.offset as usize,
            word_size: size as usize,
            order,
        })
    }

    #[inline]
    fn number(&self, data: &[u8]) -> i32 {
        self.read(data, self.id, self.id_size) as i32
    }

    #[inline]
    fn word(&self, data: &[u8], at: usize) -> u64 {
        self.read(data, self.words + at * self.word_size, self.word_size)
    }

    #[inline]
    fn read(&self, data: &[u8], at: usize, size: usize) -> u64 {
        data.get(at..at + size).and_then(|bytes| self.order.unsigned(bytes)).unwrap_or(0)
    }
}

impl Calls {
    /// Appends the classes of all calls to `names`.
    pub fn name(&mut self, layout: &Layout, names: &mut Vec<(String, Vec<(String, Kind)>)>) {
        self.first = names.len() as u16;
        let field = |name: &str, kind: Kind| (name.to_owned(), kind);
        let words = Kind::Ints(Int::unsigned(64), WORDS as u32);
        names.push(("syscall_entry_unknown".to_owned(), vec![field("id", Kind::Int(NUMBER)), field("args", words)]));
        names.push(("syscall_exit_unknown".to_owned(), vec![field("id", Kind::Int(NUMBER)), field("ret", Kind::Int(RESULT))]));
        for row in &layout.calls {
            let args = row.args.iter().filter_map(|arg| match (&arg.source, &arg.kind) {
                (ValueSource::Field(number), Kind::Int(int)) => Some((number.parse().ok()?, *int)),
                _ => None,
            });
            let call = Call { enter: names.len() as u16, exit: names.len() as u16 + 1, args: args.collect() };
            names.push((format!("syscall_entry_{}", row.name), row.args.iter().map(|arg| field(&arg.name, arg.kind.clone())).collect()));
            names.push((format!("syscall_exit_{}", row.name), vec![field("ret", Kind::Int(RESULT))]));
            let at = row.number as usize;
            if self.by_number.len() <= at {
                self.by_number.resize_with(at + 1, || None);
            }
            self.by_number[at] = Some(call);
        }
    }

    fn call(&self, number: i32) -> Option<&Call> {
        self.by_number.get(usize::try_from(number).ok()?)?.as_ref()
    }

    /// Returns the id of the class for a record of the begin of a call.
    #[inline]
    pub fn enter_id(&self, place: &FieldOffsets, data: &[u8]) -> u16 {
        self.call(place.number(data)).map_or(self.first + ENTER, |call| call.enter)
    }

    /// Returns the id of the class for a record of the end of a call.
    #[inline]
    pub fn exit_id(&self, place: &FieldOffsets, data: &[u8]) -> u16 {
        self.call(place.number(data)).map_or(self.first + EXIT, |call| call.exit)
    }

    /// Appends the payload for the class [`Calls::enter_id`].
    #[inline]
    pub fn write_enter(&self, place: &FieldOffsets, data: &[u8], out: &mut Vec<u8>) {
        let number = place.number(data);
        match self.call(number) {
            Some(call) => {
                for (at, int) in &call.args {
                    integer(out, place.word(data, *at) as i64, *int);
                }
            }
            None => {
                integer(out, number.into(), NUMBER);
                for at in 0..WORDS {
                    integer(out, place.word(data, at) as i64, Int::unsigned(64));
                }
            }
        }
    }

    /// Appends the payload for the class [`Calls::exit_id`].
    #[inline]
    pub fn write_exit(&self, place: &FieldOffsets, data: &[u8], out: &mut Vec<u8>) {
        let number = place.number(data);
        if self.call(number).is_none() {
            integer(out, number.into(), NUMBER);
        }
        let result = place.word(data, 0);
        // A `long` of 32 bits is sign-extended.
        let result = if place.word_size == 4 { i64::from(result as i32) } else { result as i64 };
        integer(out, result, RESULT);
    }
}
