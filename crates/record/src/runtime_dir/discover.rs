//! Finds processes and their rings as they come and go, and writes the orders of each process.

use crate::error::Error;
use crate::mapping::Access;
use crate::recorder::{Recorder, Scope, Subject, TOKEN_PROCESS};
use crate::ring::sites::Sites;
use crate::ring::Ring;
use crate::runtime_dir::foreign::outer_pid;
use crate::runtime_dir::proc_status;
use crate::runtime_dir::process::{Process, Source, Verdict};
use crate::runtime_dir::session::{self, Responsibility};
use crate::runtime_dir::{classify, ring_name, Entry};
use rustix::event::epoll;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Limit of new rings per process and turn, because a damaged counter must not block the recorder.
const RINGS_A_TURN: u32 = 256;
/// Number of turns after which an announced ring file is no longer expected.
const PATIENCE: u32 = 100;
const MOST_RINGS: usize = 1 << 16;
/// Limit of new processes per turn. Each needs descriptors and memory of the recorder until its
/// rings are empty. After thousands of short processes, only this many are handled at a time.
const PROCESSES_A_TURN: usize = 256;

/// The rings of each process: (made by the process itself, number). Built once per listing, not
/// once per process, because thousands of processes may appear together.
type Rings<'a> = HashMap<&'a str, Vec<(bool, u32)>>;

fn rings_of(entries: &[(String, Entry)]) -> Rings<'_> {
    let mut rings: Rings = HashMap::new();
    for (_, entry) in entries {
        if let Entry::Ring { stem, number, own } = entry {
            rings.entry(stem).or_default().push((*own, *number));
        }
    }
    rings
}

impl Recorder {
    /// Removes files that dead processes left, and takes up the living ones. Runs before any order
    /// is published.
    pub(crate) fn tidy(&mut self) -> Result<(), Error> {
        // While no process can start, a control file that its process does not map has no owner. In
        // other users' directories nothing is removed, and no process there may block the recorder.
        // A recorder of a single process does not know whether another recorder uses the remaining
        // files.
        let own = self.place.elsewhere.is_none() && !self.is_alone();
        let quiet = if own { self.place.runtime.with_no_process_starting(|| self.place.runtime.entries()) } else { None };
        let done = quiet.is_some();
        if !done && own {
            self.diagnostic("the runtime directory was locked all the time; stale files were not removed".to_owned());
        }
        let entries = quiet.unwrap_or_else(|| self.place.runtime.entries()).map_err(Error::io("list", self.place.runtime.path()))?;
        if own {
            session::tidy(&self.place.runtime);
        }
        let rings = rings_of(&entries);
        let mut living = 0;
        let mut stems = Vec::new();
        for (name, entry) in &entries {
            match entry {
                // A living thread may be making its ring now.
                Entry::Temporary if done && !maker_lives(name) => self.place.runtime.remove(name),
                Entry::Control { stem, pid } if self.admit(name, stem, *pid, &rings, true) => {
                    stems.push(stem.clone());
                    living += usize::from(self.place.subjects.get(stem).is_none_or(|subject| !subject.ended));
                }
                _ => {}
            }
        }
        // A ring without a control file has no owner.
        for (name, entry) in &entries {
            if let Entry::Ring { stem, .. } = entry {
                if done && !stems.contains(stem) {
                    self.place.runtime.remove(name);
                }
            }
        }
        if living == 0 && done && self.place.subjects.is_empty() {
            // No process has the site table open, so the ids can start again. Otherwise the
            // programs that are built during a day would use up all ids.
            self.place.runtime.with_no_process_starting(|| {
                let runtime = &self.place.runtime;
                let nobody = runtime.entries().is_ok_and(|all| !all.iter().any(|(_, entry)| matches!(entry, Entry::Control { .. })))
                    && session::running(runtime).is_ok_and(|all| all.iter().all(|running| running.whose == Responsibility::All));
                if nobody {
                    self.place.runtime.remove("sites");
                }
            });
        }
        Ok(())
    }

    fn entries(&self) -> Result<Vec<(String, Entry)>, Error> {
        self.place.runtime.entries().map_err(Error::io("list", self.place.runtime.path()))
    }

    /// Takes up processes that appeared since the last call, at most [`PROCESSES_A_TURN`]; the next
    /// turn takes the others.
    pub(crate) fn scan(&mut self) -> Result<(), Error> {
        self.scan_for(PROCESSES_A_TURN)
    }

    fn scan_for(&mut self, most: usize) -> Result<(), Error> {
        let entries = self.entries()?;
        let is_new = |stem: &String| !self.place.subjects.contains_key(stem) && !self.place.unknown.contains(stem);
        if entries.iter().any(|(_, entry)| matches!(entry, Entry::Control { stem, .. } if is_new(stem))) {
            self.look_at_sites();
        }
        let rings = rings_of(&entries);
        let (mut foreign, mut taken) = (0, 0);
        // A tmpfs lists the newest file first. Reading backwards keeps old processes from waiting
        // for newer ones.
        for (name, entry) in entries.iter().rev() {
            match entry {
                Entry::Control { stem, pid } if !self.place.subjects.contains_key(stem) && !self.place.unknown.contains(stem) => {
                    if taken == most {
                        self.directory_changed = true;
                        continue;
                    }
                    self.admit(name, stem, *pid, &rings, false);
                    // Entries that are no process of this recorder appear again in the next turn,
                    // and must not use up the limit.
                    taken += usize::from(self.place.subjects.contains_key(stem));
                }
                Entry::Foreign => foreign += 1,
                _ => {}
            }
        }
        if foreign > 0 {
            self.diagnostic(format!("{foreign} files in the runtime directory are none of its layout and were left alone"));
        }
        Ok(())
    }

    /// Takes up the processes whose control files the watch has reported. Listing the whole
    /// directory for each new process would take longer and longer, and would wait for the
    /// directory's lock, which starting processes hold while they wait for a CPU.
    pub(crate) fn take_up_reported(&mut self) {
        if self.place.heard.is_empty() {
            return;
        }
        let mut names = std::mem::take(&mut self.place.heard);
        self.place.heard = names.split_off(names.len().min(PROCESSES_A_TURN));
        self.look_at_sites();
        for name in names {
            match classify(&name) {
                Entry::Control { stem, pid } if !self.place.subjects.contains_key(&stem) && !self.place.unknown.contains(&stem) => {
                    // The control file holds the number of rings, so none need be listed.
                    self.admit(&name, &stem, pid, &Rings::new(), false);
                }
                _ => {}
            }
        }
    }

    /// Returns whether a file with two names may soon have only one; the file is then looked at
    /// again.
    fn is_being_named(&mut self, name: &str, stem: &str) -> bool {
        if self.place.awaiting_final_name.len() >= MOST_RINGS {
            return false;
        }
        let looks = self.place.awaiting_final_name.entry(stem.to_owned()).or_insert(0);
        *looks += 1;
        if *looks >= PATIENCE {
            return false;
        }
        self.place.heard.push(name.to_owned());
        self.last_birth = Instant::now();
        true
    }

    /// Uses the current site table, because new processes use it.
    fn look_at_sites(&mut self) {
        if self.place.sites.as_ref().is_some_and(|sites| sites.is_replaced(&self.place.runtime)) {
            self.learn_sites();
            self.diagnostic(
                "the site table was replaced while programs used it; events of sites that they met since are left out".to_owned(),
            );
            // Older programs add sites that they reach from now on to a table that can no longer be
            // read.
            self.place.classes.invalid = true;
            self.place.sites = Sites::open(&self.place.runtime).ok().flatten();
            if let Some(sites) = &mut self.place.sites {
                sites.is_second = true;
            }
        }
    }

    /// Takes up the process of a control file. `before`: the file existed before this recording.
    /// Returns false if the process is gone and its files have no owner.
    fn admit(&mut self, name: &str, stem: &str, pid: i32, rings: &Rings, before: bool) -> bool {
        let mut process = match Process::open(&self.place.runtime, name, stem, pid, Access::Write) {
            Ok(process) => process,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return false,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && self.is_being_named(name, stem) => return true,
            Err(error) => {
                self.diagnostic(format!("{name} was ignored: {error}"));
                return false;
            }
        };
        if self.place.elsewhere.is_some() || self.search.pid_namespaces {
            // In another pid namespace, the process knows itself by another pid.
            match outer_pid(pid, |pid| process.maps_as(pid)) {
                Some(outer) => process.is_known_as(outer),
                // A process that has this pid here is a different one.
                None if self.place.elsewhere.is_some() => process.is_known_as(-pid),
                None => {}
            }
        }
        // For an old control file, the process may have ended and its pid may belong to another
        // process. A new process may not have mapped its file yet, so only the pid is checked.
        let lives = if before { process.lives() } else { process.handle_lives() };
        let continued = self
            .predecessor
            .as_ref()
            .is_some_and(|predecessor| process.control().orders.session.load(Ordering::Relaxed) == predecessor.session);
        if !lives && before && !continued && self.place.elsewhere.is_some() {
            // Whether the process is alive cannot be seen from this namespace.
            self.place.unknown.insert(stem.to_owned());
            return true;
        }
        let strange = self.options.scope.alone().is_some_and(|wanted| wanted != process.pid);
        if !lives && !continued && (strange || process.is_taken() || self.is_of_another_command(&process)) {
            // The recorder that holds the process takes its last events and removes its files.
            return true;
        }
        if !lives && before && !continued {
            drop(process);
            self.remove_files(name, stem, rings);
            return false;
        }
        if before {
            process.forget_refused();
        } else {
            self.last_birth = Instant::now();
            self.suspect_exec(process.pid);
        }
        if let Some(handle) = &process.handle {
            let _ = epoll::add(
                &self.epoll,
                handle,
                epoll::EventData::new_u64(TOKEN_PROCESS),
                epoll::EventFlags::IN | epoll::EventFlags::ONESHOT,
            );
        }
        self.total.processes += 1;
        let mut subject = Subject {
            process,
            sources: Vec::new(),
            wanted: false,
            claimed: false,
            reported_as_held: false,
            next_claim_attempt: None,
            silent_turns: 0,
            order: Default::default(),
            buffer: None,
            ended: !lives,
            ignored: Vec::new(),
            turns_dead: 0,
        };
        self.decide(&mut subject);
        if self.claim(&mut subject) {
            self.take_rings(&mut subject, rings, before, continued);
        }
        self.place.subjects.insert(stem.to_owned(), subject);
        true
    }

    /// Opens the existing rings of a process.
    fn take_rings(&mut self, subject: &mut Subject, rings: &Rings, before: bool, continued: bool) {
        let mut rings = rings.get(subject.process.stem.as_str()).cloned().unwrap_or_default();
        rings.sort_unstable();
        for (own, number) in rings.iter().copied() {
            if !own {
                subject.process.next_successor = subject.process.next_successor.max(number.saturating_add(1));
            }
            // A ring that is just getting its name, and the rings after it, are taken at the next
            // visit of the process.
            if !self.take_ring(subject, number, own, before, continued) && own {
                break;
            }
            subject.process.rings_seen = if own { number.saturating_add(1) } else { 0 };
        }
        join_successors(&mut subject.sources);
    }

    /// Opens a ring and skips the events in it that were written before this recording. Returns
    /// false if the file does not exist yet.
    fn take_ring(&mut self, subject: &mut Subject, number: u32, own: bool, before: bool, continued: bool) -> bool {
        let name = ring_name(&subject.process.stem, number, own);
        if subject.sources.len() >= MOST_RINGS {
            self.diagnostic(format!("{}: more than {MOST_RINGS} rings; the others are not read", subject.process.stem));
            return true;
        }
        let mut ring = match Ring::open(&self.place.runtime, &name, number, own, Access::Write) {
            Ok(ring) => ring,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ResourceBusy) => return false,
            Err(error) => {
                self.diagnostic(format!("{name} was ignored: {error}"));
                if subject.ignored.len() < MOST_RINGS {
                    subject.ignored.push(name);
                }
                return true;
            }
        };
        if continued {
            if let Some(predecessor) = &self.predecessor {
                predecessor.settle(&mut ring);
            }
        }
        let mut source = Source::new(ring);
        if before && !continued {
            self.skip_leftovers(&mut source);
        }
        if source.ring.clock != self.clock.source.number() && !source.broken {
            source.broken = true;
            self.diagnostic(format!("{name} was ignored: its times are of another clock than this recording's"));
        }
        source.ring.layout().session.store(self.session, Ordering::Relaxed);
        source.ring.layout().lane.store(0, Ordering::Relaxed);
        subject.sources.push(source);
        true
    }

    /// Skips events that a thread wrote after the previous recording had ended: too late for that
    /// recording and too early for this one. They are counted as lost in this one.
    fn skip_leftovers(&mut self, source: &mut Source) {
        let Ok(mut look) = source.ring.look() else { return };
        look.last = look.last.or(Some(0));
        self.learn_sites();
        let mut events = 0;
        if source.ring.overwrites {
            // The thread itself counts the events of such a ring.
            events = look.events.saturating_sub(source.ring.taken);
            source.ring.taken = look.events;
            source.ring.tail = look.head;
        }
        while let Ok(Some(chunk)) = source.ring.next(&look, 0, true) {
            let mut bytes = std::mem::take(&mut self.scratch);
            let counted = if source.ring.copy(&chunk, &mut bytes) { self.place.classes.count(&bytes) } else { Err(1) };
            self.scratch = bytes;
            events += counted.unwrap_or_else(|least| least);
            if counted.is_err() {
                self.diagnostic(format!("{}: more events were left from an earlier recording than are counted as lost", source.ring.name));
            }
            source.ring.tail = chunk.tail;
        }
        let reported = source.ring.reported;
        source.ring.release(look.head.max(source.ring.tail), reported);
        source.extra_lost = events;
    }

    /// A new control file with the pid of a known process: the known process has executed another
    /// program.
    fn suspect_exec(&mut self, pid: i32) {
        for subject in self.place.subjects.values_mut().filter(|subject| subject.process.pid == pid) {
            subject.ended |= subject.process.maps() == Some(false);
        }
    }

    fn remove_files(&self, control: &str, stem: &str, rings: &Rings) {
        for (own, number) in rings.get(stem).into_iter().flatten() {
            self.place.runtime.remove(&ring_name(stem, *number, *own));
        }
        self.place.runtime.remove(control);
    }

    /// Decides whether and how a process is recorded. The next visit writes the orders.
    fn decide(&mut self, subject: &mut Subject) {
        let pid = subject.process.pid;
        subject.wanted = match self.options.scope {
            Scope::Everything => true,
            Scope::Process(wanted) => pid == wanted,
            Scope::Descendants => match self.ancestor {
                // The command has not been started yet.
                None => false,
                // A process that has ended may have stored its recording's number; for a process
                // that cleared its environment, the chain of parents decides.
                Some(ancestor) => subject.process.scope() == self.session || proc_status::descends(pid, ancestor),
            },
        };
        (subject.order, subject.buffer) = self.order_for(&subject.process.label, subject.process.pid, subject.wanted);
        for source in &mut subject.sources {
            source.verdict = Verdict::Open;
        }
    }

    /// Decides again about all processes after a change of the configuration or the selection.
    pub(crate) fn decide_again(&mut self) {
        let mut subjects = std::mem::take(&mut self.place.subjects);
        for subject in subjects.values_mut() {
            (subject.order, subject.buffer) = self.order_for(&subject.process.label, subject.process.pid, subject.wanted);
            for source in &mut subject.sources {
                source.verdict = Verdict::Open;
            }
        }
        self.place.subjects = subjects;
    }

    /// Writes orders, reads changed labels, and takes up new rings of all processes.
    pub(crate) fn visit(&mut self) {
        let mut subjects: HashMap<String, Subject> = std::mem::take(&mut self.place.subjects);
        for subject in subjects.values_mut() {
            if subject.process.refresh_label() {
                self.decide(subject);
                for source in &subject.sources {
                    if let Some(lane) = source.lane.and_then(|lane| self.lanes[lane].as_mut()) {
                        lane.set_label(&subject.process.label);
                    }
                }
            }
            if !subject.claimed && (subject.order.mask == 0 || subject.ended || !self.take_up(subject)) {
                continue;
            }
            subject.order.apply(&subject.process.control().orders);
            self.leave_if_silent(subject);
            if !subject.claimed {
                continue;
            }
            let rings = subject.process.control().rings.load(Ordering::Acquire);
            // A process that has ended gets no further turn.
            let a_turn = if subject.ended { MOST_RINGS as u32 } else { RINGS_A_TURN };
            let most = subject.process.rings_seen.saturating_add(a_turn);
            while subject.process.rings_seen < rings.min(most) {
                let number = subject.process.rings_seen;
                if !self.take_ring(subject, number, true, false, false) {
                    subject.process.missing += 1;
                    if subject.process.missing < PATIENCE {
                        break;
                    }
                    // One text for all rings of the process, because the number of different
                    // diagnostics is limited.
                    self.diagnostic(format!("{}: a ring that it announced is not there", subject.process.stem));
                    // Later missing rings of this process are given up at once.
                    subject.process.missing = PATIENCE - 1;
                } else {
                    subject.process.missing = 0;
                }
                subject.process.rings_seen += 1;
            }
        }
        self.place.subjects = subjects;
    }

    /// Takes up a process that another recorder held before, or that was not selected before.
    fn take_up(&mut self, subject: &mut Subject) -> bool {
        if !self.claim(subject) {
            return false;
        }
        subject.process.forget_refused();
        let entries = self.entries().unwrap_or_default();
        self.take_rings(subject, &rings_of(&entries), false, false);
        true
    }

    /// Withdraws all orders and waits until no probe is writing any more.
    pub(crate) fn quiet(&mut self) {
        self.place.held.quiet();
        // A process that is starting has read the old orders, but then its control file exists
        // before this lock is granted.
        let settled = self.place.runtime.with_no_process_starting(|| ()).is_some();
        if !settled || self.scan_for(usize::MAX).is_err() {
            self.diagnostic("a process may have been born too late to be told that the recording ended".to_owned());
        }
        for subject in self.place.subjects.values_mut().filter(|subject| subject.claimed) {
            subject.order.mask = 0;
            subject.order.apply(&subject.process.control().orders);
        }
        self.mark_dead();
        barrier();
        let deadline = Instant::now() + Duration::from_millis(50);
        let busy = |subject: &Subject| {
            let at_work = |source: &Source| source.ring.layout().busy.load(Ordering::Acquire) != 0;
            !subject.ended && subject.sources.iter().any(at_work)
        };
        while self.place.subjects.values().any(busy) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(200));
        }
        // Takes up rings that were made until now.
        self.visit();
    }
}

/// Attaches each ring that a recorder made to the ring that names it.
fn join_successors(sources: &mut Vec<Source>) {
    let mut at = 0;
    while at < sources.len() {
        let successor = sources[at].ring.layout().successor.load(Ordering::Relaxed);
        let next = successor
            .checked_sub(1)
            .and_then(|number| sources.iter().position(|source| !source.ring.own && source.ring.number == number && source.ring.tail == 0));
        match next {
            Some(next) if next != at && sources[next].successor.is_none() => {
                let taken = sources.remove(next);
                let at_now = if next < at { at - 1 } else { at };
                sources[at_now].successor = Some(taken.ring);
                at = at_now + 1;
            }
            _ => at += 1,
        }
    }
}

/// Makes all stores visible that other CPUs have not published yet.
fn barrier() {
    const GLOBAL: libc::c_int = 1;
    // SAFETY: takes no memory. If the system call is missing, the bounded wait that follows
    // replaces it.
    unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
}

/// Returns whether the thread that makes the temporary file `.new-<tid>-<counter>` is alive.
fn maker_lives(name: &str) -> bool {
    let tid = name.strip_prefix(".new-").and_then(|rest| rest.split('-').next()).and_then(|tid| tid.parse::<u32>().ok());
    tid.is_some_and(|tid| std::path::Path::new("/proc").join(tid.to_string()).exists())
}
