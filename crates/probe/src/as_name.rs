//! The types that can be the name of a probe. Used with and without the feature `disable`.

use crate::Name;
use crate::Queue;

/// The name argument of a probe that is not a literal.
#[derive(Clone, Copy, Debug)]
pub enum Ref<'a> {
    Handle(&'a Name),
    Text(&'a str),
}

/// Types that can be the name of a probe: handles and texts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the name of a probe",
    note = "a name is a literal, a `&str` or `String`, or a handle: `longpole::Name`, `longpole::Queue`"
)]
pub trait AsName {
    fn as_name(&self) -> Ref<'_>;
}

impl AsName for Name {
    #[inline(always)]
    fn as_name(&self) -> Ref<'_> {
        Ref::Handle(self)
    }
}

impl AsName for Queue {
    #[inline(always)]
    fn as_name(&self) -> Ref<'_> {
        Ref::Handle(self)
    }
}

impl AsName for str {
    #[inline(always)]
    fn as_name(&self) -> Ref<'_> {
        Ref::Text(self)
    }
}

/// References and smart pointers to a name are names.
macro_rules! pointers {
    ($($pointer:ty),*) => { $(
        impl<T: AsName + ?Sized> AsName for $pointer {
            #[inline(always)]
            fn as_name(&self) -> Ref<'_> {
                (**self).as_name()
            }
        }
    )* };
}

pointers!(&T);

#[cfg(feature = "std")]
pointers!(std::boxed::Box<T>, std::rc::Rc<T>, std::sync::Arc<T>);

#[cfg(feature = "std")]
impl AsName for std::string::String {
    #[inline(always)]
    fn as_name(&self) -> Ref<'_> {
        Ref::Text(self)
    }
}

#[cfg(feature = "std")]
impl AsName for std::borrow::Cow<'_, str> {
    #[inline(always)]
    fn as_name(&self) -> Ref<'_> {
        Ref::Text(self)
    }
}
