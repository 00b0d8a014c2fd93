//! A report on one trace, whose events are read once. Every item goes to the composer, whose
//! interactions yield the critical path, and to the analyses of probes, packets and the kernel.
//!
//! The steps are [`ReportPass::read`], [`ReportPass::second_pass`] and [`EventAnswers::report`].
//! Between the last two, the caller may read the samples of stacks ([`crate::pipeline::samples`]):
//! they need the path.

use crate::critical_path::cpu_holders::OccupancyLog;
use crate::findings::kernel_facts::KernelFacts;
use crate::network::packet_loss::Places;
use crate::network::packet_paths::PacketPaths;
use crate::network::packet_rows;
use crate::network::packets::Packets;
use crate::pipeline::kernel::KernelModel;
use crate::pipeline::probe_steps::alongside_pass;
use crate::pipeline::samples::has_samples;
use crate::pipeline::{
    begin_ns, cpu_holders, kernel_sources, Error, FirstPass, Follower, Interactions, ProgressTimes, Request, TraceFacts,
};
use crate::report::{Critical, ProbePass, Report};
use crate::scheduling::cpus::CpuTimes;
use crate::scheduling::probed::Cpu;
use crate::scheduling::sampled_waits::SampledWaits;
use crate::timeline::{RowId, Timeline};
use crate::verdict::facts::off_path::OffPathCollector;
use longpole_model::causes::Composer;
use longpole_model::interaction::QueueId;
use longpole_model::linux::Linux;
use longpole_trace::{Catalogue, EventIndex, Item, Kallsyms, Trace};
use std::collections::HashMap;

/// The analyses of a trace after one reading.
pub struct ReportPass<'a> {
    first: FirstPass,
    progress: Option<ProgressTimes<'a>>,
    watches: Watches,
    events: EventAnswers,
}

/// The analyses of events that do not need the path.
pub struct EventAnswers {
    /// The analyses of probes.
    pub pass: ProbePass,
    /// Number of events that were read.
    pub events: u64,
    packet_paths: PacketPaths,
    /// Waits whose stacks were sampled; complete after [`ReportPass::second_pass`].
    pub waits: SampledWaits,
    /// The model of the requested part; `None` if that of the composer is used.
    model: Option<KernelModel>,
    has_kernel: bool,
}

/// What a reading for the report also does.
#[derive(Default)]
pub struct Also<'f> {
    /// Receives the interactions for a picture; what further pictures need is kept, too
    /// ([`ProbePass::keep_for_pictures`]).
    pub picture: Option<&'f mut dyn Follower>,
    /// Receives the places of the items.
    pub index: Option<&'f mut EventIndex>,
    /// True if the times of CPUs and threads are summed up for [`ReportPass::cpu`].
    pub cpu_times: bool,
}

/// What observes the kernel's model for the path.
struct Watches {
    /// `None` if the times of CPUs and threads were not asked for.
    times: Option<CpuTimes>,
    facts: KernelFacts,
    occupancy: OccupancyLog,
    off_path: OffPathCollector,
    waits: SampledWaits,
}

/// The state of the reading that decides which items count.
struct Part {
    begin_ns: i64,
    has_kernel: bool,
    /// True if the part begins with the recorded command. Packets that are lost before the command
    /// begins or after its end do not count as its losses.
    of_command: bool,
}

impl<'a> ReportPass<'a> {
    /// Reads a trace. `is_ranged` is true if the user named a part of it; otherwise, a part that
    /// has a begin begins with the recorded command. `None` for a machine log, of which
    /// [`path_of_log`] computes the path.
    pub fn read(
        interactions: &mut Interactions,
        mut progress: Option<ProgressTimes<'a>>,
        is_ranged: bool,
        mut also: Also<'_>,
    ) -> Result<Option<ReportPass<'a>>, Error> {
        let begin = interactions.part().begin;
        let Some(trace) = interactions.trace() else { return Ok(None) };
        let has_kernel = kernel_sources(interactions.paths(), trace) > 0;
        let part = Part { begin_ns: begin_ns(begin, trace), has_kernel, of_command: !is_ranged && begin.is_some() };
        // The composer's own model of the kernel has no range. A second model is used if the user
        // named one, but not to leave out the recorder's start, which is too short to matter.
        let mut model = (has_kernel && is_ranged).then(|| KernelModel::new(begin, trace)).transpose()?;
        let mut packet_paths = PacketPaths::new(None);
        packet_paths.log = also.picture.is_some().then(Box::default);
        packet_paths.since_ns = part.of_command.then_some(part.begin_ns);
        let mut watches = Watches {
            times: also.cpu_times.then(CpuTimes::default),
            facts: KernelFacts::default(),
            occupancy: cpu_holders::occupancy_log(),
            off_path: OffPathCollector::default(),
            waits: SampledWaits::default(),
        };
        let mut count = 0;
        let mut pass = ProbePass::of_steps()?;
        if also.picture.is_some() {
            pass.keep_for_pictures();
        }
        let (first, pass) = alongside_pass(pass, |probes| {
            let feed = |composer: &mut Composer, catalogue: &Catalogue, item: &Item<'_>| {
                count += u64::from(matches!(item, Item::Event(_)));
                match &mut model {
                    None => watches.compose(&part, &mut packet_paths, composer, catalogue, item),
                    Some(model) => watches.model(model, &mut packet_paths, composer, catalogue, item),
                }
                if let Some(progress) = &mut progress {
                    progress.item(composer, catalogue, item);
                }
                if item.t_ns() >= part.begin_ns {
                    probes.item(composer, catalogue, item);
                    if let Some(index) = &mut also.index {
                        index.add(item);
                    }
                }
            };
            let first = FirstPass::read(interactions, feed, also.picture)?;
            probes.send(interactions.vocabulary());
            Ok(first)
        })?;
        watches.finish(interactions, model.as_mut(), &mut packet_paths, has_kernel);
        let mut events = EventAnswers { pass, events: count, packet_paths, waits: SampledWaits::default(), model, has_kernel };
        events.pass.tells_running = events.tells_running(interactions);
        Ok(Some(ReportPass { first, progress, watches, events }))
    }

    /// Returns which thread or interrupt had each CPU.
    pub fn occupancy(&self) -> &OccupancyLog {
        &self.watches.occupancy
    }

    /// Adds rows with the values of queues and counters to a timeline. Returns the row of each
    /// queue.
    ///
    /// # Errors
    ///
    /// [`Error::Spool`] if the values cannot be read again.
    pub fn add_value_rows(&self, timeline: &Timeline) -> Result<HashMap<QueueId, RowId>, Error> {
        // A trace may have values or packets and no thread that does anything.
        if let Some((begin_ns, end_ns)) = self.events.pass.step_pass.range() {
            timeline.set_empty_range(begin_ns, end_ns);
        }
        let added = self.events.pass.add_value_rows(timeline);
        added.map_err(|source| Error::Spool { name: "the values of queues and counters".to_owned(), source })
    }

    /// Adds rows with the packets of the kernel's events and of the captures to a timeline. Returns
    /// why the captures are missing, if they cannot be read.
    ///
    /// # Errors
    ///
    /// [`Error::Spool`] if the packets cannot be read again.
    pub fn add_packet_rows(&mut self, timeline: &Timeline, interactions: &Interactions) -> Result<Option<String>, Error> {
        self.events.packet_paths.finish();
        if let Some(linux) = self.events.linux(interactions) {
            let packets = Packets { packet_paths: &self.events.packet_paths, linux, symbol: &|_| None };
            let added = packet_rows::add_flows(timeline, &packets);
            added.map_err(|source| Error::Spool { name: "the packets".to_owned(), source })?;
        }
        let captures = interactions.trace().map_or(&[][..], Trace::captures);
        let (begin, end) = timeline.range();
        let bound = |t: u64| i64::try_from(t).unwrap_or(i64::MAX);
        Ok(packet_rows::add_captures(timeline, captures, (bound(begin), bound(end))).err())
    }

    /// Returns the times of CPUs and threads. Without [`Also::cpu_times`], those of the kernel are
    /// missing.
    pub fn cpu(&self, interactions: &Interactions) -> Cpu {
        let trace = interactions.trace();
        let mut cpu = self.events.pass.cpu(trace.and_then(Trace::probe_cost_ns));
        if let (Some(times), Some(linux)) = (&self.watches.times, self.events.linux(interactions)) {
            cpu.add_kernel(times, linux, trace.is_none_or(|trace| !trace.catalogue().foreign_pids));
        }
        cpu
    }

    /// Returns the number of events that were read.
    pub fn events(&self) -> u64 {
        self.events.events
    }

    /// Returns the number of events that are missing in the trace.
    pub fn lost(&self) -> u64 {
        let inputs = self.events.pass.inputs();
        inputs.lost.saturating_add(inputs.kernel_lost)
    }

    /// Computes the path, the verdict and the predictions. An error is no reason to give up the
    /// report: a trace without interactions still has answers about its events.
    pub fn second_pass(self, interactions: &Interactions, request: Request<'a>) -> (Result<Critical, Error>, EventAnswers) {
        let lost = self.lost();
        let ReportPass { first, progress, watches, mut events } = self;
        events.waits = watches.waits;
        let facts = TraceFacts {
            lost,
            tells_running: events.pass.tells_running,
            kernel: events.linux(interactions).map(|linux| (&watches.facts, linux)),
            off_path: watches.off_path,
            occupancy: &watches.occupancy,
        };
        let critical = first.second_pass(interactions, facts, Request { progress, ..request });
        (critical, events)
    }
}

/// Computes the path, the verdict and the predictions of a machine log. `also` receives the
/// interactions, too.
pub fn path_of_log(interactions: &mut Interactions, request: Request<'_>, also: Option<&mut dyn Follower>) -> Result<Critical, Error> {
    let first = FirstPass::read(interactions, crate::pipeline::compose, also)?;
    let occupancy = cpu_holders::occupancy_log();
    let facts = TraceFacts { lost: 0, tells_running: true, kernel: None, off_path: OffPathCollector::default(), occupancy: &occupancy };
    first.second_pass(interactions, facts, request)
}

impl Watches {
    /// Passes an item to the composer, whose model of the kernel is observed.
    fn compose(&mut self, part: &Part, packet_paths: &mut PacketPaths, composer: &mut Composer, catalogue: &Catalogue, item: &Item<'_>) {
        let Watches { times, facts, occupancy, off_path, waits } = self;
        let mut watches_of_path = (occupancy, &mut *waits);
        let mut watches_of_part = ((times, &mut *packet_paths), (&mut *facts, &mut *off_path));
        composer.item_with(catalogue, item, &mut (&mut watches_of_path, &mut watches_of_part));
        if part.has_kernel {
            facts.after(composer.linux());
            off_path.after(composer.linux());
            waits.item(composer.linux(), catalogue, item);
        }
        packet_paths.is_over = part.of_command && composer.command_is_over();
    }

    /// Passes an item to the composer, and to the model of the requested part, which is observed.
    fn model(
        &mut self,
        model: &mut KernelModel,
        packet_paths: &mut PacketPaths,
        composer: &mut Composer,
        catalogue: &Catalogue,
        item: &Item<'_>,
    ) {
        let Watches { times, facts, occupancy, off_path, waits } = self;
        composer.item_with(catalogue, item, &mut (occupancy, &mut *waits));
        waits.item(composer.linux(), catalogue, item);
        model.item(catalogue, item, &mut ((times, packet_paths), (&mut *facts, &mut *off_path)));
        facts.after(&model.linux);
        off_path.after(&model.linux);
    }

    /// Passes on what is known only after the last item.
    fn finish(
        &mut self,
        interactions: &mut Interactions,
        model: Option<&mut KernelModel>,
        packet_paths: &mut PacketPaths,
        has_kernel: bool,
    ) {
        let Watches { times, facts, occupancy, .. } = self;
        let mut watches = ((times, packet_paths), &mut *facts);
        match model {
            None => {
                interactions.finish_linux(&mut (occupancy, watches));
                if let Some(composer) = interactions.composer().filter(|_| has_kernel) {
                    facts.after(composer.linux());
                }
            }
            Some(model) => {
                interactions.finish_linux(occupancy);
                model.linux.finish(&mut watches);
                facts.after(&model.linux);
            }
        }
    }
}

impl EventAnswers {
    /// The model of the kernel after the last item; `None` if the trace has no kernel events.
    fn linux<'a>(&'a self, interactions: &'a Interactions) -> Option<&'a Linux> {
        let linux = self.model.as_ref().map(|model| &model.linux).or(interactions.composer().map(Composer::linux));
        linux.filter(|_| self.has_kernel)
    }

    /// Returns true if the trace shows when the threads with probes ran, or if there are none.
    fn tells_running(&self, interactions: &Interactions) -> bool {
        let linux = self.linux(interactions);
        let has_switches = linux.is_some_and(|linux| linux.counts.switches.in_all > 0 && linux.switch_filter.is_none());
        has_switches || interactions.trace().is_some_and(has_samples) || !self.pass.has_threads()
    }

    /// Returns the report without the path, the analyses of probes, and the trace. `symbols`
    /// returns the names of these kernel addresses, which name the places where packets were lost.
    pub fn report(
        mut self,
        interactions: Interactions,
        symbols: impl FnOnce(&[u64]) -> Kallsyms,
    ) -> Result<Option<(Report, ProbePass, Trace)>, Error> {
        let Some((trace, linux)) = interactions.into_parts() else { return Ok(None) };
        if self.has_kernel {
            let linux = self.model.map_or(linux, |model| model.linux);
            let places = Places::built_in()?;
            self.packet_paths.finish();
            let locations: Vec<u64> = self.packet_paths.losses.locations().into_iter().collect();
            let symbols = symbols(&locations);
            let symbol = |address| symbols.name(address);
            let packets = Packets { packet_paths: &self.packet_paths, linux: &linux, symbol: &symbol };
            self.pass.set_packet_losses(&packets.losses(&places), self.packet_paths.count);
        }
        self.pass.full_ring = trace.full_ring();
        let report = self.pass.report(trace.probe_cost_ns());
        Ok(Some((report, self.pass, trace)))
    }
}
