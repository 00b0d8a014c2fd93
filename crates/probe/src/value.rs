//! What values a probe takes, and how they lie in an event.

use crate::name::{Class, COUNTER, COUNTER_REAL};
use crate::plain::MarkKind;
use crate::ring::Part;

/// A number that an event holds in one word.
#[diagnostic::on_unimplemented(message = "`{Self}` is no number that a probe records", note = "integers, floating point, `bool`, pointers and `MarkKind` are")]
pub trait Word {
    fn word(self) -> u64;
}

/// The value of a gauge: an integer or floating point.
pub trait Value: Word {
    #[doc(hidden)]
    const CLASS: Class;
}

/// An object that a mark or a link is about: known by its address, or by a number.
pub trait Object {
    fn address(self) -> u64;
}

/// A field of an event: an integer, floating point, `bool`, a text, bytes, or a pointer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no field of an event",
    note = "integers, floating point, `bool`, texts, `[u8]`, pointers, and references to them are"
)]
pub trait Field {
    #[doc(hidden)]
    fn typed(&self) -> (u8, Part<'_>);
}

macro_rules! integers {
    ($letter:literal: $($name:ident)*) => { $(
        impl Word for $name {
            #[inline(always)]
            fn word(self) -> u64 {
                self as u64
            }
        }

        impl Value for $name {
            const CLASS: Class = COUNTER;
        }

        impl Object for $name {
            #[inline(always)]
            fn address(self) -> u64 {
                self as u64
            }
        }

        impl Field for $name {
            #[inline(always)]
            fn typed(&self) -> (u8, Part<'_>) {
                ($letter, Part::Word(*self as u64))
            }
        }
    )* };
}

integers!(b'u': bool u8 u16 u32 u64 usize);
integers!(b'i': i8 i16 i32 i64 isize);

macro_rules! reals {
    ($($name:ident)*) => { $(
        impl Word for $name {
            #[inline(always)]
            fn word(self) -> u64 {
                f64::from(self).to_bits()
            }
        }

        impl Value for $name {
            const CLASS: Class = COUNTER_REAL;
        }

        impl Field for $name {
            #[inline(always)]
            fn typed(&self) -> (u8, Part<'_>) {
                (b'd', Part::Word(f64::from(*self).to_bits()))
            }
        }
    )* };
}

reals!(f32 f64);

macro_rules! pointers {
    ($($pointer:ty),*) => { $(
        impl<T: ?Sized> Word for $pointer {
            #[inline(always)]
            fn word(self) -> u64 {
                self.address()
            }
        }

        impl<T: ?Sized> Object for $pointer {
            #[inline(always)]
            fn address(self) -> u64 {
                self.cast::<u8>() as usize as u64
            }
        }

        impl<T: ?Sized> Field for $pointer {
            #[inline(always)]
            fn typed(&self) -> (u8, Part<'_>) {
                (b'x', Part::Word(self.cast::<u8>() as usize as u64))
            }
        }
    )* };
}

pointers!(*const T, *mut T);

impl<T: ?Sized> Object for &T {
    #[inline(always)]
    fn address(self) -> u64 {
        core::ptr::from_ref(self).address()
    }
}

impl<T: ?Sized> Object for &mut T {
    #[inline(always)]
    fn address(self) -> u64 {
        core::ptr::from_ref(self).address()
    }
}

impl Field for str {
    #[inline(always)]
    fn typed(&self) -> (u8, Part<'_>) {
        (b's', Part::Text(self.as_bytes()))
    }
}

impl Field for [u8] {
    #[inline(always)]
    fn typed(&self) -> (u8, Part<'_>) {
        (b'b', Part::Bytes(self))
    }
}

impl<const N: usize> Field for [u8; N] {
    #[inline(always)]
    fn typed(&self) -> (u8, Part<'_>) {
        (b'b', Part::Bytes(self))
    }
}

#[cfg(feature = "std")]
impl Field for std::string::String {
    #[inline(always)]
    fn typed(&self) -> (u8, Part<'_>) {
        (b's', Part::Text(self.as_bytes()))
    }
}

#[cfg(feature = "std")]
impl Field for std::borrow::Cow<'_, str> {
    #[inline(always)]
    fn typed(&self) -> (u8, Part<'_>) {
        (b's', Part::Text(self.as_bytes()))
    }
}

impl<T: Field + ?Sized> Field for &T {
    #[inline(always)]
    fn typed(&self) -> (u8, Part<'_>) {
        (**self).typed()
    }
}

impl Word for MarkKind {
    #[inline(always)]
    fn word(self) -> u64 {
        self as u64
    }
}
