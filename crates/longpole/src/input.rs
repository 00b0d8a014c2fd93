//! The arguments that all reading verbs share: which trace, which part of it, for whom the answer is.

pub(crate) mod chunks;
pub(crate) mod command;
pub(crate) mod filter;
pub(crate) mod in_progress;
pub(crate) mod machine_log;
pub(crate) mod memory_dump;
pub(crate) mod offset;
pub(crate) mod progress;
pub(crate) mod rules;
pub(crate) mod subject;
pub(crate) mod unpacked;

use crate::input::memory_dump::Raw;
use crate::input::offset::Offset;
use crate::render::table::plain;
use crate::WrongUsage;
use anyhow::{anyhow, bail, Context};
use longpole_model::rules::Rules;
use longpole_record::kernel;
use longpole_record::Stop;
use longpole_trace::Error;
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

#[derive(clap::Args)]
pub struct Input {
    /// Recordings or foreign traces (CTF, pcapng, pcap, perf.data, Chrome's JSON, also in tar, zip, gzip, zstd); none: the newest recording under the root ($LONGPOLE_ROOT or ./traces)
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,

    /// Leave out what is before TIME: +1.5s (from the trace's begin), 23:04:05.5, 2025-11-20T23:04:05Z (or +01:00), 2025-11-20, or Unix time in ns; without a zone it is UTC
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub begin: Option<Moment>,

    /// Leave out what is after TIME
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub end: Option<Moment>,

    /// Answer in JSON, for programs
    #[arg(long)]
    pub json: bool,

    /// Rules that say what events mean, beside those in ~/.config/longpole/rules; they come before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub rules: Vec<PathBuf>,

    /// Add TIME to all times of PATH, one of the traces or a part of one: --offset b.pcapng=-1.5ms (s, ms, us, ns)
    #[arg(long = "offset", value_name = "PATH=TIME", value_parser = Offset::parse)]
    pub offsets: Vec<Offset>,

    #[command(flatten)]
    pub raw: Raw,
}

impl Input {
    /// The same questions of this one trace.
    pub fn of(&self, path: &Path) -> Input {
        self.of_all(&[path.to_owned()])
    }

    fn of_all(&self, traces: &[PathBuf]) -> Input {
        Input {
            traces: traces.to_vec(),
            begin: self.begin,
            end: self.end,
            json: self.json,
            rules: self.rules.clone(),
            offsets: self.offsets.clone(),
            raw: self.raw.clone(),
        }
    }

    /// The same; a recording of a command, from where that begins.
    pub fn of_command(&self) -> anyhow::Result<Input> {
        Ok(match self.paths()?.as_slice() {
            [path] => Input { begin: command::part(path, self.options()).begin, ..self.of(path) },
            _ => self.of_all(&self.traces),
        })
    }

    /// The traces that were named, or else the newest recording.
    pub fn paths(&self) -> anyhow::Result<Vec<PathBuf>> {
        let paths = self.contents()?;
        paths.iter().for_each(|path| complete(path));
        Ok(paths)
    }

    /// The same; of archives, what was in them.
    fn contents(&self) -> anyhow::Result<Vec<PathBuf>> {
        match self.raw.dump() {
            None => self.named()?.iter().map(|path| unpacked::content(path)).collect(),
            // What says nothing of itself may look like anything.
            Some(_) => self.named(),
        }
    }

    /// The same, not touched: they may be being written.
    pub fn paths_as_they_are(&self) -> anyhow::Result<Vec<PathBuf>> {
        self.named()
    }

    /// The same, as they are.
    fn named(&self) -> anyhow::Result<Vec<PathBuf>> {
        self.check_range()?;
        offset::check(&self.offsets, &self.traces)?;
        Ok(match self.traces.as_slice() {
            [] => vec![newest_recording(&root())?],
            named => named.to_vec(),
        })
    }

    /// The recording whose samples are read, completed or not; of several at once the names of one would be wrong for the others.
    pub fn sampled(&self) -> anyhow::Result<Option<PathBuf>> {
        let paths = self.contents()?;
        let [one] = paths.as_slice() else { return Ok(None) };
        Ok(longpole_trace::recording_at(one).filter(|recording| recording.join("samples/metadata").is_file()))
    }

    /// A part that ends before it begins is a slip of the fingers, and no answer of a part without events.
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

    /// What the events mean: by the files that were named, by the user's own, and by the built-in ones, in this order.
    pub fn rules(&self) -> anyhow::Result<Rules> {
        rules::read(&rules::files(&self.rules)?)
    }

    pub fn options(&self) -> Options {
        Options { begin: self.begin, end: self.end, dump: self.raw.dump(), shifts: offset::shifts(&self.offsets), ..Options::default() }
    }

    /// Opens all traces as one.
    pub fn open(&self) -> anyhow::Result<Trace> {
        open(&self.paths()?, self.options())
    }
}

pub fn ends_before_it_begins() -> anyhow::Error {
    WrongUsage("--end is before --begin".to_owned()).into()
}

/// The recorder converts the kernel's events when it ends; for one that was killed, the first reader does.
pub fn complete(path: &Path) {
    complete_kernel(path);
    complete_symbols(path).iter().for_each(|note| eprintln!("longpole: note: {}", plain(note.clone())));
}

/// Also at the end of a recording: while its processes live, their files are at hand. Returns what should be said of it.
pub fn complete_symbols(path: &Path) -> Vec<String> {
    // The next signal ends the looking, too.
    let before = Stop.count();
    let stopped = || Stop.count() > before;
    let mut told = Vec::new();
    if longpole_symbols::is_pending(path) {
        told = match longpole_symbols::complete(path, &stopped) {
            Ok(done) => done.diagnostics,
            Err(error) => vec![format!("the functions of the stacks in {} are not looked up: {error}", path.display())],
        };
    }
    if longpole_symbols::probes_are_pending(path) {
        told.extend(match longpole_symbols::complete_probes(path, &stopped) {
            Ok(told) => told,
            Err(error) => vec![format!("the recorded functions of {} are not named: {error}", path.display())],
        });
    }
    told
}

fn complete_kernel(path: &Path) {
    if !kernel::is_pending(path) {
        return;
    }
    let mut patience = Patience::default();
    let done = loop {
        match kernel::complete(path, &mut crate::verbs::record::progress(None)) {
            Err(kernel::ConvertError::Busy { .. }) if patience.lasts(path) => std::thread::sleep(PAUSE),
            done => break done,
        }
    };
    match done {
        Ok(done) => done.diagnostics.iter().for_each(|note| eprintln!("longpole: note: {}", plain(note.to_string()))),
        Err(error) => eprintln!("longpole: note: the kernel's events of {} are not in this answer: {error}", path.display()),
    }
}

/// Between two looks at what another process does.
const PAUSE: Duration = Duration::from_millis(100);
/// Looks without any progress of the other, before a conversion was seen and since.
const LOOKS: (u32, u32) = (10, 300);

/// With a conversion in another process that goes on; a recorder that still records may take any time.
#[derive(Default)]
struct Patience {
    bytes: u64,
    seen: bool,
    looks: u32,
}

impl Patience {
    fn lasts(&mut self, recording: &Path) -> bool {
        let parts = fs::read_dir(recording.join("kernel/.converting"));
        if parts.is_ok() && !self.seen {
            (self.seen, self.looks) = (true, 0);
            eprintln!("longpole: another process converts the kernel's events; waiting for it");
        }
        let bytes = parts.into_iter().flatten().flatten().filter_map(|entry| Some(entry.metadata().ok()?.len())).sum();
        self.looks = if bytes > self.bytes { 0 } else { self.looks + 1 };
        self.bytes = bytes;
        self.looks < if self.seen { LOOKS.1 } else { LOOKS.0 }
    }
}

/// Opens all paths as one trace; what cannot be opened is said with what to do about it.
pub fn open(paths: &[PathBuf], options: Options) -> anyhow::Result<Trace> {
    open_any(paths, options, false)
}

/// The same, as what it is stored: for who shows events and asks nothing of them.
pub fn open_stored(paths: &[PathBuf], options: Options) -> anyhow::Result<Trace> {
    open_any(paths, options.as_stored(), true)
}

/// The same; of an event in which a stream is damaged nothing: for who writes events.
pub fn open_whole(paths: &[PathBuf], options: Options) -> anyhow::Result<Trace> {
    open_any(paths, Options { parts: false, ..options.as_stored() }, true)
}

fn open_any(paths: &[PathBuf], options: Options, logs: bool) -> anyhow::Result<Trace> {
    let unpack = |path: &PathBuf| unpacked::content(path);
    let paths = &*if options.dump.is_none() { paths.iter().map(unpack).collect::<Result<Vec<_>, _>>()? } else { paths.to_vec() };
    // What is no file is not looked into: a pipe would have lost its begin when it is opened.
    let is_log = |path: &&PathBuf| !logs && options.dump.is_none() && path.is_file() && machine_log::is_one(path);
    if let Some(log) = paths.iter().find(is_log) {
        bail!("{} is a machine log, which this verb does not read; `longpole path` and `longpole model` do", log.display());
    }
    let ranged = options.begin.is_some() && options.end.is_some();
    let mut trace = Trace::open(paths, options).map_err(|error| match remedy(&error) {
        Some(remedy) if error.to_string().contains('\n') => anyhow!("{error}\n{remedy}"),
        Some(remedy) => anyhow!("{error}; {remedy}"),
        None => error.into(),
    })?;
    if !logs && trace.sources() == ["machine log"] {
        bail!(
            "{} holds a machine log and nothing else: name the log itself",
            paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        );
    }
    trace.note(paths.iter().flat_map(|path| unpacked::diagnostics(path)));
    // Only now is it known when what is relative begins or ends.
    let (begin, end) = trace.range();
    match ranged && end < begin {
        true => Err(ends_before_it_begins()),
        false => Ok(trace),
    }
}

fn remedy(error: &Error) -> Option<&'static str> {
    match error {
        Error::Io { source, .. } => match source.kind() {
            ErrorKind::NotFound => Some("`longpole list --recordings` shows what was recorded"),
            ErrorKind::PermissionDenied => Some("run as a user who may read it, or as root"),
            _ => None,
        },
        Error::NotATrace { .. } => Some("name a recording, the directory of a CTF trace, a capture file, or a machine log"),
        _ => None,
    }
}

/// Where recordings are made and looked for.
pub fn root() -> PathBuf {
    env::var_os("LONGPOLE_ROOT").filter(|root| !root.is_empty()).map_or_else(|| PathBuf::from("traces"), PathBuf::from)
}

fn newest_recording(root: &Path) -> anyhow::Result<PathBuf> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) => {
            let root = root.display();
            return Err(error).with_context(|| {
                format!("no trace was named, and recordings cannot be looked for in {root} (name a trace, or make one: `longpole record`)")
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

/// When a recording began; what does not say it itself is as old as its directory.
fn begin_of(path: &Path) -> i64 {
    let said = longpole_trace::Recording::read(path).ok().flatten().and_then(|recording| recording.start_ns);
    said.or_else(|| {
        let age = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(age.as_nanos()).ok()
    })
    .unwrap_or(0)
}
