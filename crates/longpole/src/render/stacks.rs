//! Collects and prints stack samples: the functions that took the time, or all stacks folded.

use crate::input::{self, Input};
use crate::profiler;
use crate::render::table::{number, percent, plain, plain_lines, Table};
use anyhow::bail;
use longpole_analysis::critical_path::samples::{self, CriticalFunction, OnPath, Tops};
use longpole_analysis::critical_path::{Path, Row};
use longpole_analysis::scheduling::probed::Cpu;
use longpole_analysis::scheduling::stacks::{Counts, Folded, FunctionShare, Functions};
use longpole_symbols::Stacks;
use longpole_trace::Catalogue;
use longpole_trace::Item;
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::StreamKind;
use longpole_trace::Trace;
use std::io::{self, Write};
use std::path::PathBuf;

/// Maximum length of a function's name in a table, in letters.
const LONGEST_NAME: usize = 64;

/// The samples that a pass collects from a part of a trace.
pub struct Gathered<'a> {
    recording: Option<PathBuf>,
    /// The symbols, opened at the first sample: by then the names have been looked up.
    stacks: Option<Stacks>,
    pub functions: Functions,
    pub folded: Option<Folded>,
    /// Process to which the samples are limited.
    pid: Option<i32>,
    /// Matcher for samples on a critical path. If it is set, `functions` has only the samples on
    /// the path, and `all` has the profile of all samples.
    on_path: Option<OnPath<'a>>,
    tops: Tops,
    all: Functions,
    lost: u64,
}

impl<'a> Gathered<'a> {
    /// Function names are those of one recording; if several are named, functions have no names.
    pub fn new(input: &Input, pid: Option<i32>, fold: bool) -> anyhow::Result<Gathered<'a>> {
        let recording = input.sampled()?;
        let folded = fold.then(Folded::default);
        Ok(Gathered {
            recording,
            stacks: None,
            functions: Functions::default(),
            folded,
            pid,
            on_path: None,
            tops: Tops::default(),
            all: Functions::default(),
            lost: 0,
        })
    }

    /// Limits the samples to those on a path.
    pub fn on_path(self, path: OnPath<'a>) -> Gathered<'a> {
        Gathered { on_path: Some(path), ..self }
    }

    pub fn item(&mut self, catalogue: &Catalogue, item: &Item<'_>, in_part: bool) {
        let stream = match item {
            Item::Event(event) => event.stream,
            Item::Loss(loss) => loss.stream,
        };
        if catalogue.streams.get(stream.0 as usize).is_none_or(|stream| stream.kind != StreamKind::Samples) {
            return;
        }
        match item {
            Item::Event(event) => {
                let stacks = self.stacks.get_or_insert_with(|| Stacks::open(self.recording.as_deref()));
                let Some(stack) = stacks.follow(catalogue, event) else { return };
                if !in_part || self.pid.is_some_and(|pid| pid != stack.pid) {
                    return;
                }
                if let Some(path) = &mut self.on_path {
                    if self.folded.is_none() {
                        self.all.sample(&stack);
                    }
                    let Some(of) = path.holds(stack.t_ns, stack.tid, stack.cpu) else { return };
                    if self.folded.is_none() {
                        self.tops.sample(of, &stack);
                    }
                }
                match &mut self.folded {
                    Some(folded) => folded.sample(&stack),
                    None => self.functions.sample(&stack),
                }
            }
            Item::Loss(loss) => {
                if in_part {
                    self.lost = self.lost.saturating_add(loss.events.unwrap_or(0));
                }
            }
        }
    }

    pub fn counts(&self) -> Counts {
        let counts = self.folded.as_ref().map_or(self.functions.counts, |folded| folded.counts);
        Counts { lost: self.lost, ..counts }
    }

    pub fn answer(&self) -> Vec<FunctionShare> {
        self.stacks.as_ref().map_or_else(Vec::new, |stacks| self.functions.answer(stacks))
    }

    /// Returns the functions on the path with their rank in the profile. `running` is the share of
    /// the path in which samples can be taken.
    pub fn critical(&self, running: f64) -> Vec<CriticalFunction> {
        let Some(stacks) = &self.stacks else { return Vec::new() };
        samples::functions(&self.functions.answer(stacks), &self.all.answer(stacks), running)
    }

    /// Sets in each row of the path the function with most of the row's samples. `functions` is the
    /// result of [`Gathered::critical`].
    pub fn tell(&self, path: &Path, functions: &[CriticalFunction], rows: &mut [Row]) {
        if let Some(stacks) = &self.stacks {
            self.tops.tell(path, stacks, functions, rows);
        }
    }

    /// Returns all stacks, folded into one line each.
    pub fn lines(&self) -> Vec<String> {
        self.folded.as_ref().zip(self.stacks.as_ref()).map_or_else(Vec::new, |(folded, stacks)| folded.lines(stacks))
    }

    /// Adds samples and functions to the answer, if there are samples.
    pub fn add(&self, answer: &mut Cpu) {
        let counts = self.counts();
        if counts.busy > 0 {
            answer.samples = Some(counts);
            answer.functions = Some(self.answer());
        }
    }
}

/// Returns true if the trace contains stack samples.
pub fn are_in(trace: &Trace) -> bool {
    trace.catalogue().streams.iter().any(|stream| stream.kind == StreamKind::Samples)
}

/// Reads the samples only, for a verb that needs nothing else. Prints the trace's diagnostics. An
/// error if there are no samples.
pub fn read(input: &Input, gathered: &mut Gathered) -> anyhow::Result<Trace> {
    let trace = gather(input, gathered)?;
    for diagnostic in trace.diagnostics() {
        eprintln!("longpole: {}", plain_lines(diagnostic.to_string()));
    }
    if !are_in(&trace) {
        bail!("the trace holds no samples of stacks; record them as root with `longpole record --stacks 99`");
    }
    Ok(trace)
}

/// Reads the samples only. The trace is read from its begin, because mappings made before the
/// requested part are still valid in it.
pub fn gather(input: &Input, gathered: &mut Gathered) -> anyhow::Result<Trace> {
    let mut trace = input::open(&input.paths()?, Options { begin: None, ..input.options() })?;
    let start_ns = trace.start_ns().unwrap_or(0);
    let begin_ns = input.begin.map_or(i64::MIN, |begin| begin.resolve(start_ns));
    if let Some(recording) = gathered.recording.as_ref().filter(|_| are_in(&trace)) {
        // Opens only the directory with samples, without all other streams. A relative end was
        // resolved against the begin of the whole trace.
        let end = input.end.map(|end| Moment::At(end.resolve(start_ns)));
        trace = input::open(&[recording.join("samples")], Options { end, ..Options::default() })?;
    }
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        gathered.item(catalogue, &item, item.t_ns() >= begin_ns);
    }
    Ok(trace)
}

pub fn print(out: &mut impl Write, functions: &[FunctionShare], counts: Counts, most: usize) -> io::Result<()> {
    if counts.busy > 0 {
        let mut table = Table::new(&["function", "module", "process", ">pid", ">self", ">95 %", ">total", ">samples"]);
        for row in functions.iter().take(most) {
            table.row([
                shortened(&row.function),
                row.module.clone(),
                row.process.clone(),
                row.pid.map_or_else(String::new, |pid| pid.to_string()),
                percent(row.self_share),
                format!("{} - {}", percent(row.self_low), percent(row.self_high)),
                percent(row.total_share),
                number(row.samples),
            ]);
        }
        table.print(out)?;
        if functions.len() > most {
            writeln!(out, "  … and {} more (--json has them)", number((functions.len() - most) as u64))?;
        }
    }
    footer(out, counts)
}

/// Prints shares of a critical path, next to those of a profile.
pub fn print_critical(out: &mut impl Write, functions: &[CriticalFunction], most: usize) -> io::Result<()> {
    let mut table = Table::new(&["function (sampled)", "module", "process", ">share of path", ">95 %", ">CPU-sample rank", ">share"]);
    for row in functions.iter().filter(|row| row.path_samples > 0).take(most) {
        table.row([
            shortened(&row.function),
            row.module.clone(),
            row.process.clone(),
            percent(row.share),
            format!("{} - {}", percent(row.low), percent(row.high)),
            number(row.profile_rank),
            percent(row.profile_share),
        ]);
    }
    table.print(out)?;
    let busy = profiler::busy_functions(functions);
    if !busy.is_empty() {
        writeln!(out, "busy, but hardly critical: {}", plain(busy.join(", ")))?;
    }
    Ok(())
}

/// Shortens names of templates, which are too long for a line; the JSON answer has them complete.
pub fn shortened(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    let begin: String = name.chars().take(LONGEST_NAME - 1).collect();
    format!("{begin}…")
}

pub fn footer(out: &mut impl Write, counts: Counts) -> io::Result<()> {
    writeln!(
        out,
        "\n{} samples of busy CPUs, {} lost; interrupts that came while a CPU was idle are not among them",
        number(counts.busy),
        number(counts.lost)
    )?;
    if counts.beyond > 0 {
        writeln!(out, "{} samples are not all in this answer: too many different ones", number(counts.beyond))?;
    }
    Ok(())
}
