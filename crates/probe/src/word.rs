//! Numbers and objects that an event stores in one word. Used with and without the feature
//! `disable`.

use crate::plain::MarkKind;

/// A number that an event stores in one word.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number that a probe records",
    note = "integers, floating point, `bool`, pointers and `MarkKind` are"
)]
pub trait Word {
    fn word(self) -> u64;
}

/// An object that a mark or a link refers to, identified by its address or by a number.
pub trait Object {
    fn address(self) -> u64;
}

macro_rules! integers {
    ($($name:ident)*) => { $(
        impl Word for $name {
            #[inline(always)]
            fn word(self) -> u64 {
                self as u64
            }
        }

        impl Object for $name {
            #[inline(always)]
            fn address(self) -> u64 {
                self as u64
            }
        }
    )* };
}

integers!(bool u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

macro_rules! reals {
    ($($name:ident)*) => { $(
        impl Word for $name {
            #[inline(always)]
            fn word(self) -> u64 {
                f64::from(self).to_bits()
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

impl Word for MarkKind {
    #[inline(always)]
    fn word(self) -> u64 {
        self as u64
    }
}
