//! Lost events of the kernel and of probes: the time that they cover is unknown, and no effect
//! leads across it.

use crate::support::composed::{compose, drawn, path, probes, two_cpus, BLOCKED};
use longpole_model::causes::About;
use longpole_trace::event::{Loss, StreamId};

#[test]
fn the_time_of_a_loss_is_unknown_and_a_block_within_it_has_no_timer() {
    let mut kernel = two_cpus();
    kernel.syscall(150, 0, "getpid", None);
    kernel.losses.push(Loss { stream: StreamId(0), begin_ns: 200, end_ns: 400, events: Some(9) });
    kernel.switch(450, 0, 11, 0, 0);
    let composed = compose(&kernel, About::default());
    assert_eq!(composed.counters.lost, 9);
    assert!(
        drawn(&composed.answer).contains("150-200 t11::getpid, 200-400 link::UNKNOWN, 400-450 t11::UNKNOWN"),
        "{}",
        drawn(&composed.answer)
    );
    assert_eq!(composed.answer.unknown_ns, 250);
}

/// The span may have ended at any time.
#[test]
fn a_span_that_is_open_when_a_loss_of_its_thread_begins_has_no_time_within_the_loss() {
    let mut kernel = two_cpus();
    let [work, last] = [("work", 11), ("last", 12)].map(|(name, tid)| kernel.thread(name, "", tid, tid));
    kernel.probe(110, work, "span_begin:step");
    kernel.switch(120, 1, 0, 0, 12);
    kernel.probe(125, last, "span_begin:use");
    kernel.switch(130, 1, 12, BLOCKED, 0);
    kernel.losses.push(Loss { stream: StreamId(work), begin_ns: 200, end_ns: 900, events: Some(9) });
    // The thread is preempted, wakes the other one and blocks, all within the loss; then the same
    // again after the other has woken it.
    kernel.switch(220, 0, 11, 0, 13);
    kernel.switch(230, 0, 13, BLOCKED, 11);
    kernel.waking(250, 0, 12, 1);
    kernel.switch(257, 1, 0, 0, 12);
    kernel.switch(300, 0, 11, BLOCKED, 0);
    kernel.waking(400, 1, 11, 0);
    kernel.switch(400, 0, 0, 0, 11);
    kernel.switch(410, 1, 12, BLOCKED, 0);
    kernel.waking(500, 0, 12, 1);
    kernel.switch(500, 1, 0, 0, 12);
    kernel.probe(950, last, "span_end:use");
    let path = path(&kernel);
    let expected = "100-110 work::run, 110-200 work::step, 200-220 work::UNKNOWN, 220-230 work::preempted, 230-250 work::UNKNOWN, \
                    250-257 last::runnable, 257-400 last::use, 400-500 work::UNKNOWN, 500-950 last::use";
    assert_eq!(path, expected);
}

/// A thread that always takes from a queue has also taken from it during a loss: only the time of
/// the loss is unknown.
#[test]
fn items_that_vanish_during_a_loss_were_taken_by_the_usual_consumer() {
    let (mut kernel, one, two) = probes();
    kernel.counted(110, one, "queue_put:work", 1);
    kernel.catalogue.classes.iter_mut().filter(|class| class.event_name == "queue_put:work").for_each(|class| {
        class.attributes.push(("capacity".to_owned(), "1".to_owned()));
    });
    kernel.counted(120, two, "queue_get:work", 1);
    kernel.probe(125, two, "span_begin:use");
    kernel.counted(140, one, "queue_put:work", 1);
    kernel.probe(145, one, "queue_wait_full:work");
    kernel.losses.push(Loss { stream: StreamId(two), begin_ns: 150, end_ns: 200, events: Some(2) });
    kernel.probe(210, two, "span_begin:use");
    kernel.counted(220, one, "queue_put:work", 1);
    kernel.probe(300, one, "span_end:make");
    let composed = compose(&kernel, About::default());
    assert_eq!(
        drawn(&composed.answer),
        "100-120 two::UNKNOWN, 120-125 two::run, 125-150 two::use, 150-200 link::UNKNOWN, 200-210 two::run, 210-220 two::use, 220-300 one::make"
    );
    // The time before its first event, and the loss.
    assert_eq!((composed.answer.contradictions, composed.answer.unknown_ns), (0, 20 + 50));
}
