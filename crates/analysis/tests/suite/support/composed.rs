//! The interactions that the composer makes of a toy kernel's events, and their critical path.

use super::linux::{each_interaction, Kernel};
pub use super::linux::{probes, two_cpus, BLOCKED};
use longpole_analysis::critical_path::{Answer, CriticalPath, Options};
use longpole_analysis::machine_log::Writer;
use longpole_model::causes::{About, Composer, Counters};

pub struct Composed {
    pub log: String,
    pub counters: Counters,
    pub answer: Answer,
}

pub fn options() -> Options {
    Options { segments: true, ..Options::default() }
}

pub fn compose(kernel: &Kernel, about: About) -> Composed {
    let mut composer = Composer::built_in(about).unwrap();
    let mut critical_path = CriticalPath::new(options());
    let mut log = Vec::new();
    let mut writer = Writer::new(&mut log);
    each_interaction(kernel, &mut composer, |vocabulary, interaction| {
        critical_path.interaction(vocabulary, interaction);
        writer.write(vocabulary, interaction).unwrap();
    });
    let answer = critical_path.answer(composer.vocabulary()).unwrap();
    Composed { log: String::from_utf8(log).unwrap(), counters: composer.counters().clone(), answer }
}

pub fn path(kernel: &Kernel) -> String {
    drawn(&compose(kernel, About::default()).answer)
}

pub fn drawn(answer: &Answer) -> String {
    let segments = answer.segments.as_ref().unwrap().segments();
    segments.map(|it| format!("{}-{} {}::{}", it.start_ns, it.end_ns, it.machine, it.state)).collect::<Vec<_>>().join(", ")
}
