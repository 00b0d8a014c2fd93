//! The probe macros. Each one checks the enable word first: one load and one branch; no argument is
//! evaluated while nothing is recorded.
//!
//! The macros distinguish names by their syntax: a literal gets a static at the call site for its
//! class id. Items that a macro declares next to an argument have names that no program uses,
//! because statics and functions, unlike variables, would hide those of the program.

/// Records an event of this class if its category is enabled. The name `@here` means the
/// enclosing function.
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

/// Like `__probe`, for probes whose name is passed as an argument of a function.
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

/// `state!(machine, state)`: an explicit transition of a state machine. Both arguments are names.
/// The event takes 8 bytes if both are literals; otherwise the names are copied into it.
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

/// Like [`state!`], for the machine that is named after the source file.
#[macro_export]
macro_rules! state_here {
    ($state:literal $(,)?) => {
        $crate::__state!(::core::file!(), $state)
    };
    ($state:expr $(,)?) => {
        $crate::state!(::core::file!(), $state)
    };
}

/// `begin!(name [, argument])`: begins a nested span of this thread.
#[macro_export]
macro_rules! begin {
    ($name:literal $(,)?) => { $crate::__probe!(Span, $crate::__private::BEGIN, $name) };
    ($name:literal, $argument:expr $(,)?) => { $crate::__probe!(Span, $crate::__private::BEGIN_ARG, $name, $crate::__word!($argument)) };
    ($name:expr $(,)?) => { $crate::__probe!(Span, $crate::__private::BEGIN, $name) };
    ($name:expr, $argument:expr $(,)?) => { $crate::__probe!(Span, $crate::__private::BEGIN_ARG, $name, $crate::__word!($argument)) };
}

/// `end!(name [, argument])`: ends the span.
#[macro_export]
macro_rules! end {
    ($name:literal $(,)?) => { $crate::__probe!(Span, $crate::__private::END, $name) };
    ($name:literal, $argument:expr $(,)?) => { $crate::__probe!(Span, $crate::__private::END_ARG, $name, $crate::__word!($argument)) };
    ($name:expr $(,)?) => { $crate::__probe!(Span, $crate::__private::END, $name) };
    ($name:expr, $argument:expr $(,)?) => { $crate::__probe!(Span, $crate::__private::END_ARG, $name, $crate::__word!($argument)) };
}

/// Like [`begin!`], for the span that is named after the function.
#[macro_export]
macro_rules! begin_here {
    () => { $crate::__probe!(Span, $crate::__private::BEGIN, @here) };
}

/// Like [`end!`], for the span that is named after the function.
#[macro_export]
macro_rules! end_here {
    () => { $crate::__probe!(Span, $crate::__private::END, @here) };
}

/// `span!(name [, argument]);`: a span from this line to the end of the scope. It must be a
/// statement of its own; a name that is not a literal must live as long as the scope.
///
/// A span must not contain an `await`, because the thread continues with other tasks there. The
/// guard is therefore not `Send`, and neither is a future that contains it.
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

/// Like [`span!`], named after the function.
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

/// `mark!(name [, data [, object [, kind]]])`: a checkpoint. The object is a reference, a pointer
/// or a number; the kind is a [`MarkKind`](crate::MarkKind).
#[macro_export]
macro_rules! mark {
    ($name:literal $(, $rest:expr)* $(,)?) => { $crate::__mark!([$name] $(, $rest)*) };
    ($name:expr $(, $rest:expr)* $(,)?) => { $crate::__mark!([$name] $(, $rest)*) };
}

/// Like [`mark!`], named after the function: `mark_here!(data)`.
#[macro_export]
macro_rules! mark_here {
    ($data:expr $(,)?) => { $crate::__mark!([@here], $data) };
}

/// `counter!(name, value)`: the value of a gauge, an integer or a floating point number.
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

/// Like [`counter!`], named after the function: `counter_here!(value)`.
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

/// Defines the probes that take a name and possibly a number. `$d` is a dollar sign.
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
    Rpc RPC_CALL /** `rpc_call!(name, id)`: the caller sends a call; `id` is the same at all four points of the call. */ rpc_call rpc_call_here (id);
    Rpc RPC_RETURNED /** `rpc_returned!(name, id)`: the caller has received the reply. */ rpc_returned rpc_returned_here (id);
    Rpc RPC_DISPATCH /** `rpc_dispatch!(name, id)`: the callee begins to serve the call. */ rpc_dispatch rpc_dispatch_here (id);
    Rpc RPC_REPLY /** `rpc_reply!(name, id)`: the callee has sent the reply. */ rpc_reply rpc_reply_here (id);
    Signal SIGNAL_SUBMIT /** `signal_submit!(context, count)`: a signal is sent. */ signal_submit signal_submit_here (count);
    Signal SIGNAL_RECEIVE /** `signal_receive!(context, count)`: the handler starts; `count` submits were merged into it. */
        signal_receive signal_receive_here (count);
    Signal SIGNAL_WAIT /** `signal_wait!(context)`: the thread begins to wait for signals. */ signal_wait signal_wait_here ();
    Queue QUEUE_PUT /** `queue_put!(queue, count)`: tokens enter the queue. */ queue_put queue_put_here (count);
    Queue QUEUE_GET /** `queue_get!(queue, count)`: tokens leave the queue. */ queue_get queue_get_here (count);
    Queue QUEUE_PEEK /** `queue_peek!(queue, count)`: tokens are inspected and stay in the queue. */ queue_peek queue_peek_here (count);
    Queue QUEUE_RESERVE /** `queue_reserve!(queue, count)`: space is reserved before the put. */ queue_reserve queue_reserve_here (count);
    Queue QUEUE_SIZE /** `queue_size!(queue, count)`: the queue holds `count` tokens at this moment. */ queue_size queue_size_here (count);
    Queue QUEUE_WAIT_EMPTY /** `queue_wait_empty!(queue)`: the thread begins to wait because the queue is empty. */
        queue_wait_empty queue_wait_empty_here ();
    Queue QUEUE_WAIT_FULL /** `queue_wait_full!(queue)`: the thread begins to wait because the queue is full. */
        queue_wait_full queue_wait_full_here ();
}

/// `link!(from, to)`: a hand-over between objects or numbers that is not a queue.
#[macro_export]
macro_rules! link {
    ($from:expr, $to:expr $(,)?) => {
        if $crate::__private::on($crate::__private::Category::Link) {
            $crate::__private::link($crate::Object::address($from), $crate::Object::address($to));
        }
    };
}

/// `flow!(id)`: assigns what this thread does from here on to a flow; 0 assigns it to none.
#[macro_export]
macro_rules! flow {
    ($id:expr $(,)?) => {
        if $crate::__private::on($crate::__private::Category::Link) {
            $crate::__private::flow($crate::Word::word($id));
        }
    };
}

/// `packet!(interface, direction, bytes)`: a captured network frame.
#[macro_export]
macro_rules! packet {
    ($interface:literal, $direction:expr, $bytes:expr $(,)?) => {
        $crate::__with_name!(Packet, |named| $crate::__private::packet(named, $direction, $bytes), $interface)
    };
    ($interface:expr, $direction:expr, $bytes:expr $(,)?) => {
        $crate::__with_name!(Packet, |named| $crate::__private::packet(named, $direction, $bytes), $interface)
    };
}

/// Like [`packet!`], named after the function: `packet_here!(direction, bytes)`.
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

/// `event!(name, field = value, …)`: a user-defined event with up to 32 typed fields.
#[macro_export]
macro_rules! event {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => { $crate::__event!([$name] $($field = $value),*) };
    ($name:expr $(, $field:ident = $value:expr)* $(,)?) => { $crate::__event!([$name] $($field = $value),*) };
}

/// Like [`event!`], named after the function: `event_here!(field = value, …)`.
#[macro_export]
macro_rules! event_here {
    ($($field:ident = $value:expr),* $(,)?) => { $crate::__event!([@here] $($field = $value),*) };
}

/// `log!(text)` or `log!("format {}", …)`: a text on the timeline. It is formatted only if it is
/// recorded, without allocating memory.
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

/// `label!(text)`: sets the label of the process, which is the path of the component: `system ->
/// part`.
#[macro_export]
macro_rules! label {
    ($label:expr $(,)?) => {
        $crate::__private::label(::core::convert::AsRef::<str>::as_ref(&$label))
    };
}
