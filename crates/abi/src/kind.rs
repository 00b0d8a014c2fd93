//! Kinds of events, their names in the trace, and the categories that enable them.

/// A category of events: one bit of the enable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    State,
    Span,
    Mark,
    Counter,
    Rpc,
    Signal,
    Queue,
    Link,
    Packet,
    Event,
    Log,
}

impl Category {
    pub const ALL: [Category; 11] = [
        Category::State,
        Category::Span,
        Category::Mark,
        Category::Counter,
        Category::Rpc,
        Category::Signal,
        Category::Queue,
        Category::Link,
        Category::Packet,
        Category::Event,
        Category::Log,
    ];

    pub fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The name of the category in a policy.
    pub fn name(self) -> &'static str {
        match self {
            Category::State => "state",
            Category::Span => "span",
            Category::Mark => "mark",
            Category::Counter => "counter",
            Category::Rpc => "rpc",
            Category::Signal => "signal",
            Category::Queue => "queue",
            Category::Link => "link",
            Category::Packet => "packet",
            Category::Event => "event",
            Category::Log => "log",
        }
    }

    pub fn from_name(name: &str) -> Option<Category> {
        Category::ALL.into_iter().find(|category| category.name() == name)
    }
}

/// All categories at once.
pub const ALL_CATEGORIES: u32 = (1 << Category::ALL.len()) - 1;

macro_rules! kinds {
    ($($name:ident = $number:literal $text:literal $category:ident $overflow:literal;)*) => {
        /// The kind of an event. Its number is also the class id of the overflow class of this
        /// kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Kind { $($name = $number),* }

        impl Kind {
            pub const ALL: &'static [Kind] = &[$(Kind::$name),*];

            pub fn from_number(number: u16) -> Option<Kind> {
                match number { $($number => Some(Kind::$name),)* _ => None }
            }

            /// The part of an event's name before the colon.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$name => $text),* }
            }

            pub fn category(self) -> Category {
                match self { $(Kind::$name => Category::$category),* }
            }

            /// The fields of the overflow class; see [`crate::fields`] for the format.
            pub fn overflow_fields(self) -> &'static str {
                match self { $(Kind::$name => $overflow),* }
            }
        }
    };
}

kinds! {
    State = 1 "state" State "s:name";
    SpanBegin = 2 "span_begin" Span "s:name";
    SpanEnd = 3 "span_end" Span "s:name";
    Mark = 4 "mark" Mark "u:data,x:object,k:kind,s:name";
    Counter = 5 "counter" Counter "i:value,s:name";
    RpcCall = 6 "rpc_call" Rpc "u:id,s:name";
    RpcReturned = 7 "rpc_returned" Rpc "u:id,s:name";
    RpcDispatch = 8 "rpc_dispatch" Rpc "u:id,s:name";
    RpcReply = 9 "rpc_reply" Rpc "u:id,s:name";
    SignalSubmit = 10 "signal_submit" Signal "u:count,s:name";
    SignalReceive = 11 "signal_receive" Signal "u:count,s:name";
    SignalWait = 12 "signal_wait" Signal "s:name";
    QueuePut = 13 "queue_put" Queue "u:count,s:name";
    QueueGet = 14 "queue_get" Queue "u:count,s:name";
    QueuePeek = 15 "queue_peek" Queue "u:count,s:name";
    QueueReserve = 16 "queue_reserve" Queue "u:count,s:name";
    QueueWaitEmpty = 17 "queue_wait_empty" Queue "s:name";
    QueueWaitFull = 18 "queue_wait_full" Queue "s:name";
    QueueSize = 19 "queue_size" Queue "u:count,s:name";
    Link = 20 "link" Link "x:from,x:to";
    Flow = 21 "flow" Link "u:id";
    Packet = 22 "packet" Packet "w:direction,w:length,b:bytes,s:name";
    Event = 23 "event" Event "s:name";
    Log = 24 "log" Log "s:text";
}
