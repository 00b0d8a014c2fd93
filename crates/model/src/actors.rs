//! Actors: the subjects of the events of a trace's programs. An actor is a thread, or another
//! subject that a trace or a rule names.
//!
//! The difference to a machine ([`crate::interaction::MachineId`]): an actor is a thread as the
//! tracer sees it, a machine is a thread as the analyses see it. A thread that executes another
//! program continues as another machine and remains the same actor.

use std::collections::HashMap;

/// An actor: an index into [`Actors::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActorId(pub u32);

/// A thread, and its names in the trace.
#[derive(Clone, Debug, Default)]
pub struct Actor {
    pub host: String,
    pub label: String,
    pub thread: String,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
}

/// All actors of a system.
#[derive(Clone, Debug, Default)]
pub struct Actors {
    all: Vec<Actor>,
    /// Actors that are new or renamed, in the order of the changes.
    changed: Vec<ActorId>,
}

/// The actors that occur in the requested part of a trace, and the number of steps that each does
/// there.
#[derive(Clone, Debug, Default)]
pub struct ActorSteps(Vec<Option<u64>>);

impl ActorSteps {
    /// Notes that the actor occurs, and adds `steps` to its number.
    #[inline]
    pub fn add(&mut self, actor: ActorId, steps: u64) {
        let at = actor.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        *self.0[at].get_or_insert(0) += steps;
    }

    /// True if the actor occurs, with or without steps.
    pub fn occurs(&self, actor: ActorId) -> bool {
        self.0.get(actor.0 as usize).is_some_and(Option::is_some)
    }

    /// True if the actor occurs with at least one step.
    pub fn acts(&self, actor: ActorId) -> bool {
        self.0.get(actor.0 as usize).copied().flatten().is_some_and(|steps| steps > 0)
    }
}

impl Actors {
    pub fn all(&self) -> &[Actor] {
        &self.all
    }

    pub fn get(&self, actor: ActorId) -> Option<&Actor> {
        self.all.get(actor.0 as usize)
    }

    pub fn next(&self) -> ActorId {
        ActorId(self.all.len() as u32)
    }

    pub fn add(&mut self, actor: Actor) -> ActorId {
        let id = self.next();
        self.all.push(actor);
        self.changed.push(id);
        id
    }

    /// Changes the names of an actor; an empty text leaves the name unchanged.
    pub fn rename(&mut self, actor: ActorId, label: &str, thread: &str) {
        let actor_names = &mut self.all[actor.0 as usize];
        let is_other = |known: &str, new: &str| !new.is_empty() && known != new;
        if !is_other(&actor_names.label, label) && !is_other(&actor_names.thread, thread) {
            return;
        }
        if !label.is_empty() {
            label.clone_into(&mut actor_names.label);
        }
        if !thread.is_empty() {
            thread.clone_into(&mut actor_names.thread);
        }
        self.changed.push(actor);
    }

    /// The changes after the first `sent` ones; sets `sent` to the number of all changes.
    pub(crate) fn since(&self, sent: &mut usize) -> Vec<(ActorId, Actor)> {
        let new = self.changed[*sent..].iter().map(|&id| (id, self.all[id.0 as usize].clone())).collect();
        *sent = self.changed.len();
        new
    }

    /// Applies changes of another `Actors`.
    pub(crate) fn learn(&mut self, changes: &[(ActorId, Actor)]) {
        for (id, actor) in changes {
            match self.all.get_mut(id.0 as usize) {
                Some(known) => known.clone_from(actor),
                // An actor that changed twice occurs twice, each time with its final names.
                None => _ = self.add(actor.clone()),
            }
        }
    }

    /// Names for people, one per actor, all different: the label; with the thread if several active
    /// threads have one label; with the thread id if that is still ambiguous.
    pub fn names(&self, met: &ActorSteps) -> Vec<String> {
        let mut active: HashMap<(&str, &str), usize> = HashMap::new();
        for (_, actor) in self.each().filter(|(id, _)| met.acts(*id)) {
            *active.entry((&actor.host, &actor.label)).or_default() += 1;
        }
        let several_hosts = self.several_hosts(met);
        let names: Vec<String> = self
            .each()
            .map(|(id, actor)| {
                let alone = active.get(&(actor.host.as_str(), actor.label.as_str())).copied().unwrap_or(0) <= 1;
                let mut name = match (actor.label.as_str(), actor.thread.as_str()) {
                    ("", "") => actor.tid.map_or_else(|| "unknown".to_owned(), |tid| format!("tid {tid}")),
                    ("", thread) => thread.to_owned(),
                    (label, "") => label.to_owned(),
                    (label, _) if alone && met.acts(id) => label.to_owned(),
                    (label, thread) => format!("{label}/{thread}"),
                };
                if several_hosts && !actor.host.is_empty() {
                    name = format!("{}:{name}", actor.host);
                }
                name
            })
            .collect();
        let mut count: HashMap<&str, usize> = HashMap::new();
        for (_, name) in self.each().zip(&names).filter(|((id, _), _)| met.occurs(*id)) {
            *count.entry(name).or_default() += 1;
        }
        names
            .iter()
            .enumerate()
            .map(|(at, name)| match (count.get(name.as_str()), self.all[at].tid) {
                (Some(1) | None, _) => name.clone(),
                (_, Some(tid)) => format!("{name}.{tid}"),
                (_, None) => format!("{name}.{at}"),
            })
            .collect()
    }

    /// Names that do not depend on the other actors, so that they are comparable between runs: the
    /// label, and the thread if it has a name of its own. Thread ids are not included, so threads
    /// of one program with equal names share one name.
    pub fn classes(&self, met: &ActorSteps) -> Vec<String> {
        let several_hosts = self.several_hosts(met);
        let class = |actor: &Actor| {
            let class = match (actor.label.as_str(), actor.thread.as_str()) {
                ("", "") => "unknown".to_owned(),
                ("", thread) => thread.to_owned(),
                (label, thread) if thread.is_empty() || thread == label => label.to_owned(),
                (label, thread) => format!("{label}/{thread}"),
            };
            if several_hosts && !actor.host.is_empty() {
                format!("{}:{class}", actor.host)
            } else {
                class
            }
        };
        self.all.iter().map(class).collect()
    }

    fn each(&self) -> impl Iterator<Item = (ActorId, &Actor)> {
        (0..).map(ActorId).zip(&self.all)
    }

    fn several_hosts(&self, met: &ActorSteps) -> bool {
        let mut hosts = self.each().filter(|(id, _)| met.occurs(*id)).map(|(_, actor)| actor.host.as_str());
        let first = hosts.next();
        hosts.any(|host| Some(host) != first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actors(all: &[(&str, &str, &str, i32)]) -> Actors {
        let mut actors = Actors::default();
        for &(host, label, thread, tid) in all {
            let [host, label, thread] = [host, label, thread].map(str::to_owned);
            actors.add(Actor { host, label, thread, pid: Some(tid), tid: Some(tid) });
        }
        actors
    }

    fn met(actors: &[(u32, u64)]) -> ActorSteps {
        let mut met = ActorSteps::default();
        actors.iter().for_each(|&(actor, steps)| met.add(ActorId(actor), steps));
        met
    }

    #[test]
    fn names_contain_the_host_if_actors_of_several_hosts_occur() {
        let actors = actors(&[("h1", "make", "", 1), ("h1", "use", "", 2), ("h2", "use", "", 3), ("", "clock", "", 4)]);
        let one_host = met(&[(0, 1), (1, 0)]);
        assert_eq!(actors.names(&one_host), ["make", "use", "use", "clock"]);
        assert_eq!(actors.classes(&one_host), ["make", "use", "use", "clock"]);
        let several = met(&[(0, 1), (2, 0)]);
        let expected = ["h1:make", "h1:use", "h2:use", "clock"];
        assert_eq!(
            (actors.names(&several), actors.classes(&several)),
            (expected.map(str::to_owned).to_vec(), expected.map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn a_name_contains_the_thread_and_its_id_only_if_the_label_is_ambiguous() {
        let actors = actors(&[("", "make", "main", 1), ("", "use", "a", 2), ("", "use", "b", 3), ("", "use", "b", 4), ("", "", "", 5)]);
        assert_eq!(actors.names(&met(&[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)])), ["make", "use/a", "use/b.3", "use/b.4", "tid 5"]);
        // Threads that do nothing do not make the label ambiguous.
        assert_eq!(actors.names(&met(&[(0, 1), (1, 1), (2, 0)]))[..3], ["make", "use", "use/b"]);
        assert_eq!(actors.classes(&met(&[])), ["make/main", "use/a", "use/b", "use/b", "unknown"]);
    }
}
