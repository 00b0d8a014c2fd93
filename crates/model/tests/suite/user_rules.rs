//! What the rules of a user make of events, and why a rule matches none.

use longpole_model::rules::Rules;
use longpole_model::step::{MarkKind, Op};
use longpole_model::system::{System, Unmatched};
use longpole_testing::kernel::{text, Kernel, Val};
use longpole_trace::event::Item;

/// Events of one thread, as a name and fields.
fn events(all: &[(&str, &[(&str, Val)])]) -> Kernel {
    let mut kernel = Kernel::new(0);
    let thread = kernel.thread("one", "", 11, 11);
    all.iter().zip(100..).for_each(|((name, fields), t)| kernel.event(t, thread, name, fields));
    kernel
}

/// The meaning that the rules give to each event.
fn ops(kernel: &Kernel, rules: &str) -> (System, Vec<Op>) {
    let mut own = Rules::default();
    own.add("mine.toml", rules).unwrap();
    let mut system = System::with_rules(own.with_built_in().unwrap());
    let mut ops = Vec::new();
    kernel.replay(|catalogue, item| {
        if let Item::Event(event) = item {
            ops.push(system.step(catalogue, event).op);
        }
    });
    (system, ops)
}

/// Why each rule matches no event; `None` if it matches some.
fn reasons(kernel: &Kernel, rules: &str) -> Vec<Option<Unmatched>> {
    ops(kernel, rules).0.user_rules().map(|(_, _, why)| why.cloned()).collect()
}

#[test]
fn a_rule_applies_only_to_events_that_have_the_fields_it_needs() {
    let rules =
        "[[rule]]\nevent = \"job\"\ndo = \"begin\"\nname = \"@name\"\n[[rule]]\nevent = \"job\"\ndo = \"begin\"\nname = \"step @size\"\n\
                 [[rule]]\nevent = \"job\"\ndo = \"begin\"\nname = \"any\"\n";
    let name = ("name", text("wash"));
    let size = ("size", Val::I(3));
    let lacks = |field: &str| Some(Unmatched::LacksField(field.to_owned()));
    for (fields, begun, why) in [
        (&[name.clone(), size.clone()][..], "wash", [None, Some(Unmatched::Covered), Some(Unmatched::Covered)]),
        (&[size], "step 3", [lacks("name"), None, Some(Unmatched::Covered)]),
        (&[], "any", [lacks("name"), lacks("size"), None]),
    ] {
        let kernel = events(&[("job", fields)]);
        let (system, ops) = ops(&kernel, rules);
        assert!(matches!(ops[..], [Op::Begin { name }] if system.vocabulary.names.text(name) == begun), "{begun}: {ops:?}");
        assert_eq!(reasons(&kernel, rules), why, "{begun}");
    }
}

#[test]
fn the_reason_of_a_rule_without_events_is_the_one_that_is_nearest_to_a_match() {
    let rule = "[[rule]]\nevent = \"job:*\"\ndo = \"begin\"\nname = \"@name\"\nwhen = \"size > 10\"\n";
    let named = |size: i64| [("name", text("wash")), ("size", Val::I(size))];
    let small: &[(&str, Val)] = &named(3);
    let without: &[(&str, Val)] = &[("size", Val::I(30))];
    for all in [[("job:a", small), ("job:b", without)], [("job:a", without), ("job:b", small)]] {
        assert_eq!(reasons(&events(&all), rule), [Some(Unmatched::ConditionFalse)]);
    }
    assert_eq!(reasons(&events(&[("job:b", without)]), rule), [Some(Unmatched::LacksField("name".to_owned()))]);
    assert_eq!(reasons(&events(&[("job:a", &named(3)[..1])]), rule), [Some(Unmatched::LacksField("size".to_owned()))]);
    assert_eq!(reasons(&events(&[("other", small)]), rule), [Some(Unmatched::NoEvent)]);
    assert_eq!(reasons(&events(&[("job:a", &named(11))]), rule), [None]);
}

#[test]
fn the_kind_of_a_mark_is_given_by_its_word_or_by_a_number_in_a_field() {
    let kinds = [
        ("plain", MarkKind::Plain),
        ("object_new", MarkKind::ObjectNew),
        ("object_delete", MarkKind::ObjectDelete),
        ("object_state", MarkKind::ObjectState),
        ("exception", MarkKind::Exception),
        ("failure", MarkKind::Failure),
        ("other", MarkKind::Plain),
    ];
    for (number, (word, kind)) in kinds.into_iter().enumerate() {
        let kernel = events(&[("made", &[("object", Val::I(8)), ("how", Val::I(number as i64))])]);
        for given in [word, "@how"] {
            let rule = format!("[[rule]]\nevent = \"made\"\ndo = \"mark\"\nname = \"x\"\nobject = \"@object\"\nkind = \"{given}\"\n");
            let ops = ops(&kernel, &rule).1;
            assert!(matches!(ops[..], [Op::Mark { object: 8, kind: found, .. }] if found == kind), "{word} {given}: {ops:?}");
        }
    }
}
