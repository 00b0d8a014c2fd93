//! Who the events of a trace's programs are of: threads, or whatever a trace or a rule names in
//! their place.
//!
//! An actor is what the tracer calls a thread; a machine ([`crate::interaction::MachineId`]) is
//! what the analyses call one. A thread that executes another program goes on as another machine
//! and stays the same actor.

use std::collections::HashMap;

/// Index into [`Actors::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActorId(pub u32);

/// A thread, and what the trace calls it.
#[derive(Clone, Debug, Default)]
pub struct Actor {
    pub host: String,
    pub label: String,
    pub thread: String,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
}

#[derive(Clone, Debug, Default)]
pub struct Actors {
    all: Vec<Actor>,
    /// Those that are new, or are called something else, in the order of the changes.
    changed: Vec<ActorId>,
}

/// Which actors occur in the part of a trace that is asked for, and how many steps each does there.
#[derive(Clone, Debug, Default)]
pub struct Met(Vec<Option<u64>>);

impl Met {
    /// The actor occurs, with so many more steps.
    #[inline]
    pub fn add(&mut self, actor: ActorId, steps: u64) {
        let at = actor.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        *self.0[at].get_or_insert(0) += steps;
    }

    pub fn is_met(&self, actor: ActorId) -> bool {
        self.0.get(actor.0 as usize).is_some_and(Option::is_some)
    }

    /// It does something, too.
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

    /// The trace calls it so from now on; an empty text says nothing.
    pub fn rename(&mut self, actor: ActorId, label: &str, thread: &str) {
        let place = &mut self.all[actor.0 as usize];
        let is_other = |known: &str, new: &str| !new.is_empty() && known != new;
        if !is_other(&place.label, label) && !is_other(&place.thread, thread) {
            return;
        }
        if !label.is_empty() {
            label.clone_into(&mut place.label);
        }
        if !thread.is_empty() {
            thread.clone_into(&mut place.thread);
        }
        self.changed.push(actor);
    }

    /// What changed beyond so many changes, which are all then.
    pub(crate) fn since(&self, told: &mut usize) -> Vec<(ActorId, Actor)> {
        let new = self.changed[*told..].iter().map(|&id| (id, self.all[id.0 as usize].clone())).collect();
        *told = self.changed.len();
        new
    }

    /// Changes of another one's.
    pub(crate) fn learn(&mut self, changes: &[(ActorId, Actor)]) {
        for (id, actor) in changes {
            match self.all.get_mut(id.0 as usize) {
                Some(known) => known.clone_from(actor),
                // One that changed twice is told as it is in the end, each time.
                None => _ = self.add(actor.clone()),
            }
        }
    }

    /// Names for people, one per actor and each different: the label; with the thread where one
    /// label has several active threads; with the tid where that is still not enough.
    pub fn names(&self, met: &Met) -> Vec<String> {
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
        for (_, name) in self.each().zip(&names).filter(|((id, _), _)| met.is_met(*id)) {
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

    /// What an actor is called whatever else runs, and in another run, too: the label, with the
    /// thread where that has a name of its own. Numbers of threads are no part of it, so that
    /// actors of one program have one.
    pub fn classes(&self, met: &Met) -> Vec<String> {
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

    fn several_hosts(&self, met: &Met) -> bool {
        let mut hosts = self.each().filter(|(id, _)| met.is_met(*id)).map(|(_, actor)| actor.host.as_str());
        let first = hosts.next();
        hosts.any(|host| Some(host) != first)
    }
}
