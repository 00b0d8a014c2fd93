//! The values that probes accept, and their encoding in an event.

use crate::name::{Class, COUNTER, COUNTER_REAL};
use crate::ring::Part;
use crate::system::Text;
use crate::word::Word;
use core::mem::{size_of, size_of_val};

/// The value of a gauge: an integer or a floating point number.
pub trait Value: Word {
    #[doc(hidden)]
    const CLASS: Class;
}

/// The type of a field, as it is written into the description of an event's fields.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Plain(u8),
    Array(&'static str),
    /// An integer whose values have names.
    Labels(&'static str),
}

impl Type {
    pub fn describe<const N: usize>(self, text: &mut Text<N>) {
        match self {
            Type::Plain(letter) => text.push(&[letter]),
            Type::Array(name) => text.push(name.as_bytes()),
            Type::Labels(labels) if labels_are_good(labels) => {
                text.push(b"e[");
                text.push(labels.as_bytes());
                text.push(b"]");
            }
            Type::Labels(_) => text.push(b"i"),
        }
    }
}

/// Returns `true` if the labels have the format `name=number`, separated by semicolons.
fn labels_are_good(labels: &str) -> bool {
    labels.split(';').all(|label| {
        let Some((name, number)) = label.split_once('=') else { return false };
        let digits = number.strip_prefix('-').unwrap_or(number);
        !name.is_empty()
            && !name.contains([',', ':', '[', ']', '\0'])
            && (1..=18).contains(&digits.len())
            && digits.bytes().all(|digit| digit.is_ascii_digit())
    })
}

/// A value of an enumeration, together with the names of its values: `Enumeration::new(colour as
/// i64, "red=0;dark green=1")`. The names belong to the event's class, so they must be the same in
/// each event. If they do not have this format, the plain integer is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Enumeration {
    value: i64,
    labels: &'static str,
}

impl Enumeration {
    pub const fn new(value: i64, labels: &'static str) -> Enumeration {
        Enumeration { value, labels }
    }
}

impl Field for Enumeration {
    #[inline(always)]
    fn typed(&self) -> (Type, Part<'_>) {
        (Type::Labels(self.labels), Part::Word(self.value as u64))
    }
}

/// A field of an event: an integer, floating point number, `bool`, text, byte slice, array of
/// numbers, enumeration or pointer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a field of an event",
    note = "integers, floating point, `bool`, texts, `[u8]`, arrays of numbers, `Enumeration`, pointers, and references to them are"
)]
pub trait Field {
    #[doc(hidden)]
    fn typed(&self) -> (Type, Part<'_>);
}

macro_rules! integers {
    ($letter:literal: $($name:ident)*) => { $(
        impl Value for $name {
            const CLASS: Class = COUNTER;
        }

        impl Field for $name {
            #[inline(always)]
            fn typed(&self) -> (Type, Part<'_>) {
                (Type::Plain($letter), Part::Word(*self as u64))
            }
        }
    )* };
}

integers!(b'u': bool u8 u16 u32 u64 usize);
integers!(b'i': i8 i16 i32 i64 isize);

macro_rules! reals {
    ($($name:ident)*) => { $(
        impl Value for $name {
            const CLASS: Class = COUNTER_REAL;
        }

        impl Field for $name {
            #[inline(always)]
            fn typed(&self) -> (Type, Part<'_>) {
                (Type::Plain(b'd'), Part::Word(f64::from(*self).to_bits()))
            }
        }
    )* };
}

reals!(f32 f64);

macro_rules! pointers {
    ($($pointer:ty),*) => { $(
        impl<T: ?Sized> Field for $pointer {
            #[inline(always)]
            fn typed(&self) -> (Type, Part<'_>) {
                (Type::Plain(b'x'), Part::Word(self.cast::<u8>() as usize as u64))
            }
        }
    )* };
}

pointers!(*const T, *mut T);

impl Field for str {
    #[inline(always)]
    fn typed(&self) -> (Type, Part<'_>) {
        (Type::Plain(b's'), Part::Text(self.as_bytes()))
    }
}

impl Field for [u8] {
    #[inline(always)]
    fn typed(&self) -> (Type, Part<'_>) {
        (Type::Plain(b'b'), Part::Bytes(self))
    }
}

impl<const N: usize> Field for [u8; N] {
    #[inline(always)]
    fn typed(&self) -> (Type, Part<'_>) {
        (Type::Plain(b'b'), Part::Bytes(self))
    }
}

/// Arrays whose elements are recorded in their own width.
macro_rules! arrays {
    ($($name:ident $code:literal;)*) => { $(
        impl Field for [$name] {
            #[inline(always)]
            fn typed(&self) -> (Type, Part<'_>) {
                // SAFETY: numbers have no padding, and all their bytes are initialised.
                let bytes = unsafe { core::slice::from_raw_parts(self.as_ptr().cast::<u8>(), size_of_val(self)) };
                (Type::Array($code), Part::Array(bytes, size_of::<$name>()))
            }
        }

        impl<const N: usize> Field for [$name; N] {
            #[inline(always)]
            fn typed(&self) -> (Type, Part<'_>) {
                self.as_slice().typed()
            }
        }
    )* };
}

arrays! { u16 "u2[]"; u32 "u4[]"; u64 "u8[]"; usize "u8[]"; i8 "i1[]"; i16 "i2[]"; i32 "i4[]"; i64 "i8[]"; isize "i8[]"; f32 "d4[]"; f64 "d8[]"; }

#[cfg(feature = "std")]
impl<T> Field for std::vec::Vec<T>
where
    [T]: Field,
{
    #[inline(always)]
    fn typed(&self) -> (Type, Part<'_>) {
        self.as_slice().typed()
    }
}

#[cfg(feature = "std")]
impl Field for std::string::String {
    #[inline(always)]
    fn typed(&self) -> (Type, Part<'_>) {
        (Type::Plain(b's'), Part::Text(self.as_bytes()))
    }
}

#[cfg(feature = "std")]
impl Field for std::borrow::Cow<'_, str> {
    #[inline(always)]
    fn typed(&self) -> (Type, Part<'_>) {
        (Type::Plain(b's'), Part::Text(self.as_bytes()))
    }
}

/// References and smart pointers to a field are fields.
macro_rules! leading {
    ($($pointer:ty),*) => { $(
        impl<T: Field + ?Sized> Field for $pointer {
            #[inline(always)]
            fn typed(&self) -> (Type, Part<'_>) {
                (**self).typed()
            }
        }
    )* };
}

leading!(&T);

#[cfg(feature = "std")]
leading!(std::boxed::Box<T>, std::rc::Rc<T>, std::sync::Arc<T>);
