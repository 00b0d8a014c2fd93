//! Verdicts on a part of the run in which one process runs after another, next to a part in which
//! several run at a time: configuring before a parallel build, linking after it.

use crate::verdict::data::because::Because;
use crate::verdict::data::{Mechanism, Outcome, Verdict};
use crate::verdict::parts::Part;
use crate::verdict::Case;
use longpole_model::interaction::MachineId;

impl Case<'_> {
    /// Judges a part of the run in which one program at a time runs, if several run at a time in
    /// another part.
    pub(in crate::verdict) fn by_serial_step(&self) -> Option<Verdict> {
        if self.cpus.count < 2 || self.anchor.is_some() {
            return None;
        }
        let (start, end) = (self.answer.start_ns, self.answer.end_ns);
        let within: Vec<((u64, u64), f64)> = self.traffic.running().filter(|((from, to), _)| *from >= start && *to <= end).collect();
        let is_serial = |running: f64| running <= 1.0 + self.limits.considerable_share && running >= self.limits.majority;
        let share = |is_meant: &dyn Fn(f64) -> bool| {
            let ns: u64 = within.iter().filter(|(_, running)| is_meant(*running)).map(|((from, to), _)| to - from).sum();
            ns as f64 / (end - start).max(1) as f64
        };
        let (serial, parallel) = (share(&is_serial), share(&|running| running >= 1.0 + self.limits.majority));
        if serial < self.limits.min_share || parallel < self.limits.considerable_share {
            return None;
        }
        let parts_of = |is_meant: &dyn Fn(f64) -> bool| -> Vec<(u64, u64)> {
            within.iter().filter(|(_, running)| is_meant(*running)).map(|(part, _)| *part).collect()
        };
        let (parts, context) = (parts_of(&is_serial), parts_of(&|running| running >= 1.0 + self.limits.majority));
        let all: u64 = parts.iter().map(|(from, to)| to - from).sum();
        // The process whose lifetime best matches that part of the run.
        let likeness = |machine: MachineId| {
            let own = self.traffic.own(machine).filter(|own| own.forks > 0)?;
            let (first, last) = (own.first_ns?, own.last_ns);
            let within =
                |parts: &[(u64, u64)]| -> u64 { parts.iter().map(|(from, to)| last.min(*to).saturating_sub(first.max(*from))).sum() };
            // A process that lives while several run is not a step for which they wait.
            let length: u64 = context.iter().map(|(from, to)| to - from).sum();
            if within(&context) as f64 > self.limits.considerable_share * length as f64 {
                return None;
            }
            let both = within(&parts);
            let either = all + (last - first) - both.min(last - first);
            Some(both as f64 / either.max(1) as f64)
        };
        let own = self.vocabulary.machines().filter_map(|machine| {
            let subject = self.subjects.known(self.vocabulary.machine_name(machine))?;
            self.subjects.get(subject).is_of_command.then_some((machine, subject))
        });
        let best = own.filter_map(|(machine, subject)| Some((likeness(machine)?, machine, subject)));
        let (likeness, machine, subject) = best.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
        if likeness < self.limits.majority {
            return None;
        }
        let running: f64 =
            within.iter().filter(|(_, running)| is_serial(*running)).map(|((from, to), running)| running * (to - from) as f64).sum();
        let idle = 1.0 - running / all.max(1) as f64 / self.cpus.count as f64;
        let step = self.name(subject, Some(self.vocabulary.machine_name(machine)));
        let mut verdict = self.without_subject(Outcome::Bottleneck);
        verdict.subject = Some(step.clone());
        verdict.set_exact_share(serial);
        verdict.mechanism = Some(Mechanism::SerialStep);
        let is_most = |part: &&Part| {
            part.subject != subject && part.does.is_work() && part.share >= self.limits.majority * serial && part.share <= serial
        };
        let most = self.parts.parts.iter().find(is_most).map(|part| self.runner_up(part));
        verdict.because.push(Because::SerialStep { step, share: serial, idle, most });
        Some(verdict)
    }
}
