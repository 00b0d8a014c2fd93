//! The work on CPUs of machines that have stopped and are forgotten.

use super::cpus::Host;
use super::replayed_machine::ReplayedMachine;
use crate::what_if::worlds::time_vector;
use longpole_model::hash::IdMap;

/// The forgotten machines of one host and group: their work on CPUs, and the time at which the last
/// of it was done.
#[derive(Debug)]
pub struct Forgotten {
    pub worked: Box<[f64]>,
    pub until: Box<[f64]>,
}

/// The work of forgotten machines, by their host and by a machine of their group.
#[derive(Debug, Default)]
pub struct ForgottenWork(IdMap<(Host, u32), Forgotten>);

impl ForgottenWork {
    /// Adds the work of a machine that is about to be forgotten.
    pub fn add(&mut self, host: Host, group: u32, machine: &ReplayedMachine) {
        if machine.cpu.worked.is_empty() || machine.is_recorder {
            return;
        }
        let lanes = machine.v.len();
        let none = || Forgotten { worked: vec![0.0; lanes].into(), until: vec![0.0; lanes].into() };
        let gone = self.0.entry((host, group)).or_insert_with(none);
        time_vector::add_all(&mut gone.worked, &machine.cpu.worked);
        time_vector::later(&mut gone.until, &machine.v, 0.0);
    }

    pub fn iter(&self) -> impl Iterator<Item = (Host, u32, &Forgotten)> {
        self.0.iter().map(|(&(host, group), forgotten)| (host, group, forgotten))
    }
}
