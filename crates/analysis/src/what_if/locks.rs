//! Locks: queues of one unit that is there from the begin. In a world where somebody comes sooner than in the trace, it gets the lock before those who come later there.

use super::at_once::AtOnce;
use super::lanes::{Layout, KEPT};
use super::line::{Clients, Line, Waits};
use longpole_model::interaction::MachineId;

#[derive(Debug)]
pub struct Lock {
    /// Two of each scenario, as in [`Layout::of`].
    pub lines: Vec<Line>,
    clients: Clients,
    /// Who had it last, and when it came, in the unchanged world.
    pub by: Option<MachineId>,
    came: f64,
    /// Somebody had it before another one who came sooner: it has an order of its own.
    chooses: bool,
    /// Several may have it in some scenarios.
    pub at_once: AtOnce,
}

impl Lock {
    pub fn new(layout: Layout, at_once: AtOnce) -> Lock {
        Lock {
            at_once,
            lines: vec![Line::default(); 2 * layout.scenarios],
            clients: Clients::default(),
            by: None,
            came: 0.0,
            chooses: false,
        }
    }

    /// A machine that was ready at `own` gets the lock; `v` is when it would have it in its turn, and becomes when it has it. Told are the lanes in which that is sooner.
    pub fn is_got(&mut self, machine: MachineId, layout: Layout, own: &[f64], v: &mut [f64], most: usize, mut sooner: impl FnMut(usize)) {
        let client = self.clients.number(machine);
        self.by = Some(machine);
        self.chooses |= own[KEPT] < self.came;
        self.came = own[KEPT];
        for (lane, begin) in self.at_once.begins(|lane| own[lane], |lane| v[lane]) {
            if begin < v[lane] {
                sooner(lane);
            }
            v[lane] = begin;
        }
        if self.chooses {
            return;
        }
        for (at, line) in self.lines.iter_mut().enumerate() {
            let lane = layout.of(at / 2)[at % 2];
            if self.at_once.is_of(lane) {
                continue;
            }
            let begin = line.takes(client, own[lane], own[lane], v[lane], Waits::Done, most);
            if begin < v[lane] {
                sooner(lane);
            }
            v[lane] = begin;
        }
    }

    /// The machine gives it back at `v`, which becomes the time from which on others have it in their turn.
    pub fn put(&mut self, machine: MachineId, layout: Layout, v: &mut [f64]) {
        self.at_once.ends(v);
        if self.chooses {
            return;
        }
        let client = self.clients.number(machine);
        for (at, line) in self.lines.iter_mut().enumerate() {
            let lane = layout.of(at / 2)[at % 2];
            if self.at_once.is_of(lane) {
                continue;
            }
            v[lane] = line.ends(client, v[lane], Waits::Done);
        }
    }
}
