//! The probes. Each looks at the enable word first: one load and one branch, and no argument is evaluated while nothing is recorded.
//!
//! The arms are told apart by how a name is spelled: a literal has its class id in a static of the call site. What a macro declares beside an
//! argument has a name that no program has: statics and functions, other than variables, would hide those of the program.

/// If the category is on, an event of this class. A name `@here` is that of the function around.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe {
    ($category:ident, $class:expr, @here $(, $word:expr)*) => {
        if $crate::__private::on($crate::__private::Category::$category) {
            fn __longpole_here() -> &'static str {
                $crate::__private::path_of(__longpole_here)
            }
            static __LONGPOLE_SITE: $crate::__private::Site = $crate::__private::Site::function(__longpole_here, ::core::file!(), ::core::line!());
            $crate::__private::probe(&__LONGPOLE_SITE, &$class, [$($word),*]);
        }
    };
    ($category:ident, $class:expr, $name:literal $(, $word:expr)*) => {
        if $crate::__private::on($crate::__private::Category::$category) {
            static __LONGPOLE_SITE: $crate::__private::Site = $crate::__private::Site::literal($name, ::core::file!(), ::core::line!());
            $crate::__private::probe(&__LONGPOLE_SITE, &$class, [$($word),*]);
        }
    };
    ($category:ident, $class:expr, $name:expr $(, $word:expr)*) => {
        if $crate::__private::on($crate::__private::Category::$category) {
            $crate::__private::probe_named($crate::AsName::as_name(&$name), &$class, [$($word),*]);
        }
    };
}

/// As `__probe`, for what has its name as an argument of a function.
#[doc(hidden)]
#[macro_export]
macro_rules! __with_name {
    ($category:ident, |$named:ident| $call:expr, @here) => {
        if $crate::__private::on($crate::__private::Category::$category) {
            fn __longpole_here() -> &'static str {
                $crate::__private::path_of(__longpole_here)
            }
            static __LONGPOLE_SITE: $crate::__private::Site = $crate::__private::Site::function(__longpole_here, ::core::file!(), ::core::line!());
            let $named = $crate::__private::Named::Site(&__LONGPOLE_SITE);
            $call;
        }
    };
    ($category:ident, |$named:ident| $call:expr, $name:literal) => {
        if $crate::__private::on($crate::__private::Category::$category) {
            static __LONGPOLE_SITE: $crate::__private::Site = $crate::__private::Site::literal($name, ::core::file!(), ::core::line!());
            let $named = $crate::__private::Named::Site(&__LONGPOLE_SITE);
            $call;
        }
    };
    ($category:ident, |$named:ident| $call:expr, $name:expr) => {
        if $crate::__private::on($crate::__private::Category::$category) {
            match $name {
                ref name => {
                    let $named = $crate::__private::Named::Ref($crate::AsName::as_name(name));
                    $call;
                }
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __word {
    ($value:expr) => {
        $crate::Word::word($value)
    };
}

/// `state!(machine, state)`: an explicit transition of a machine. Both are names; 8 bytes only if both are literals.
#[macro_export]
macro_rules! state {
    ($machine:literal, $state:literal $(,)?) => {
        $crate::__state!($machine, $state)
    };
    ($machine:expr, $state:expr $(,)?) => {
        if $crate::__private::on($crate::__private::Category::State) {
            $crate::__private::state($crate::AsName::as_name(&$machine), $crate::AsName::as_name(&$state));
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __state {
    ($machine:expr, $state:literal) => {
        if $crate::__private::on($crate::__private::Category::State) {
            static __LONGPOLE_SITE: $crate::__private::Site = $crate::__private::Site::state($machine, $state, ::core::file!(), ::core::line!());
            $crate::__private::probe(&__LONGPOLE_SITE, &$crate::__private::STATE, []);
        }
    };
}

/// As [`state!`], of the machine that is named as the source file.
#[macro_export]
macro_rules! state_here {
    ($state:literal $(,)?) => {
        $crate::__state!(::core::file!(), $state)
    };
    ($state:expr $(,)?) => {
        $crate::state!(::core::file!(), $state)
    };
}

/// `begin!(name [, argument])`: a nested span of this thread begins.
#[macro_export]
macro_rules! begin {
    ($name:literal $(,)?) => { $crate::__probe!(Span, $crate::__private::BEGIN, $name) };
    ($name:literal, $argument:expr $(,)?) => { $crate::__probe!(Span, $crate::__private::BEGIN_ARG, $name, $crate::__word!($argument)) };
    ($name:expr $(,)?) => { $crate::__probe!(Span, $crate::__private::BEGIN, $name) };
    ($name:expr, $argument:expr $(,)?) => { $crate::__probe!(Span, $crate::__private::BEGIN_ARG, $name, $crate::__word!($argument)) };
}

/// `end!(name [, argument])`: the span ends.
#[macro_export]
macro_rules! end {
    ($name:literal $(,)?) => { $crate::__probe!(Span, $crate::__private::END, $name) };
    ($name:literal, $argument:expr $(,)?) => { $crate::__probe!(Span, $crate::__private::END_ARG, $name, $crate::__word!($argument)) };
    ($name:expr $(,)?) => { $crate::__probe!(Span, $crate::__private::END, $name) };
    ($name:expr, $argument:expr $(,)?) => { $crate::__probe!(Span, $crate::__private::END_ARG, $name, $crate::__word!($argument)) };
}

/// As [`begin!`], of the span that is named as the function.
#[macro_export]
macro_rules! begin_here {
    () => { $crate::__probe!(Span, $crate::__private::BEGIN, @here) };
}

/// As [`end!`], of the span that is named as the function.
#[macro_export]
macro_rules! end_here {
    () => { $crate::__probe!(Span, $crate::__private::END, @here) };
}

/// `span!(name [, argument]);`: a span from here to the end of the scope. A statement of its own; a name that is no literal lives as long.
///
/// What is in a span must not `await`: the thread goes on with something else there. So such a future is not `Send`.
#[macro_export]
macro_rules! span {
    ($name:literal $(, $argument:expr)? $(,)?) => {
        $crate::begin!($name $(, $argument)?);
        let _longpole_span = {
            static __LONGPOLE_END: $crate::__private::Site = $crate::__private::Site::literal($name, ::core::file!(), ::core::line!());
            $crate::__private::Guard::of(&__LONGPOLE_END)
        };
    };
    ($name:expr $(, $argument:expr)? $(,)?) => {
        let _longpole_name = &$name;
        $crate::begin!(_longpole_name $(, $argument)?);
        let _longpole_span = $crate::__private::Guard::of($crate::AsName::as_name(_longpole_name));
    };
}

/// As [`span!`], named as the function.
#[macro_export]
macro_rules! span_here {
    () => {
        $crate::begin_here!();
        let _longpole_span = {
            fn __longpole_here() -> &'static str {
                $crate::__private::path_of(__longpole_here)
            }
            static __LONGPOLE_END: $crate::__private::Site = $crate::__private::Site::function(__longpole_here, ::core::file!(), ::core::line!());
            $crate::__private::Guard::of(&__LONGPOLE_END)
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __mark {
    ([$($name:tt)+]) => { $crate::__probe!(Mark, $crate::__private::MARK, $($name)+) };
    ([$($name:tt)+], $data:expr) => { $crate::__probe!(Mark, $crate::__private::MARK_DATA, $($name)+, $crate::__word!($data)) };
    ([$($name:tt)+], $data:expr, $object:expr) => {
        $crate::__probe!(Mark, $crate::__private::MARK_OBJECT, $($name)+, $crate::__word!($data), $crate::Object::address($object))
    };
    ([$($name:tt)+], $data:expr, $object:expr, $kind:expr) => {
        $crate::__probe!(Mark, $crate::__private::MARK_KIND, $($name)+, $crate::__word!($data), $crate::Object::address($object),
                         $crate::__word!($kind))
    };
}

/// `mark!(name [, data [, object [, kind]]])`: a checkpoint. The object is a reference, a pointer or a number; the kind a
/// [`MarkKind`](crate::MarkKind).
#[macro_export]
macro_rules! mark {
    ($name:literal $(, $rest:expr)* $(,)?) => { $crate::__mark!([$name] $(, $rest)*) };
    ($name:expr $(, $rest:expr)* $(,)?) => { $crate::__mark!([$name] $(, $rest)*) };
}

/// As [`mark!`], named as the function: `mark_here!(data)`.
#[macro_export]
macro_rules! mark_here {
    ($data:expr $(,)?) => { $crate::__mark!([@here], $data) };
}

/// `counter!(name, value)`: a gauge, integer or floating point.
#[macro_export]
macro_rules! counter {
    ($name:literal, $value:expr $(,)?) => {
        if $crate::__private::on($crate::__private::Category::Counter) {
            static __LONGPOLE_SITE: $crate::__private::Site = $crate::__private::Site::literal($name, ::core::file!(), ::core::line!());
            $crate::__private::counter(&__LONGPOLE_SITE, $value);
        }
    };
    ($name:expr, $value:expr $(,)?) => {
        if $crate::__private::on($crate::__private::Category::Counter) {
            $crate::__private::counter_named($crate::AsName::as_name(&$name), $value);
        }
    };
}

/// As [`counter!`], named as the function: `counter_here!(value)`.
#[macro_export]
macro_rules! counter_here {
    ($value:expr $(,)?) => {
        if $crate::__private::on($crate::__private::Category::Counter) {
            fn __longpole_here() -> &'static str {
                $crate::__private::path_of(__longpole_here)
            }
            static __LONGPOLE_SITE: $crate::__private::Site = $crate::__private::Site::function(__longpole_here, ::core::file!(), ::core::line!());
            $crate::__private::counter(&__LONGPOLE_SITE, $value);
        }
    };
}

/// Probes of a name and a number, and those that have a name only. `$d` is a dollar sign.
macro_rules! named {
    ($d:tt $($category:ident $class:ident $(#[$doc:meta])* $name:ident $here:ident ($($word:ident)?);)*) => { $(
        $(#[$doc])*
        #[macro_export]
        macro_rules! $name {
            ($d name:literal $(, $d $word:expr)? $d(,)?) => {
                $crate::__probe!($category, $crate::__private::$class, $d name $(, $crate::__word!($d $word))?)
            };
            ($d name:expr $(, $d $word:expr)? $d(,)?) => {
                $crate::__probe!($category, $crate::__private::$class, $d name $(, $crate::__word!($d $word))?)
            };
        }

        #[doc = concat!("As [`", stringify!($name), "!`], named as the function.")]
        #[macro_export]
        macro_rules! $here {
            ($($d $word:expr)? $d(,)?) => {
                $crate::__probe!($category, $crate::__private::$class, @here $(, $crate::__word!($d $word))?)
            };
        }
    )* };
}

named! { $
    Rpc RPC_CALL /** `rpc_call!(name, id)`: the caller sends a call; `id` is equal at all four points of it. */ rpc_call rpc_call_here (id);
    Rpc RPC_RETURNED /** `rpc_returned!(name, id)`: the caller has its answer. */ rpc_returned rpc_returned_here (id);
    Rpc RPC_DISPATCH /** `rpc_dispatch!(name, id)`: the callee takes the call. */ rpc_dispatch rpc_dispatch_here (id);
    Rpc RPC_REPLY /** `rpc_reply!(name, id)`: the callee has answered. */ rpc_reply rpc_reply_here (id);
    Signal SIGNAL_SUBMIT /** `signal_submit!(context, count)`: a signal is sent. */ signal_submit signal_submit_here (count);
    Signal SIGNAL_RECEIVE /** `signal_receive!(context, count)`: the handler starts; so many submits were merged into it. */
        signal_receive signal_receive_here (count);
    Signal SIGNAL_WAIT /** `signal_wait!(context)`: the thread goes to wait for signals. */ signal_wait signal_wait_here ();
    Queue QUEUE_PUT /** `queue_put!(queue, count)`: tokens enter the queue. */ queue_put queue_put_here (count);
    Queue QUEUE_GET /** `queue_get!(queue, count)`: tokens leave it. */ queue_get queue_get_here (count);
    Queue QUEUE_PEEK /** `queue_peek!(queue, count)`: tokens are looked at. */ queue_peek queue_peek_here (count);
    Queue QUEUE_RESERVE /** `queue_reserve!(queue, count)`: space is taken before the put. */ queue_reserve queue_reserve_here (count);
    Queue QUEUE_SIZE /** `queue_size!(queue, count)`: the queue holds so many at this moment. */ queue_size queue_size_here (count);
    Queue QUEUE_WAIT_EMPTY /** `queue_wait_empty!(queue)`: the thread begins to wait because the queue is empty. */
        queue_wait_empty queue_wait_empty_here ();
    Queue QUEUE_WAIT_FULL /** `queue_wait_full!(queue)`: the thread begins to wait because the queue is full. */
        queue_wait_full queue_wait_full_here ();
}

/// `link!(from, to)`: a hand-over that is no queue, between objects or numbers.
#[macro_export]
macro_rules! link {
    ($from:expr, $to:expr $(,)?) => {
        if $crate::__private::on($crate::__private::Category::Link) {
            $crate::__private::link($crate::Object::address($from), $crate::Object::address($to));
        }
    };
}

/// `flow!(id)`: what this thread does from here on belongs to this flow; 0: to none.
#[macro_export]
macro_rules! flow {
    ($id:expr $(,)?) => {
        if $crate::__private::on($crate::__private::Category::Link) {
            $crate::__private::flow($crate::Word::word($id));
        }
    };
}

/// `packet!(interface, direction, bytes)`: a captured frame.
#[macro_export]
macro_rules! packet {
    ($interface:literal, $direction:expr, $bytes:expr $(,)?) => {
        $crate::__with_name!(Packet, |named| $crate::__private::packet(named, $direction, $bytes), $interface)
    };
    ($interface:expr, $direction:expr, $bytes:expr $(,)?) => {
        $crate::__with_name!(Packet, |named| $crate::__private::packet(named, $direction, $bytes), $interface)
    };
}

/// As [`packet!`], named as the function: `packet_here!(direction, bytes)`.
#[macro_export]
macro_rules! packet_here {
    ($direction:expr, $bytes:expr $(,)?) => {
        $crate::__with_name!(Packet, |named| $crate::__private::packet(named, $direction, $bytes), @here)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __event {
    ([$($name:tt)+] $($field:ident = $value:expr),*) => {
        $crate::__with_name!(Event, |named| $crate::__private::event(named, &[$((::core::stringify!($field), &$value)),*]), $($name)+)
    };
}

/// `event!(name, field = value, …)`: an event of your own, of up to 32 typed fields.
#[macro_export]
macro_rules! event {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => { $crate::__event!([$name] $($field = $value),*) };
    ($name:expr $(, $field:ident = $value:expr)* $(,)?) => { $crate::__event!([$name] $($field = $value),*) };
}

/// As [`event!`], named as the function: `event_here!(field = value, …)`.
#[macro_export]
macro_rules! event_here {
    ($($field:ident = $value:expr),* $(,)?) => { $crate::__event!([@here] $($field = $value),*) };
}

/// `log!(text)` or `log!("format {}", …)`: a text on the timeline. It is formatted only if it is recorded, and without memory from anybody.
#[macro_export]
macro_rules! log {
    ($format:literal $(, $($argument:tt)*)?) => {
        if $crate::__private::logs() {
            $crate::__private::log_formatted(::core::format_args!($format $(, $($argument)*)?));
        }
    };
    ($text:expr $(,)?) => {
        if $crate::__private::logs() {
            $crate::__private::log(::core::convert::AsRef::<str>::as_ref(&$text));
        }
    };
}

/// `label!(text)`: the subject's label, the component's path: `system -> part`.
#[macro_export]
macro_rules! label {
    ($label:expr $(,)?) => {
        $crate::__private::label(::core::convert::AsRef::<str>::as_ref(&$label))
    };
}
