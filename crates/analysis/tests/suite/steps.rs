//! Steps that the composer has resolved lead to the same answers as events that a pass resolves
//! itself.

use crate::support::{pipeline, Costs, Trace};
use longpole_analysis::report::ProbePass;
use longpole_analysis::stages::step_block::{ItemCounts, Steps};
use longpole_model::causes::{About, Composer};
use longpole_model::interaction::block::VocabularySize;
use longpole_trace::event::Item;

/// Time at which a pipeline begins.
const BEGIN_NS: i64 = 1_700_000_000_000_000_000;

/// Returns the pass of a trace whose events a composer resolves, in blocks of at most `most` steps.
fn passed_on(trace: &mut Trace, most: usize) -> ProbePass {
    let mut composer = Composer::built_in(About::default()).unwrap();
    let mut pass = ProbePass::of_steps().unwrap();
    let (mut steps, mut sent, mut context) = (Steps::with_room(), VocabularySize::default(), ItemCounts::default());
    let mut count = 0;
    trace.replay(|catalogue, item| {
        composer.item(catalogue, item);
        if !context.item(catalogue, item) {
            return;
        }
        match item {
            Item::Event(_) => steps.push(composer.step().unwrap()),
            Item::Loss(loss) => steps.loss(composer.system().actor_of_stream(loss.stream), *loss),
        }
        count += 1;
        if count % most == 0 {
            let mut full = std::mem::replace(&mut steps, Steps::with_room());
            full.close(composer.vocabulary(), &mut sent);
            pass.steps(&full);
        }
    });
    steps.close(composer.vocabulary(), &mut sent);
    pass.steps(&steps);
    pass.context = context;
    pass
}

fn sent(pass: &ProbePass) -> [String; 3] {
    [format!("{:?}", pass.report(Some(5.0))), format!("{:?}", pass.cpu(Some(5.0))), format!("{:?}", pass.latency_together())]
}

#[test]
fn steps_that_were_passed_on_lead_to_the_same_report_as_events() {
    for (seed, most) in [(1, 1), (2, 7), (3, Steps::BLOCK_STEPS)] {
        let costs = Costs { call_per_item: true, eager: true, ..Costs::default() };
        let mut trace = pipeline(seed, &costs, 20_000_000).trace;
        trace.lose(1, BEGIN_NS + 5_000_000, BEGIN_NS + 6_000_000);
        let alone = sent(&trace.pass());
        assert_eq!(sent(&passed_on(&mut trace, most)), alone, "in blocks of {most}");
    }
}

/// Names beyond the limit are collected under one, independently of the component that numbers
/// them.
#[test]
fn names_beyond_the_limit_are_collected_in_the_same_way() {
    let mut trace = Trace::default();
    let thread = trace.thread("maker");
    for number in 0..5_000i64 {
        trace.event(number * 10, thread, &format!("span_begin:{number}"), &[]);
        trace.event(number * 10 + 5, thread, &format!("span_end:{number}"), &[]);
    }
    let alone = trace.pass();
    let inputs = alone.inputs();
    assert!(inputs.other_names >= 5_000 && inputs.other_names < inputs.events, "{} of {}", inputs.other_names, inputs.events);
    assert_eq!(sent(&passed_on(&mut trace, 100)), sent(&alone));
}
