//! The arguments that all reading verbs share: which traces, which part of them, and for which
//! subject.
//!
//! [`Input`] resolves the named traces (or finds the newest recording), completes what a killed
//! recorder left undone, and opens all of them as one trace. The files in `input/` each handle one
//! kind of argument or input. Nothing here analyses events.

pub(crate) mod chunks;
pub(crate) mod command;
pub(crate) mod empty_range;
pub(crate) mod explained;
pub(crate) mod filter;
pub(crate) mod in_progress;
pub(crate) mod interactions;
pub(crate) mod machine_log;
pub(crate) mod memory_dump;
pub(crate) mod offset;
pub(crate) mod progress;
pub(crate) mod rules;
pub(crate) mod scope;
pub(crate) mod subject;
pub(crate) mod unpacked;

use crate::input::memory_dump::Raw;
use crate::input::offset::Offset;
use crate::render::answer::Asked;
use crate::render::table::plain;
use crate::render::terminal::conversion;
use crate::render::terminal::progress as bar;
use crate::WrongUsage;
use anyhow::{anyhow, bail, Context};
use clap::Arg;
use longpole_model::rules::Rules;
use longpole_record::kernel;
use longpole_record::Stop;
use longpole_trace::Damage;
use longpole_trace::Error;
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

#[derive(clap::Args, Default)]
pub struct Input {
    /// Recordings or foreign traces (CTF, pcapng, pcap, perf.data, trace.dat, text and raw pages of
    /// ftrace, Chrome's JSON, machine logs, raw logs of seL4; also in tar, zip, gzip, zstd);
    /// default: the newest recording under the root ($LONGPOLE_ROOT or ./traces)
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,

    /// Leave out what is before TIME: +1.5s (from the trace's begin), 23:04:05.5,
    /// 2025-11-20T23:04:05Z (or +01:00), 2025-11-20, or Unix time in ns; without a zone it is UTC
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub begin: Option<Moment>,

    /// Leave out what is after TIME
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub end: Option<Moment>,

    /// From the begin of the recording; the default is the begin of the command
    #[arg(long)]
    pub all: bool,

    /// Answer in JSON, for programs
    #[arg(long)]
    pub json: bool,

    /// Rules for what events mean, read before ~/.config/longpole/rules and the built-in ones
    #[arg(long, value_name = "FILE")]
    pub rules: Vec<PathBuf>,

    /// Add TIME (s, ms, us, ns) to all times of PATH, a trace or part of one: b.pcapng=-1.5ms
    #[arg(long = "offset", value_name = "PATH=TIME", value_parser = Offset::parse)]
    pub offsets: Vec<Offset>,

    /// Damage is an error, and so is what deviates from a format without loss: packets with another
    /// uuid than the metadata, bytes after the metadata, words of a draft of CTF 2
    #[arg(long)]
    pub strict: bool,

    #[command(flatten)]
    pub raw: Raw,
}

/// Returns the option `--all` for verbs whose tables have a row per thread or call.
pub(crate) fn all_of_threads(all: Arg) -> Arg {
    all.help("The threads of the whole host; the default is those of the command and what it started")
}

/// Returns the option `--all` for verbs whose answer is about the whole recording in any case.
/// They accept the option, so that it may stay in a command line when the verb changes.
pub(crate) fn all_without_effect(all: Arg) -> Arg {
    all.hide(true)
}

/// Returns what to do at damage.
pub fn damage(strict: bool) -> Damage {
    if strict {
        Damage::IsError
    } else {
        Damage::Pass
    }
}

impl Input {
    /// Returns the same arguments for one trace.
    pub fn of(&self, path: &Path) -> Input {
        self.of_all(&[path.to_owned()])
    }

    /// Returns the arguments for the same traces without a range.
    pub fn whole(&self) -> Input {
        Input { begin: None, end: None, ..self.of_all(&self.traces) }
    }

    fn of_all(&self, traces: &[PathBuf]) -> Input {
        Input {
            traces: traces.to_vec(),
            begin: self.begin,
            end: self.end,
            all: self.all,
            json: self.json,
            rules: self.rules.clone(),
            offsets: self.offsets.clone(),
            strict: self.strict,
            raw: self.raw.clone(),
        }
    }

    /// Returns the same arguments; if the only trace is the recording of a command, from the
    /// command's begin on, unless the whole host was asked for.
    pub fn of_command(&self) -> anyhow::Result<Input> {
        Ok(match self.completed_paths()?.as_slice() {
            [path] if !self.all => Input { begin: command::part(path, self.options()).begin, ..self.of(path) },
            _ => self.of_all(&self.traces),
        })
    }

    /// Returns the named traces, or else the newest recording, after it has extracted archives,
    /// converted kernel events and looked up the functions of stacks. That may take minutes the
    /// first time, with progress on a terminal, and is quick if nothing is left to do.
    pub fn completed_paths(&self) -> anyhow::Result<Vec<PathBuf>> {
        let paths = self.contents()?;
        paths.iter().for_each(|path| complete(path));
        bar::begin(&paths);
        Ok(paths)
    }

    /// Returns the named traces, or else the newest recording; archives are replaced by their
    /// contents.
    fn contents(&self) -> anyhow::Result<Vec<PathBuf>> {
        match self.raw.dump() {
            None => self.named()?.iter().map(|path| unpacked::content(path)).collect(),
            // A memory dump has no header, so it may look like any other format.
            Some(_) => self.named(),
        }
    }

    /// Returns the named traces without changing or unpacking them, because they may still be
    /// written.
    pub fn paths_as_they_are(&self) -> anyhow::Result<Vec<PathBuf>> {
        self.named()
    }

    /// Returns the named traces, or else the newest recording, without looking into them.
    fn named(&self) -> anyhow::Result<Vec<PathBuf>> {
        self.check_range()?;
        offset::check(&self.offsets, &self.traces)?;
        Ok(match self.traces.as_slice() {
            [] => vec![newest_recording(&root())?],
            named => named.to_vec(),
        })
    }

    /// Returns the recording whose stack samples are read, completed or not. `None` if several
    /// traces are named, because the function names of one would be wrong for the others.
    pub fn sampled(&self) -> anyhow::Result<Option<PathBuf>> {
        let paths = self.contents()?;
        let [one] = paths.as_slice() else { return Ok(None) };
        Ok(longpole_trace::recording_at(one).filter(|recording| recording.join("samples/metadata").is_file()))
    }

    /// Returns an error if the range ends before it begins. This is a typing error; an answer about
    /// an empty part would hide it.
    fn check_range(&self) -> anyhow::Result<()> {
        let backwards = match (self.begin, self.end) {
            (Some(Moment::At(begin)), Some(Moment::At(end))) => begin > end,
            (Some(Moment::AfterStart(begin)), Some(Moment::AfterStart(end))) => begin > end,
            (Some(Moment::OfDay(begin)), Some(Moment::OfDay(end))) => begin > end,
            _ => false,
        };
        match backwards {
            true => Err(ends_before_it_begins()),
            false => Ok(()),
        }
    }

    /// Returns the rules that define what events mean: first the files named in the arguments, then
    /// the user's own files, then the built-in rules.
    pub fn rules(&self) -> anyhow::Result<Rules> {
        rules::read(&self.rule_files()?)
    }

    /// Returns the files of rules that apply before the built-in ones.
    pub fn rule_files(&self) -> anyhow::Result<Vec<PathBuf>> {
        rules::files(&self.rules)
    }

    /// Returns true if the whole trace is read, at its own times, and damage is passed over.
    pub fn is_as_recorded(&self) -> bool {
        self.begin.is_none() && self.end.is_none() && self.offsets.is_empty() && self.raw.dump().is_none() && !self.strict
    }

    pub fn options(&self) -> Options {
        Options {
            begin: self.begin,
            end: self.end,
            dump: self.raw.dump(),
            shifts: offset::shifts(&self.offsets),
            damage: damage(self.strict),
            ..Options::default()
        }
    }

    /// Opens all traces as one.
    pub fn open(&self) -> anyhow::Result<Trace> {
        open(&self.completed_paths()?, self.options())
    }
}

impl Asked for Input {
    fn json(&self) -> bool {
        self.json
    }

    fn has_begin(&self) -> bool {
        self.begin.is_some()
    }

    fn has_end(&self) -> bool {
        self.end.is_some()
    }
}

pub fn ends_before_it_begins() -> anyhow::Error {
    WrongUsage("--end is before --begin".to_owned()).into()
}

/// Converts the kernel's events and looks up symbols if that is still to be done. The recorder does
/// this when it ends; for a recorder that was killed, the first reader does.
pub fn complete(path: &Path) {
    complete_kernel(path);
    complete_symbols(path).iter().for_each(|note| eprintln!("longpole: note: {}", plain(note.clone())));
}

/// Looks up the functions of stacks and probes. Also called at the end of a recording: while the
/// recorded processes live, their files can be read. Returns diagnostics.
pub fn complete_symbols(path: &Path) -> Vec<String> {
    // A signal that arrives from now on stops the lookup.
    let before = Stop.count();
    let stopped = || Stop.count() > before;
    let mut notes = Vec::new();
    if longpole_symbols::is_pending(path) {
        let mut bar = bar::Conversion::of_stacks();
        let mut patience = Patience::of_stacks(path);
        let done = loop {
            match longpole_symbols::complete(path, &mut |done, total| bar.show(done, total), &stopped) {
                Err(longpole_symbols::CompleteError::Busy { .. }) if !stopped() && patience.lasts() => std::thread::sleep(PAUSE),
                done => break done,
            }
        };
        notes = match done {
            Ok(done) => done.diagnostics,
            Err(error) => vec![format!("cannot look up the functions of the stacks in {}: {error}", path.display())],
        };
    }
    notes.extend(longpole_symbols::remaining(path).map(not_unwound));
    if longpole_symbols::probes_are_pending(path) {
        notes.extend(match longpole_symbols::complete_probes(path, &stopped) {
            Ok(notes) => notes,
            Err(error) => vec![format!("cannot look up the names of the recorded functions of {}: {error}", path.display())],
        });
    }
    notes
}

fn not_unwound(remaining: longpole_symbols::Remaining) -> String {
    let host = remaining.host.unwrap_or_else(|| "the recorded host".to_owned());
    let stacks = remaining.stacks;
    format!("{stacks} stacks have no functions yet, and their copies in the recording may hold secrets; run `longpole report` on {host}")
}

fn complete_kernel(path: &Path) {
    if !kernel::is_pending(path) {
        return;
    }
    let mut patience = Patience::of_kernel(path);
    let done = loop {
        match kernel::complete(path, &mut conversion::progress(None)) {
            Err(kernel::ConvertError::Busy { .. }) if patience.lasts() => std::thread::sleep(PAUSE),
            done => break done,
        }
    };
    match done {
        Ok(done) => done.diagnostics.iter().for_each(|note| eprintln!("longpole: note: {}", plain(note.to_string()))),
        Err(error) => eprintln!("longpole: note: the kernel's events of {} are not in this answer: {error}", path.display()),
    }
}

/// Time between two checks of another process's progress.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of checks without progress: before a conversion was seen, and after that.
const LOOKS: (u32, u32) = (10, 300);

/// Waits for another process that completes a recording, as long as it makes progress.
///
/// If no conversion is seen within the first checks, another recorder may still be recording, which
/// may take any time; then waiting ends.
struct Patience<'a> {
    recording: &'a Path,
    /// Returns the number of bytes that a conversion has written; `None` if there is none.
    written: fn(&Path) -> Option<u64>,
    what: &'static str,
    /// Largest number of checks before a conversion is seen.
    first: u32,
    bytes: u64,
    seen: bool,
    looks: u32,
}

impl Patience<'_> {
    fn of_kernel(recording: &Path) -> Patience<'_> {
        Patience::of(recording, kernel_bytes, "converts the kernel's events")
    }

    fn of_stacks(recording: &Path) -> Patience<'_> {
        // Before it writes, the other process surveys all samples.
        let has_ended = matches!(longpole_trace::Recording::read(recording), Ok(Some(said)) if said.end_ns.is_some());
        let first = if has_ended { LOOKS.1 } else { LOOKS.0 };
        Patience { first, ..Patience::of(recording, stack_bytes, "looks up the functions of the stacks") }
    }

    fn of<'a>(recording: &'a Path, written: fn(&Path) -> Option<u64>, what: &'static str) -> Patience<'a> {
        Patience { recording, written, what, first: LOOKS.0, bytes: 0, seen: false, looks: 0 }
    }

    fn lasts(&mut self) -> bool {
        let bytes = (self.written)(self.recording);
        if bytes.is_some() && !self.seen {
            (self.seen, self.looks) = (true, 0);
            eprintln!("longpole: another process {}; waiting for it", self.what);
        }
        let bytes = bytes.unwrap_or(0);
        self.looks = if bytes != self.bytes { 0 } else { self.looks + 1 };
        self.bytes = bytes;
        self.looks < if self.seen { LOOKS.1 } else { self.first }
    }
}

fn kernel_bytes(recording: &Path) -> Option<u64> {
    let parts = fs::read_dir(recording.join("kernel/.converting")).ok()?;
    Some(parts.flatten().filter_map(|entry| Some(entry.metadata().ok()?.len())).sum())
}

/// The streams of unwound stacks are hidden until each is complete, and so is the list of
/// functions.
fn stack_bytes(recording: &Path) -> Option<u64> {
    let folders = ["samples", "symbols"].map(|folder| fs::read_dir(recording.join(folder)));
    let entries = folders.into_iter().flatten().flatten().flatten();
    let hidden = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"."));
    hidden.filter_map(|entry| Some(entry.metadata().ok()?.len())).reduce(|all, bytes| all + bytes)
}

/// Opens all paths as one trace. The error of a path that cannot be opened includes the remedy.
pub fn open(paths: &[PathBuf], options: Options) -> anyhow::Result<Trace> {
    open_any(paths, options, false)
}

/// Opens all paths as one trace, as stored (see [`Options::as_stored`]), for verbs that show events
/// without analysing them. Machine logs are accepted.
pub fn open_stored(paths: &[PathBuf], options: Options) -> anyhow::Result<Trace> {
    open_any(paths, options.as_stored(), true)
}

/// Like [`open_stored`], but without the partial event at which a stream is damaged, for verbs that
/// write events.
pub fn open_whole(paths: &[PathBuf], options: Options) -> anyhow::Result<Trace> {
    open_any(paths, Options { partial_events: false, ..options.as_stored() }, true)
}

fn open_any(paths: &[PathBuf], options: Options, logs: bool) -> anyhow::Result<Trace> {
    let unpack = |path: &PathBuf| unpacked::content(path);
    let paths = &*if options.dump.is_none() { paths.iter().map(unpack).collect::<Result<Vec<_>, _>>()? } else { paths.to_vec() };
    // Only regular files are checked: reading from a pipe would consume its begin.
    let is_log = |path: &&PathBuf| !logs && options.dump.is_none() && path.is_file() && machine_log::is_one(path);
    if let Some(log) = paths.iter().find(is_log) {
        bail!("{} is a machine log, which this verb does not read; `longpole path` and `longpole model` do", log.display());
    }
    let ranged = options.begin.is_some() && options.end.is_some();
    let mut trace = Trace::open(paths, options).map_err(|error| match remedy(&error) {
        Some(remedy) if error.is_multiline() => anyhow!("{error}\n{remedy}"),
        Some(remedy) => anyhow!("{error}; {remedy}"),
        None => error.into(),
    })?;
    if !logs && trace.is_only_machine_log() {
        bail!(
            "{} contains only a machine log; name the log itself",
            paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        );
    }
    trace.add_diagnostics(paths.iter().flat_map(|path| unpacked::diagnostics(path)));
    // Times relative to the trace's begin are known only after it was opened.
    let (begin, end) = trace.range();
    match ranged && end < begin {
        true => Err(ends_before_it_begins()),
        false => Ok(trace),
    }
}

fn remedy(error: &Error) -> Option<&'static str> {
    match error {
        Error::Io { source, .. } => match source.kind() {
            ErrorKind::NotFound => Some("`longpole list --recordings` lists the recordings"),
            ErrorKind::PermissionDenied => Some("run as a user who may read it, or as root"),
            _ => None,
        },
        Error::NotATrace { .. } => Some("name a recording, the directory of a CTF trace, a capture file, or a machine log"),
        _ => None,
    }
}

/// Returns the directory in which recordings are made and searched.
pub fn root() -> PathBuf {
    env::var_os("LONGPOLE_ROOT").filter(|root| !root.is_empty()).map_or_else(|| PathBuf::from("traces"), PathBuf::from)
}

fn newest_recording(root: &Path) -> anyhow::Result<PathBuf> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) => {
            let root = root.display();
            return Err(error).with_context(|| {
                format!("no trace was named, and recordings in {root} cannot be read; name a trace, or make one: `longpole record`")
            });
        }
    };
    let mut newest: Option<(i64, PathBuf)> = None;
    for entry in entries {
        let path = entry?.path();
        if !longpole_trace::is_recording(&path) {
            continue;
        }
        let begin = begin_of(&path);
        if newest.as_ref().is_none_or(|(latest, other)| (begin, &path) > (*latest, other)) {
            newest = Some((begin, path));
        }
    }
    match newest {
        Some((_, path)) => Ok(path),
        None => bail!("no trace was named, and there is no recording in {}; make one: `longpole record`", root.display()),
    }
}

/// Returns the time in ns at which a recording began; the modification time of its directory if its
/// description does not contain it.
fn begin_of(path: &Path) -> i64 {
    let said = longpole_trace::Recording::read(path).ok().flatten().and_then(|recording| recording.start_ns);
    said.or_else(|| {
        let age = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(age.as_nanos()).ok()
    })
    .unwrap_or(0)
}
