//! Conditions with values that are given here.

use longpole_predicate::{Datum, Predicate};

fn holds(text: &str, values: &[(&str, Datum<'_>)]) -> bool {
    let predicate = Predicate::parse(text).unwrap();
    predicate.holds(|at| {
        let name = predicate.names()[at].to_string();
        values.iter().find(|(known, _)| *known == name).map_or(Datum::Unknown, |(_, datum)| *datum)
    })
}

#[test]
fn and_binds_more_tightly_than_or() {
    let values = [("a", Datum::Integer(1)), ("b", Datum::Integer(2))];
    assert!(holds("a == 1 || a == 2 && b == 3", &values));
    assert!(!holds("(a == 1 || a == 2) && b == 3", &values));
    assert!(holds("a == 1 or a == 2 and b == 3", &values));
}

#[test]
fn numbers_and_texts_compare_within_their_kind_only() {
    let values = [("len", Datum::Integer(150)), ("name", Datum::Text(b"x"))];
    assert!(holds("len>100 && name==\"x\"", &values));
    assert!(holds("len > 99.5", &values));
    assert!(!holds("name > 5", &values));
    assert!(!holds("name != 5", &values));
    assert!(holds("len == 0x96", &values));
    assert!(holds("len != -1", &values));
    assert!(holds("len & 2 && !(len & 1)", &values));
}

#[test]
fn an_enumeration_compares_as_number_and_as_text() {
    let values = [("state", Datum::Labelled(2, b"blocked")), ("other", Datum::Labelled(3, b"blocked"))];
    assert!(holds("state == 2 && state == 'blocked' && state ~ 'b*' && state == other", &values));
}

#[test]
fn a_comparison_with_a_missing_value_is_false() {
    assert!(!holds("gone == 1", &[]));
    assert!(!holds("gone != 1", &[]));
    assert!(holds("!(gone == 1)", &[]));
    assert!(holds("not gone", &[]));
    assert!(holds("here", &[("here", Datum::Other)]));
    assert!(!holds("here == here", &[("here", Datum::Other)]));
}

#[test]
fn a_name_with_an_argument_is_a_name_like_any_other() {
    let share = "share(\"worker::parse\")";
    assert!(holds("share('worker::parse') > 0.3 && share > 0.1", &[(share, Datum::Real(0.4)), ("share", Datum::Real(0.2))]));
    let quoted = Predicate::parse("p99(\"a \\\"b\\\"\") < 5ms").unwrap();
    let name = &quoted.names()[0];
    assert_eq!((name.name.as_str(), name.argument.as_deref()), ("p99", Some("a \"b\"")));
    let again = Predicate::parse(&format!("{name} < 5ms")).unwrap();
    assert_eq!((again.names(), again.root()), (quoted.names(), quoted.root()));
}

#[test]
fn a_duration_is_a_number_of_ns() {
    let values = [("took", Datum::Integer(1_500_000))];
    assert!(holds("took == 1.5ms && took > 1_499us && took < 0.001501s && took == 1500000", &values));
}

#[test]
fn a_moment_is_refused_where_there_are_no_events() {
    let error = Predicate::parse("len == 1 || took > +5s").unwrap_err();
    assert_eq!(error.to_string(), "column 20: a time of the trace (`+5s`) cannot be used here; write a duration without `+`");
    assert!(Predicate::parse_about_events("t > +5s").is_ok());
}

#[test]
fn the_error_of_a_wrong_condition_marks_its_place() {
    let drawn = |text: &str| format!("{:#}", Predicate::parse(text).unwrap_err());
    assert_eq!(drawn("cpu == ) && x"), "expected a name, a number or a \"text\", found `)`\n  cpu == ) && x\n         ^");
    for (text, what, column) in [
        ("cpu = 1", "write `==`", 4),
        ("cpu == 1 | x", "write `||`", 9),
        ("cpu == \"1", "no second one", 7),
        ("cpu ~ 5", "a \"pattern\"", 6),
        ("cpu == 5x", "is not a number", 7),
        ("(cpu == 5", "`)`, `and` or `or`", 9),
        ("5", "a comparison", 1),
        ("cpu == 1 cpu", "`and`, `or` or the end", 9),
        ("", "a name, a number", 0),
        ("a[x] == 1", "written as [0]", 1),
        ("ä == 1 § 2", "means nothing here", 7),
        ("share(\"x\" > 1", "expected `)`", 9),
    ] {
        let drawn = drawn(text);
        assert!(drawn.contains(what), "{drawn}");
        assert_eq!(drawn.lines().last().unwrap().chars().count(), column + 3, "{drawn}");
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    assert!(Predicate::parse(&"(".repeat(100_000)).is_err());
    assert!(Predicate::parse(&"!".repeat(100_000)).is_err());
}
