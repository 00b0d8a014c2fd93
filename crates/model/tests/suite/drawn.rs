//! The interactions that the composer makes of events, one line each: the time in ns, the machine,
//! and what it does. Shapes of queues, classes of machines and the end of the path are left out.

use longpole_model::causes::{About, Composer};
use longpole_model::interaction::{Cause, Effect, Interaction, MachineId, Vocabulary};
use longpole_testing::kernel::{each_interaction, Kernel};

/// The lines of all interactions.
pub struct Drawn(pub Vec<String>);

impl Drawn {
    /// The lines of a machine, without its name and without the line that it exists.
    pub fn of(&self, machine: &str) -> String {
        let of_machine = |line: &String| {
            let (t, rest) = line.split_once(' ')?;
            let what = rest.strip_prefix(machine)?.strip_prefix(' ').filter(|what| *what != "exists")?;
            Some(format!("{t} {what}"))
        };
        self.0.iter().filter_map(of_machine).collect::<Vec<_>>().join(", ")
    }

    /// True if there is such a line.
    pub fn has(&self, line: &str) -> bool {
        self.0.iter().any(|known| known == line)
    }
}

pub fn draw(kernel: &Kernel) -> Drawn {
    draw_with(kernel, &mut Composer::built_in(About::default()).unwrap())
}

pub fn draw_with(kernel: &Kernel, composer: &mut Composer) -> Drawn {
    let mut lines = Vec::new();
    each_interaction(kernel, composer, |vocabulary, interaction| lines.extend(line(vocabulary, interaction)));
    Drawn(lines)
}

fn line(vocabulary: &Vocabulary, interaction: &Interaction) -> Option<String> {
    let name = |machine: MachineId| vocabulary.machine_name(machine);
    let text = |id| vocabulary.names.text(id);
    let cause_text = |cause: Cause| {
        let at = cause.at.map_or_else(String::new, |at| format!(" at {at}"));
        let link = cause.link.map_or_else(String::new, |link| format!(" through {}", text(link)));
        format!("{}{at}{link}", name(cause.by))
    };
    let (machine, what) = match interaction.effect {
        Effect::Now | Effect::Declare { .. } | Effect::Class { .. } | Effect::End { .. } => return None,
        Effect::Here { machine } => (machine, "exists".to_owned()),
        Effect::Remember { machine } => (machine, "is remembered".to_owned()),
        Effect::Fork { machine, cause } => (machine, format!("begins by {}", cause_text(cause))),
        Effect::State { machine, state } => (machine, format!("is {}", text(state))),
        Effect::Block { machine, why, .. } => (machine, format!("waits for {}", text(why))),
        Effect::Put { machine, queue, n, .. } => (machine, format!("puts {n} into {}", vocabulary.queue_name(queue))),
        Effect::Get { machine, queue, .. } => (machine, format!("gets from {}", vocabulary.queue_name(queue))),
        Effect::Peek { machine, queue, .. } => (machine, format!("peeks into {}", vocabulary.queue_name(queue))),
        Effect::Reserve { machine, queue, n } => (machine, format!("reserves {n} of {}", vocabulary.queue_name(queue))),
        Effect::Wake { machine, cause } => (machine, format!("is woken by {}", cause.map_or_else(|| "?".to_owned(), cause_text))),
        Effect::Push { machine, below, .. } => (machine, format!("begins on top of {}", below.map_or("nothing", name))),
        Effect::Pop { machine } => (machine, "ends".to_owned()),
        Effect::Stop { machine } => (machine, "stops".to_owned()),
    };
    Some(format!("{} {} {what}", interaction.t, name(machine)))
}
