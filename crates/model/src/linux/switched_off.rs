//! Event classes that the recorder switched off because more events came than it could store. From
//! then on these classes show nothing, and anything that was in progress has no recorded end.
//!
//! System calls that were entered before are therefore forgotten, and so are packets and work
//! items. The states of CPUs, threads and interrupts remain known. Events of these classes that
//! still arrive were recorded around the moment of the change and are ignored: an entry of a call
//! among them would have no return.

use super::{ClassPlan, Linux};
use crate::linux::kernel_rules::ClassTopic;
use crate::linux::watch::{Base, CpuId, Mode, Moment, ThreadState, Watch};
use crate::rules::Pattern;
use longpole_trace::event::{Catalogue, Class};

/// Maximum number of remembered changes, more than a recorder makes.
const MAX_CHANGES: usize = 64;

/// Event classes that are missing from a time on.
#[derive(Clone, Debug)]
pub struct SwitchedOff {
    pub t_ns: i64,
    /// Description for people.
    pub what: String,
    classes: Vec<Pattern>,
}

/// All classes that the recorder switched off.
#[derive(Debug, Default)]
pub(super) struct Missing {
    pub all: Vec<SwitchedOff>,
    /// System calls that are still recorded; `None` if all are recorded.
    calls: Option<Vec<String>>,
}

impl Missing {
    fn has(&self, class: &Class) -> bool {
        self.all.iter().any(|off| off.classes.iter().any(|pattern| pattern.captures(&class.event_name).is_some()))
    }
}

impl Linux {
    /// The switched-off classes, in the order of time.
    pub fn switched_off(&self) -> &[SwitchedOff] {
        &self.missing.all
    }

    /// The time of the first kernel event.
    pub fn begin_ns(&self) -> Option<i64> {
        self.begin_ns
    }

    /// True if no system calls are recorded any more.
    pub(super) fn misses_calls(&self) -> bool {
        self.missing.calls.as_ref().is_some_and(Vec::is_empty)
    }

    /// Removes from the plan what needs classes that are switched off.
    pub(super) fn without_missing(&self, class: &Class, plan: ClassPlan) -> ClassPlan {
        if self.missing.all.is_empty() {
            return plan;
        }
        let is_recorded = plan.kernel.as_ref().is_none_or(|kernel| match kernel.subject() {
            ClassTopic::Calls(name) => self.missing.calls.as_ref().is_none_or(|calls| {
                let name = name.map_or("", |name| self.names.text(name));
                calls.iter().any(|call| call == name)
            }),
            ClassTopic::Works | ClassTopic::Other => !self.missing.has(class),
        });
        let hops = plan.hop.filter(|_| !self.missing.has(class));
        ClassPlan { kernel: plan.kernel.filter(|_| is_recorded), hop: hops, ..plan }
    }

    /// Processes the recorder's note that it switched off classes `ago_ns` before `t_ns`.
    #[cold]
    pub(super) fn switch_off<W: Watch + ?Sized>(
        &mut self,
        catalogue: &Catalogue,
        (t_ns, ago_ns): (i64, i64),
        (what, classes, calls): (&[u8], &[u8], &[u8]),
        watch: &mut W,
    ) {
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let what = String::from_utf8_lossy(what).into_owned();
        // Each part of a recording repeats what was switched off before it.
        if self.missing.all.len() >= MAX_CHANGES || self.missing.all.iter().any(|known| known.what == what) {
            return;
        }
        let off = SwitchedOff {
            t_ns: t_ns.saturating_sub(ago_ns),
            what,
            classes: words(classes).iter().map(|name| Pattern::new(name)).collect(),
        };
        let (mut packets, mut works, mut of_calls) = (false, false, false);
        let is_off = |class: &&Class| off.classes.iter().any(|pattern| pattern.captures(&class.event_name).is_some());
        for class in catalogue.classes.iter().filter(is_off) {
            packets |= self.classes.hop_rules.compile(class).is_some();
            match self.classes.rules.compile(class, &mut self.names).map(|kernel| kernel.subject()) {
                Some(ClassTopic::Calls(_)) => of_calls = true,
                Some(ClassTopic::Works) => works = true,
                Some(ClassTopic::Other) | None => {}
            }
        }
        self.missing.all.push(off);
        if of_calls {
            self.missing.calls = Some(words(calls));
            self.forget_calls(t_ns, watch);
        }
        self.classes.plans.clear();
        if packets || works {
            watch.moment(Moment::SwitchedOff { packets, works });
        }
    }

    /// Forgets the calls of which no return will be recorded.
    fn forget_calls<W: Watch + ?Sized>(&mut self, t_ns: i64, watch: &mut W) {
        // Until now the threads were in their calls.
        for cpu in 0..self.cpus.len() {
            self.report_cpu_until(CpuId(cpu as u32), t_ns, watch);
            self.cpus[cpu].unclaimed.mode = None;
        }
        self.masks.open.clear();
        for thread in &mut self.threads {
            let is_recorded = |name: &str| self.missing.calls.as_ref().is_some_and(|calls| calls.iter().any(|call| call == name));
            if thread.call.is_none_or(|call| !is_recorded(self.names.text(call.name))) {
                (thread.mode, thread.call) = (Mode::Unknown, None);
            }
        }
        for cpu in 0..self.cpus.len() {
            if let Base::Thread(thread) = self.cpus[cpu].base {
                if self.threads[thread.0 as usize].state == ThreadState::Running {
                    watch.moment(Moment::Mode { thread });
                }
            }
        }
    }
}
