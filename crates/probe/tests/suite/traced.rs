//! A program that is instrumented with `tracing` is recorded through a layer: spans, typed fields,
//! texts, filters.

use crate::support;
use crate::support::{example, Place};
use serde_json::{json, Value};

/// The fields of all events with this name.
fn of(events: &[Value], name: &str) -> Vec<Value> {
    events.iter().filter(|event| event["name"] == name).map(|event| event["fields"].clone()).collect()
}

#[test]
fn a_program_that_uses_tracing_is_recorded_with_its_spans_and_typed_fields() {
    let place = Place::new();
    place.record(&[], &example("traced"), &[]);
    let events = place.events();
    // The fields of a span are recorded when it is created and when they are set; the number of the
    // span connects them to its start and end.
    let (begins, ends) = (of(&events, "span_begin:price"), of(&events, "span_end:price"));
    assert_eq!((begins.len(), ends.len()), (3, 3));
    let spans: Vec<&Value> = begins.iter().map(|begin| &begin["arg"]).collect();
    let made: Vec<Value> = spans.iter().map(|span| json!({"span": span, "customer": "somebody", "article": 7})).collect();
    let given: Vec<Value> = spans.iter().zip([0, 70, 140]).map(|(span, cents)| json!({"span": span, "cents": cents})).collect();
    let fields = of(&events, "event:price");
    assert_eq!(fields.iter().step_by(2).cloned().collect::<Vec<_>>(), made);
    assert_eq!(fields.iter().skip(1).step_by(2).cloned().collect::<Vec<_>>(), given);
    // An event is recorded within its span, with level, message and fields. Values recorded by
    // Debug are texts.
    let own = of(&events, "event:traced");
    let order = "Order { article: 7, count: 0 }";
    assert_eq!(own[0], json!({"level": "DEBUG", "message": "priced", "order": order, "discount": 0.5}));
    assert_eq!(own[1], json!({"level": "INFO", "message": "sold", "cents": 0, "ok": 1, "change": -5}));
    let position = |name: &str| events.iter().position(|event| event["name"] == name).unwrap();
    assert!(position("span_begin:price") < position("event:traced") && position("event:traced") < position("span_end:price"));
    // An event that consists of a message only is a text.
    assert_eq!(of(&events, "log")[0], json!({"text": "INFO traced: open"}));
    // Absent fields are not recorded, whichever they are.
    let optional = of(&events, "event:optional");
    let level = "INFO";
    assert_eq!(
        optional,
        [json!({"level": level, "first": 1}), json!({"level": level, "second": 2}), json!({"level": level, "first": 3, "second": 4})]
    );
    // All fields are recorded, and the level.
    let many = &of(&events, "event:many")[0];
    assert_eq!((many.as_object().unwrap().len(), &many["a"], &many["p"], &many["pp"]), (33, &json!(1), &json!(16), &json!(32)));
    // A text that is too long is cut, and the event stays valid.
    let long = own.last().unwrap()["text"].as_str().unwrap();
    assert!(long.len() > 3500 && "long ".repeat(2000).starts_with(long), "{}", long.len());
    if let Some(read) = place.babeltrace() {
        assert_eq!(read.len(), events.len());
    }
}

#[test]
fn a_span_that_two_threads_enter_is_recorded_in_both() {
    let place = Place::new();
    place.record(&[], &example("traced"), &[]);
    let events = place.events();
    let task: Vec<&Value> = events.iter().filter(|event| event["name"] == "span_begin:task").collect();
    assert_eq!(task.len(), 2);
    assert_eq!(task[0]["fields"], task[1]["fields"], "one span");
    assert_ne!(task[0]["context"]["tid"], task[1]["context"]["tid"]);
    assert_eq!(task[1]["context"]["thread"], "second");
    for begin in task {
        let own: Vec<&Value> = events.iter().filter(|event| event["context"]["tid"] == begin["context"]["tid"]).collect();
        let at = own.iter().position(|event| event["name"] == "span_begin:task").unwrap();
        assert_eq!((&own[at + 1]["name"], &own[at + 2]["name"]), (&json!("log"), &json!("span_end:task")));
    }
}

#[test]
fn a_span_records_what_it_follows_from_and_its_lifetime() {
    let place = Place::new();
    place.record(&[], &example("traced"), &[]);
    let events = place.events();
    let number = |name: &str| of(&events, &format!("span_begin:{name}"))[0]["arg"].clone();
    let (task, follower) = (number("task"), number("follower"));
    assert_eq!(of(&events, "event:follower"), [json!({"span": follower, "follows_from": task})]);
    // The lifetime of a span begins with its own number and that of its parent.
    let lives = of(&events, "mark:follower");
    assert_eq!(lives.len(), 2);
    assert_eq!((&lives[0]["data"], &lives[0]["object"], &lives[1]["object"]), (&task, &follower, &follower));
    let position = |name: &str| events.iter().position(|event| event["name"] == name).unwrap();
    assert!(position("mark:follower") < position("span_begin:follower"));
    let output = support::ok(place.longpole(&["latency", "--json"]).arg(place.recording()).output().unwrap());
    let told: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let lives: Vec<_> =
        told.iter().filter(|line| line["kind"] == "object").map(|line| (line["name"].as_str().unwrap(), &line["count"])).collect();
    for (name, count) in [("price", 3), ("task", 1), ("follower", 1)] {
        assert!(lives.contains(&(name, &json!(count))), "{lives:?}");
    }
}

#[test]
fn a_record_of_log_is_a_text_with_its_own_target() {
    let place = Place::new();
    place.record(&[], &example("traced"), &[]);
    let events = place.events();
    assert!(of(&events, "log").contains(&json!({"text": "WARN library: said by log"})));
    assert!(!events.iter().any(|event| event["name"].as_str().unwrap().contains("log event")));
}

#[test]
fn filters_select_levels_and_targets() {
    let place = Place::new();
    place.record(&[], &example("traced"), &[]);
    let events = place.events();
    assert_eq!(of(&events, "event:noisy").len(), 1, "a warning passes, and nothing less");
    assert_eq!(of(&events, "event:noisy")[0]["level"], "WARN");
    assert!(!of(&events, "log").iter().any(|text| text["text"].as_str().unwrap().contains("not recorded")));
}

#[test]
fn events_that_a_policy_excludes_are_not_recorded() {
    let place = Place::new();
    let policy = place.path("policy.toml");
    std::fs::write(&policy, "[[policy]]\nlabel = \"traced\"\nevents = [\"span\", \"log\"]\n").unwrap();
    place.record(&["-c", policy.to_str().unwrap()], &example("traced"), &[]);
    let (counts, lost) = place.counts();
    let kinds: Vec<&str> = counts.keys().map(|name| name.split(':').next().unwrap()).collect();
    assert!(kinds.iter().all(|kind| ["log", "span_begin", "span_end"].contains(kind)), "{counts:?}");
    assert_eq!((counts["span_begin:price"], counts["log"], lost), (3, 4, 0));
}
