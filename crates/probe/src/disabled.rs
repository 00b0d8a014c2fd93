//! Every probe compiled to nothing: no argument is evaluated, and none counts as unused. The
//! compiler still checks the types of names and values.

use crate::plain::{Order, Unit};
use crate::word::Word;
use core::ops::Deref;

/// A name; without effect.
#[derive(Debug)]
pub struct Name(());

impl Name {
    pub const fn new(_: &str) -> Name {
        Name(())
    }
}

/// A queue; without effect.
#[derive(Debug)]
pub struct Queue(Name);

impl Queue {
    pub const fn new(_: &str, _: u64) -> Queue {
        Queue(Name(()))
    }

    pub const fn with(_: &str, _: u64, _: Order, _: Unit) -> Queue {
        Queue(Name(()))
    }
}

impl Deref for Queue {
    type Target = Name;

    fn deref(&self) -> &Name {
        &self.0
    }
}

/// The value of a gauge; without effect.
pub trait Value: Word {}

/// A field of an event; without effect.
pub trait Field {}

macro_rules! values {
    ($($name:ident)*) => { $(
        impl Value for $name {}
        impl Field for $name {}
        impl Field for [$name] {}
        impl<const N: usize> Field for [$name; N] {}
    )* };
}

values!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);

impl Value for bool {}
impl Field for bool {}
impl Field for str {}
impl Field for Enumeration {}
impl<T: ?Sized> Field for *const T {}
impl<T: ?Sized> Field for *mut T {}
impl<T: Field + ?Sized> Field for &T {}

#[cfg(feature = "std")]
mod with_std {
    use super::Field;

    impl Field for std::string::String {}
    impl Field for std::borrow::Cow<'_, str> {}
    impl<T> Field for std::vec::Vec<T> where [T]: Field {}
    impl<T: Field + ?Sized> Field for std::boxed::Box<T> {}
    impl<T: Field + ?Sized> Field for std::rc::Rc<T> {}
    impl<T: Field + ?Sized> Field for std::sync::Arc<T> {}
}

/// A value of an enumeration; without effect.
#[derive(Clone, Copy, Debug)]
pub struct Enumeration(());

impl Enumeration {
    pub const fn new(_: i64, _: &'static str) -> Enumeration {
        Enumeration(())
    }
}

/// Results of a counter; they never exist, because no sample is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PointResult {
    pub samples: u64,
    pub minimum: u64,
    pub maximum: u64,
    pub mean: f64,
    pub sigma: f64,
    pub sigma_percent: f64,
    pub cost: f64,
    pub cost_around: f64,
}

/// A layer for `tracing` that records nothing.
#[cfg(feature = "tracing")]
pub mod tracing {
    /// Records nothing, because the feature `disable` is on.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Layer(());

    /// Creates a layer that records nothing.
    pub fn layer() -> Layer {
        Layer(())
    }

    impl Layer {
        #[must_use]
        pub fn with_lives(self, _: bool) -> Layer {
            self
        }
    }

    impl<S: tracing_core::Subscriber> tracing_subscriber::Layer<S> for Layer {}
}

/// Type-checks the arguments without evaluating them.
#[doc(hidden)]
#[macro_export]
macro_rules! __unused {
    ($($argument:expr),* $(,)?) => {
        if false {
            $(let _ = &$argument;)*
        }
    };
}

/// Defines probes whose arguments are expressions. `$d` is a dollar sign.
macro_rules! nothing {
    ($d:tt $($name:ident)*) => { $(
        /// No effect, because the feature `disable` is on.
        #[macro_export]
        macro_rules! $name {
            ($d($d argument:expr),* $d(,)?) => { $crate::__unused!($d($d argument),*) };
        }
    )* };
}

nothing! { $
    state state_here begin begin_here end end_here span span_here mark mark_here counter counter_here
    rpc_call rpc_call_here rpc_returned rpc_returned_here rpc_dispatch rpc_dispatch_here rpc_reply rpc_reply_here
    signal_submit signal_submit_here signal_receive signal_receive_here signal_wait signal_wait_here
    queue_put queue_put_here queue_get queue_get_here queue_peek queue_peek_here queue_reserve queue_reserve_here
    queue_size queue_size_here queue_wait_empty queue_wait_empty_here queue_wait_full queue_wait_full_here
    link flow packet packet_here label log_tsc trace_tsc trace_point_start trace_point_stop trace_point_print trace_point_reset
}

/// No effect, because the feature `disable` is on.
#[macro_export]
macro_rules! trace_point_result {
    ($number:expr $(,)?) => {{
        $crate::__unused!($number);
        ::core::option::Option::<$crate::PointResult>::None
    }};
}

/// No effect, because the feature `disable` is on.
#[macro_export]
macro_rules! event {
    ($name:expr $(, $field:ident = $value:expr)* $(,)?) => { $crate::__unused!($name $(, $value)*) };
}

/// No effect, because the feature `disable` is on.
#[macro_export]
macro_rules! event_here {
    ($($field:ident = $value:expr),* $(,)?) => { $crate::__unused!($($value),*) };
}

/// No effect, because the feature `disable` is on.
#[macro_export]
macro_rules! log {
    ($format:literal $(, $($argument:tt)*)?) => { $crate::__unused!(::core::format_args!($format $(, $($argument)*)?)) };
    ($text:expr $(,)?) => { $crate::__unused!($text) };
}
