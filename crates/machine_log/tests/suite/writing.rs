//! What is written reads back the same, and what no log can hold is not written.

use longpole_machine_log::{
    Action, Amount, Cause, Content, Declaration, Flow, Line, LineErrorKind, Machine, Order, Reader, Text, Unit, Wants, Writer,
};
use proptest::option;
use proptest::prelude::*;
use std::io;

fn read(log: &[u8]) -> Vec<Line<'static>> {
    let mut reader = Reader::new(log);
    std::iter::from_fn(|| reader.next_line().unwrap().map(|(_, line)| line.into_owned())).collect()
}

fn written(lines: &[Line<'_>]) -> String {
    let mut writer = Writer::new(Vec::new());
    lines.iter().for_each(|line| writer.write(line).unwrap());
    String::from_utf8(writer.into_inner()).unwrap()
}

const ALL: &str = r#"{"queue":"q \"1\"","capacity":4,"order":"lifo","unit":"bytes","initial":1,"merge":true}
{"queue":"later","t":0}
{"t":0,"host":"h","machine":"A","class":"c","state":"s"}
{"t":1,"host":"h","machine":"B","class":"c","forked_by":"A","at":0,"link":"exec"}
{"t":1,"machine":"C"}
{"t":1,"machine":"D","forked_by":null}
{"t":2,"host":"h","machine":"A","blocked":"x","on":"q \"1\"","for":"space"}
{"t":3,"host":"h","machine":"A","put":"q \"1\"","n":2,"flow":"f","link":"dma"}
{"t":3,"host":"h","machine":"A","get":"q \"1\"","n":"all","flow":7}
{"t":3,"host":"h","machine":"A","peek":"q \"1\"","flow":-7}
{"t":3,"host":"h","machine":"A","reserve":"later","n":9}
{"t":4,"host":"h","machine":"irq","class":"i","on_top_of":"A","forked_by":"B","at":2}
{"t":5,"host":"h","machine":"irq","pop":true}
{"t":5,"host":"h","machine":"irq","on_top_of":null}
{"t":6,"host":"h","machine":"A","woken_by":null}
{"t":6,"host":"h","machine":"A","woken_by":"B","at":3,"link":"timer","state":"s"}
{"t":7,"host":"h","machine":"B","stop":true}
{"t":7,"machine":"K","state":"ä\n","x_kind":"span","x_kernel":true}
{"t":8,"host":"h","end":"A"}
"#;

#[test]
fn what_was_read_is_written_as_it_was() {
    assert_eq!(written(&read(ALL.as_bytes())), ALL);
}

#[test]
fn a_line_that_no_reader_would_accept_is_not_written() {
    let with = |change: fn(&mut Machine<'static>)| {
        let mut machine = Machine::new("A");
        change(&mut machine);
        Line::of_machine(5, machine)
    };
    let mut timeless = Line::end(5, "A");
    timeless.t = None;
    let put = |n| Action::Put { queue: "q".into(), n, flow: None, link: None };
    for (line, kind) in [
        (Line::end(3, "A"), LineErrorKind::TimeDecreases { t: 3, before: 4 }),
        (Line::end(1 << 63, "A"), LineErrorKind::Range { key: "t", number: 1 << 63 }),
        (timeless, LineErrorKind::NoTime),
        (Line::action(5, "A", put(0)), LineErrorKind::Range { key: "n", number: 0 }),
        (Line::action(5, "A", put(u64::MAX)), LineErrorKind::Range { key: "n", number: u64::MAX.into() }),
        (
            Line::declaration(Declaration { capacity: Some(1), initial: 2, ..Declaration::new("q") }),
            LineErrorKind::BeyondCapacity { initial: 2, capacity: 1 },
        ),
        (
            with(|machine| (machine.action, machine.state) = (Some(Action::Stop), Some("s".into()))),
            LineErrorKind::Conflict("state", "`blocked`, `pop` or `stop`"),
        ),
        (
            with(|machine| {
                machine.action = Some(Action::WokenBy(None));
                machine.forked_by = Some(Some(Cause { machine: "B".into(), at: Some(1), link: None }));
            }),
            LineErrorKind::TwoCauses,
        ),
    ] {
        let mut writer = Writer::new(Vec::new());
        writer.write(&Line::end(4, "A")).unwrap();
        let error = writer.write(&line).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(error.get_ref().and_then(|inner| inner.downcast_ref::<LineErrorKind>()), Some(&kind), "{line:?}");
        writer.write(&Line::end(4, "B")).unwrap();
        assert_eq!(String::from_utf8(writer.into_inner()).unwrap(), "{\"t\":4,\"end\":\"A\"}\n{\"t\":4,\"end\":\"B\"}\n");
    }
}

fn text() -> impl Strategy<Value = Text<'static>> {
    prop_oneof!["[a-c]{0,2}", any::<String>()].prop_map(Text::from)
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..4, any::<u64>()]
}

fn cause() -> impl Strategy<Value = Option<Cause<'static>>> {
    let some = (text(), option::of(number()), option::of(text()));
    option::of(some.prop_map(|(machine, at, link)| Cause { machine, at, link }))
}

fn action() -> impl Strategy<Value = Action<'static>> {
    let flow =
        || option::of(prop_oneof![text().prop_map(Flow::Text), any::<i128>().prop_map(Flow::Number), (-9i128..9).prop_map(Flow::Number)]);
    let amount = || prop_oneof![number().prop_map(Amount::Units), Just(Amount::All)];
    let wants = option::of(prop_oneof![Just(Wants::Tokens), Just(Wants::Space)]);
    prop_oneof![
        (text(), option::of(text()), wants).prop_map(|(why, on, wants)| Action::Blocked { why, on, wants }),
        (text(), number(), flow(), option::of(text())).prop_map(|(queue, n, flow, link)| Action::Put { queue, n, flow, link }),
        (text(), amount(), flow()).prop_map(|(queue, amount, flow)| Action::Get { queue, amount, flow }),
        (text(), amount(), flow()).prop_map(|(queue, amount, flow)| Action::Peek { queue, amount, flow }),
        (text(), number()).prop_map(|(queue, n)| Action::Reserve { queue, n }),
        cause().prop_map(Action::WokenBy),
        Just(Action::Pop),
        Just(Action::Stop),
    ]
}

fn machine() -> impl Strategy<Value = Machine<'static>> {
    let names = (text(), option::of(text()), option::of(text()), option::of(text()));
    (names, option::of(option::of(text())), option::of(cause()), option::of(action()), any::<bool>()).prop_map(
        |(names, on_top_of, forked_by, action, is_kernel_thread)| {
            let (machine, class, state, kind) = names;
            Machine { machine, class, on_top_of, forked_by, action, state, kind, is_kernel_thread }
        },
    )
}

fn content() -> impl Strategy<Value = Content<'static>> {
    let order = prop_oneof![Just(Order::Fifo), Just(Order::Lifo)];
    let unit = prop_oneof![Just(Unit::Items), Just(Unit::Bytes)];
    let declaration = (text(), option::of(number()), order, unit, number(), any::<bool>());
    prop_oneof![
        4 => machine().prop_map(Content::Machine),
        1 => text().prop_map(Content::End),
        2 => declaration.prop_map(|(queue, capacity, order, unit, initial, merge)| {
            Content::Declaration(Declaration { queue, capacity, order, unit, initial, merge })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn a_line_is_refused_or_reads_back_as_it_was(t in option::of(number()), host in text(), content in content()) {
        let line = Line { t, host, content };
        let mut writer = Writer::new(Vec::new());
        if writer.write(&line).is_ok() {
            prop_assert_eq!(read(&writer.into_inner()), [line]);
        }
    }
}
