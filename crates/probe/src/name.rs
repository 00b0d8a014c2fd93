//! The class id of a probe by its name. A literal is resolved once per call site. A handle
//! ([`Name`], [`crate::Queue`]) is resolved once per kind of probe, wherever it is used. Any other
//! text is copied into each event.

use crate::as_name::Ref;
use crate::handle::Name;
use crate::process::mask;
use crate::ring::{emit, emit_parts, emit_slow, three, Part};
use crate::site::{remember, resolve, Key};
use crate::system::Text;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering::*};
use longpole_abi::kind::Category;
use longpole_abi::{Kind, FIRST_SITE_ID, NAME_MAXIMUM};

const FIRST: u32 = FIRST_SITE_ID as u32;

impl<'a> Ref<'a> {
    pub(crate) fn bytes(&self) -> &'a [u8] {
        match self {
            Ref::Handle(name) => name.bytes(),
            Ref::Text(text) => text.as_bytes(),
        }
    }
}

/// An event class of a kind of probe. The classes of a kind differ by variant.
pub struct Class {
    pub kind: u32,
    variant: u32,
    pub fields: &'static str,
}

macro_rules! classes {
    ($($name:ident = $kind:ident $variant:literal $fields:literal;)*) => {
        $(pub const $name: Class = Class { kind: Kind::$kind as u32, variant: $variant, fields: $fields };)*
    };
}

classes! {
    STATE = State 0 "";
    BEGIN = SpanBegin 0 "";
    BEGIN_ARG = SpanBegin 1 "u:arg";
    END = SpanEnd 0 "";
    END_ARG = SpanEnd 1 "u:arg";
    MARK = Mark 0 "";
    MARK_DATA = Mark 1 "u:data";
    MARK_OBJECT = Mark 2 "u:data,x:object";
    MARK_KIND = Mark 3 "u:data,x:object,k:kind";
    COUNTER = Counter 0 "i:value";
    COUNTER_REAL = Counter 1 "d:value";
    RPC_CALL = RpcCall 0 "u:id";
    RPC_RETURNED = RpcReturned 0 "u:id";
    RPC_DISPATCH = RpcDispatch 0 "u:id";
    RPC_REPLY = RpcReply 0 "u:id";
    SIGNAL_SUBMIT = SignalSubmit 0 "u:count";
    SIGNAL_RECEIVE = SignalReceive 0 "u:count";
    SIGNAL_WAIT = SignalWait 0 "";
    QUEUE_PUT = QueuePut 0 "u:count";
    QUEUE_GET = QueueGet 0 "u:count";
    QUEUE_PEEK = QueuePeek 0 "u:count";
    QUEUE_RESERVE = QueueReserve 0 "u:count";
    QUEUE_SIZE = QueueSize 0 "u:count";
    QUEUE_WAIT_EMPTY = QueueWaitEmpty 0 "";
    QUEUE_WAIT_FULL = QueueWaitFull 0 "";
    PACKET = Packet 0 "w:direction,w:length,b:bytes";
}

/// A class of user-defined events; their fields are described by the call site.
pub const EVENT: Class = Class { kind: Kind::Event as u32, variant: 0, fields: "" };

/// Number of words of an overflow class before its name.
fn overflow_words(kind: u32) -> usize {
    let fields = Kind::from_number(kind as u16).map_or("", Kind::overflow_fields);
    fields.split(',').filter(|field| !field.starts_with('s')).count()
}

/// The source of a call site's name.
enum Called {
    Literal(&'static str),
    State(&'static str, &'static str),
    /// The name is derived from the path of a function that the macro declares at the call site.
    Function(fn() -> &'static str),
}

/// The static data of a call site. Its class id is 0 until it is resolved; a value below 64 is the
/// overflow class.
pub struct Site {
    id: AtomicU32,
    called: Called,
    file: &'static str,
    line: u32,
}

/// The name of the enclosing function: `crate::module::function::here` and
/// `crate::module::function::{{closure}}::here` are both in `function`.
pub fn function_name(path: &str) -> &str {
    let outer = path.rsplit("::").skip(1).find(|part| !part.starts_with("{{"));
    outer.unwrap_or(path)
}

/// The path of a function.
pub fn path_of<F>(_: F) -> &'static str {
    core::any::type_name::<F>()
}

/// `MACHINE::STATE`. A long name of a machine is cut so that there is room for the state.
fn state_name(machine: &[u8], state: &[u8]) -> Text<{ NAME_MAXIMUM + 1 }> {
    let cut = if machine.len() > NAME_MAXIMUM / 2 { NAME_MAXIMUM / 2 } else { machine.len() };
    Text::of(&[&machine[..cut], b"::", state])
}

impl Site {
    pub const fn literal(name: &'static str, file: &'static str, line: u32) -> Site {
        Site { id: AtomicU32::new(0), called: Called::Literal(name), file, line }
    }

    pub const fn state(machine: &'static str, state: &'static str, file: &'static str, line: u32) -> Site {
        Site { id: AtomicU32::new(0), called: Called::State(machine, state), file, line }
    }

    pub const fn function(here: fn() -> &'static str, file: &'static str, line: u32) -> Site {
        Site { id: AtomicU32::new(0), called: Called::Function(here), file, line }
    }

    #[inline(always)]
    pub fn known(&self) -> u32 {
        self.id.load(Relaxed)
    }

    /// Resolves the class id of the site; also returns its name. `fields` describes the fields of
    /// its events.
    pub fn resolve(&self, kind: u32, fields: &[u8]) -> (u32, Text<{ NAME_MAXIMUM + 1 }>) {
        let name = match self.called {
            Called::Literal(name) => Text::of(&[name.as_bytes()]),
            Called::State(machine, state) => state_name(machine.as_bytes(), state.as_bytes()),
            Called::Function(here) => Text::of(&[function_name(here()).as_bytes()]),
        };
        let key = Key { kind, line: self.line, name: name.bytes(), fields, file: self.file.as_bytes(), attributes: b"" };
        (remember(&self.id, || resolve(key)), name)
    }
}

impl Ref<'_> {
    /// Resolves the class id of a name. A handle has no file and line, so that it is the same class
    /// in all programs. A text has the overflow class.
    pub(crate) fn resolve(&self, class: &Class, fields: &[u8]) -> u32 {
        let Ref::Handle(name) = self else { return class.kind };
        let attributes = name.attributes();
        let key = Key { kind: class.kind, line: 0, name: name.bytes(), fields, file: b"", attributes: attributes.bytes() };
        remember(name.id(class.kind, class.variant), || resolve(key))
    }

    #[inline(always)]
    pub(crate) fn known(&self, class: &Class) -> u32 {
        match self {
            Ref::Handle(name) => name.id(class.kind, class.variant).load(Relaxed),
            Ref::Text(_) => 0,
        }
    }
}

/// A name as a part of an event, cut to the maximum length.
pub fn cut(name: &[u8]) -> Part<'_> {
    Part::text(&name[..name.len().min(NAME_MAXIMUM)])
}

/// Records an event of the overflow class: the name is part of the event.
#[cold]
#[inline(never)]
pub fn emit_named(class: &Class, words: &[u64], name: &[u8]) {
    let mut parts = [Part::Word(0); 4];
    let count = overflow_words(class.kind).min(3);
    for (part, word) in parts.iter_mut().zip(words) {
        // The overflow class of gauges has an integer value only.
        let real = class.kind == COUNTER_REAL.kind && class.variant == COUNTER_REAL.variant;
        *part = Part::Word(if real { f64::from_bits(*word) as i64 as u64 } else { *word });
    }
    parts[count] = cut(name);
    emit_parts(class.kind, &parts[..=count], false);
}

/// Records the first event of a site, and every event of a site without a class. Here and below,
/// words are passed in registers, and the calling convention does not unwind: so a probe needs no
/// stack frame and no cleanup code.
#[cold]
#[inline(never)]
extern "C" fn probe_slow(site: &Site, class: &Class, count: usize, a: u64, b: u64, c: u64) {
    let words = [a, b, c];
    let words = &words[..count.min(3)];
    let (id, name) = site.resolve(class.kind, class.fields.as_bytes());
    if id >= FIRST {
        emit_slow(id, words);
    } else {
        emit_named(class, words, name.bytes());
    }
}

/// A probe whose name is known at compile time.
#[inline(always)]
pub fn probe<const N: usize>(site: &Site, class: &Class, words: [u64; N]) {
    let id = site.known();
    if id >= FIRST {
        emit(id, words);
    } else {
        let [a, b, c] = three(words);
        probe_slow(site, class, N, a, b, c);
    }
}

#[cold]
#[inline(never)]
extern "C" fn probe_handle_slow(name: &Name, class: &Class, count: usize, a: u64, b: u64, c: u64) {
    probe_named_slow(Ref::Handle(name), class, &[a, b, c][..count.min(3)]);
}

#[cold]
#[inline(never)]
fn probe_named_slow(name: Ref, class: &Class, words: &[u64]) {
    let id = name.resolve(class, class.fields.as_bytes());
    if id >= FIRST {
        emit_slow(id, words);
    } else {
        emit_named(class, words, name.bytes());
    }
}

/// A probe with a handle or a text as its name.
#[inline(always)]
pub fn probe_named<const N: usize>(name: Ref, class: &Class, words: [u64; N]) {
    match name {
        Ref::Handle(handle) => {
            let id = name.known(class);
            if id >= FIRST {
                emit(id, words);
            } else {
                let [a, b, c] = three(words);
                probe_handle_slow(handle, class, N, a, b, c);
            }
        }
        Ref::Text(_) => probe_named_slow(name, class, &words),
    }
}

/// Records a transition whose names are not both literals.
#[cold]
#[inline(never)]
pub fn state(machine: Ref, state: Ref) {
    let name = state_name(machine.bytes(), state.bytes());
    emit_named(&STATE, &[], name.bytes());
}

/// Returns `true` if the category is recorded; one load.
#[inline(always)]
pub fn on(category: Category) -> bool {
    mask() & (1 << category as u32) != 0
}

/// The name of a span that ends. `end` is not inlined: a guard whose drop contains a whole probe
/// would not be inlined itself, and then every scope would pay for a call, even if nothing is
/// recorded.
pub trait Ends: Copy {
    fn end(self);
}

impl Ends for &'static Site {
    #[inline(never)]
    fn end(self) {
        probe(self, &END, []);
    }
}

impl Ends for Ref<'_> {
    #[inline(never)]
    fn end(self) {
        probe_named(self, &END, []);
    }
}

/// Ends the span of a scope when dropped. It is neither `Send` nor `Sync`, because the start of the
/// span is in this thread.
pub struct Guard<N: Ends> {
    name: N,
    here: PhantomData<*const ()>,
}

impl<N: Ends> Guard<N> {
    #[inline(always)]
    pub fn of(name: N) -> Guard<N> {
        Guard { name, here: PhantomData }
    }
}

impl<N: Ends> Drop for Guard<N> {
    #[inline(always)]
    fn drop(&mut self) {
        if on(Category::Span) {
            self.name.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_without_a_name_is_named_after_its_function() {
        assert_eq!(function_name("crate::module::function::here"), "function");
        assert_eq!(function_name("crate::function::{{closure}}::{{closure}}::here"), "function");
        assert_eq!(function_name("<crate::Type as crate::Trait>::method::here"), "method");
        assert_eq!(function_name("crate::<impl crate::Trait for crate::Type>::method::{{closure}}::here"), "method");
        assert_eq!(function_name("here"), "here");
    }

    #[test]
    fn a_state_has_room_next_to_a_machine_name_of_any_length() {
        let long = [b'm'; 400];
        assert_eq!(state_name(b"m", b"s").bytes(), b"m::s");
        let name = state_name(&long, &long);
        assert_eq!(name.bytes().len(), NAME_MAXIMUM);
        assert_eq!(&name.bytes()[..130], [&long[..127], b"::m"].concat());
    }

    #[test]
    fn overflow_classes_have_as_many_words_before_the_name_as_their_fields() {
        let words = [STATE, MARK, COUNTER, RPC_CALL, QUEUE_PUT, QUEUE_WAIT_FULL, EVENT].map(|class| overflow_words(class.kind));
        assert_eq!(words, [0, 3, 1, 1, 1, 0, 0]);
    }
}
