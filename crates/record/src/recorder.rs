//! One recording, from its start to its end.
//!
//! The recorder works in turns on one thread. A turn finds new processes, writes their orders,
//! looks at all rings, and takes the events that they hold. The caller decides when a turn runs
//! ([`Recorder::turn`]) and which one is the last; [`Recorder::wait`] sleeps until the next turn is
//! due.
//!
//! This folder holds what concerns the recording as a whole: the sources other than rings
//! (`sources`), the location of its files (`home`) and its end (`ending`). What handles a single
//! ring, process or file belongs in `ring`, `runtime_dir` or `output`.

mod ending;
mod home;
mod sources;

use crate::clock::{unix_now, Calibration, Clock, Source as ClockSource};
use crate::control::mailbox::Mailbox;
use crate::control::policy::{Config, FullRingAction, Mode};
use crate::control::selection::{Part, Selection};
use crate::control::steady::{Granted, Steady};
use crate::control::stop::Stop;
use crate::control::watch::Watches;
use crate::error::Error;
use crate::interfaces;
use crate::kernel;
use crate::output::chunks::{self, Chunks};
use crate::output::command_output::Output;
use crate::output::disk::Disk;
use crate::output::metadata::{Metadata, Uuid};
use crate::output::pcap::Capture;
use crate::output::recording::{self, Reserve};
use crate::output::stream::Lane;
use crate::recovery::KilledRecording;
use crate::runtime_dir::claim;
use crate::runtime_dir::foreign::Search;
use crate::runtime_dir::process::{Process, Source};
use crate::runtime_dir::recorded::Place;
use crate::runtime_dir::session::Order;
use crate::runtime_dir::watch::RuntimeWatch;
use crate::runtime_dir::Runtime;
use crate::stacks::{self, SampleOutcome, Stacks, StacksError};
use crate::text::units::DEFAULT_SNAPLEN;
pub(crate) use home::RecordingFolder;
use longpole_abi::kind::ALL_CATEGORIES;
use longpole_abi::RING_MINIMUM;
use rustix::event::epoll;
use serde_json::json;
use sources::{packets_request, without_interfaces, without_kernel};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant, SystemTime};

/// The processes whose events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All programs of the user.
    Everything,
    /// One process, by its pid.
    Process(i32),
    /// The processes that a command starts; see [`Recorder::follow`].
    Descendants,
}

impl Scope {
    /// The pid of the process, if the scope is a single process.
    pub(crate) fn alone(self) -> Option<i32> {
        match self {
            Scope::Process(pid) => Some(pid),
            _ => None,
        }
    }
}

/// What the user asked for. Options override the configuration file.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for new recordings (`-o`). Default: the folder named by the configuration, else by
    /// `LONGPOLE_ROOT`, else `traces`.
    pub root: Option<PathBuf>,
    /// Path of the configuration file.
    pub config: Option<PathBuf>,
    pub scope: Scope,
    /// Filter that can be changed during the recording: only processes and threads that it enables
    /// are recorded.
    pub selection: Option<Selection>,
    /// Size of every ring in bytes; overrides the policies.
    pub buffer: Option<u64>,
    /// Action of a full ring; overrides the policies. [`Mode::Overwrite`] applies also to the
    /// kernel's buffers.
    pub mode: Option<Mode>,
    /// Limit of the recording's bytes on the disk; beyond it the oldest chunk is deleted.
    pub max_size: Option<u64>,
    /// Limit of the recording's bytes on the disk if neither the options nor the configuration set
    /// a limit of size or age. It is not used in overwrite mode, in which the kernel's buffers
    /// cannot be divided into chunks.
    pub default_max_size: Option<u64>,
    /// Limit of the age of the oldest event; beyond it the oldest chunk is deleted.
    pub max_age: Option<Duration>,
    /// Command line of the recorded command, for `longpole.json`.
    pub command: Vec<String>,
    /// Cost of one event for the thread that writes it, in nanoseconds, if it was measured.
    pub probe_cost_ns: Option<f64>,
    /// Request for kernel events; `None` records no kernel events.
    pub kernel: Option<kernel::Request>,
    /// Stack samples per second and CPU; `None` takes no samples.
    pub stacks: Option<u32>,
    /// Interfaces whose packets are captured; overrides the configuration. An empty list captures
    /// none.
    pub packets: Option<Vec<interfaces::Pattern>>,
    /// Scheduling policy for the command, and the nice value that it would have had without it.
    pub steady: Option<(Steady, i32)>,
    /// Bytes recorded of each packet of an interface; overrides the configuration.
    pub snaplen: Option<u32>,
}

/// Result of a recording.
#[derive(Debug)]
pub struct Outcome {
    /// Path of the recording's folder.
    pub path: PathBuf,
    /// Bytes of recorded events.
    pub recorded: u64,
    /// Number of lost events.
    pub lost: u64,
    /// Number of stream files.
    pub lanes: usize,
    /// `None` if the kernel was not recorded.
    pub kernel: Option<KernelOutcome>,
    /// `None` if no stacks were sampled.
    pub samples: Option<SampleOutcome>,
    /// `None` if no interface was captured.
    pub interfaces: Option<InterfacesOutcome>,
    /// Number of packets in capture files.
    pub packets: u64,
    /// Reason why the recording holds no events; `None` if it holds some.
    pub empty: Option<String>,
    /// Notes about unexpected conditions, for the user.
    pub diagnostics: Vec<String>,
}

/// Result of recording the kernel's events.
#[derive(Clone, Copy, Debug)]
pub struct KernelOutcome {
    pub events: u64,
    /// Number of events that the kernel counted as lost.
    pub lost: u64,
    pub cpus: usize,
}

/// Result of capturing the packets of interfaces.
#[derive(Clone, Copy, Debug)]
pub struct InterfacesOutcome {
    pub packets: u64,
    /// Number of packets that were seen but are not in the file.
    pub lost: u64,
    pub interfaces: usize,
}

/// Shortest time between two turns.
const SHORTEST: Duration = Duration::from_millis(1);
/// Time after the birth of a process during which its rate of events is unknown; the recorder then
/// takes turns as often as it can.
const UNKNOWN: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
/// Number of different diagnostics that are stored; further ones are dropped.
const MOST_DIAGNOSTICS: usize = 100;

/// Epoll token: a watched runtime directory has changed.
pub(crate) const TOKEN_DIRECTORY: u64 = 1;
/// Epoll token: a signal arrived.
pub(crate) const TOKEN_STOP: u64 = 2;
/// Epoll token: a recorded process has ended.
pub(crate) const TOKEN_PROCESS: u64 = 3;
/// Epoll token: a request arrived or was withdrawn.
pub(crate) const TOKEN_REQUEST: u64 = 4;
/// Epoll token: something changed in the runtime directories of other users.
pub(crate) const TOKEN_OTHER_DIRECTORIES: u64 = 5;

/// A process with probes, and its rings.
#[derive(Debug)]
pub(crate) struct Subject {
    pub process: Process,
    pub sources: Vec<Source>,
    /// The process is within the scope of this recording.
    pub wanted: bool,
    /// This recorder holds the lock of the process. `sources` is empty otherwise.
    pub claimed: bool,
    /// A diagnostic has reported that another recorder holds the process.
    pub reported_as_held: bool,
    /// Time of the next attempt to claim the process. Set if another recorder's command started the
    /// process and that recorder is running.
    pub next_claim_attempt: Option<Instant>,
    /// Number of turns without an event from the process, although it is claimed; counted only
    /// while it has nothing to record.
    pub silent_turns: u32,
    pub order: Order,
    /// Ring size in bytes that its policies ask for.
    pub buffer: Option<u64>,
    pub ended: bool,
    /// File names of rings that cannot be read; they are removed together with the process's files.
    pub ignored: Vec<String>,
    /// Number of turns since the process ended.
    pub turns_dead: u32,
}

/// A recorder, from its start to its end. [`Recorder::start`] makes one, [`Recorder::turn`] works,
/// [`Recorder::finish`] ends it.
#[derive(Debug)]
pub struct Recorder {
    /// The runtime directory that is being handled: the recorder's own, except during
    /// [`Recorder::in_each_directory`].
    pub(crate) place: Place,
    /// Runtime directories of other users and mount namespaces.
    pub(crate) others: Vec<Place>,
    pub(crate) search: Search,
    /// Watch of other users' runtime directories; `None` if they are not recorded.
    neighbours: Option<RuntimeWatch>,
    /// Number of the newest CTF stream class.
    pub(crate) streams: u32,
    pub(crate) options: Options,
    pub(crate) config: Config,
    /// Version of the configuration file that was read last.
    config_seen: Option<(SystemTime, u64)>,
    /// Version of the selection that was applied last.
    chosen: u64,
    /// Path of the recording's folder, for messages and other processes.
    pub(crate) path: PathBuf,
    /// Descriptor of the recording's folder.
    pub(crate) home: RecordingFolder,
    pub(crate) uuid: Uuid,
    pub(crate) clock: Clock,
    /// Number of the recording: the microseconds since 1970 at its start.
    pub(crate) session: u64,
    pub(crate) metadata: Metadata,
    /// Open stream files, by lane number.
    pub(crate) lanes: Vec<Option<Lane>>,
    /// Descriptions of closed stream files for `longpole.json`, by lane number.
    pub(crate) closed: BTreeMap<u32, serde_json::Value>,
    /// Capture files of programs, by label.
    pub(crate) captures: HashMap<String, Capture>,
    /// Output streams of the command whose lines are recorded.
    pub(crate) outputs: Vec<Output>,
    /// Recording of a killed recorder that is being recovered; only during the start.
    pub(crate) predecessor: Option<KilledRecording>,
    pub(crate) reserve: Reserve,
    pub(crate) epoll: OwnedFd,
    /// The runtime directories must be listed in the next turn.
    pub(crate) directory_changed: bool,
    pub(crate) mailbox: Option<Mailbox>,
    pub(crate) requests_changed: bool,
    pub(crate) watches: Watches,
    pub(crate) chunks: Chunks,
    /// Some process may have ended.
    pub(crate) deaths: bool,
    /// Pid of the recorded command.
    pub(crate) ancestor: Option<i32>,
    /// Unix time in ns at which the current chunk began.
    start: u64,
    /// Largest deviation of the clock from CLOCK_REALTIME in ns, by absolute value.
    residual: i64,
    /// Diagnostics, each with the number of its occurrences.
    diagnostics: BTreeMap<String, u64>,
    pub(crate) total: Totals,
    /// Reason of the newest refusal: events that found no ring.
    pub(crate) why_refused: String,
    pub(crate) last_turn: Instant,
    /// Time until the next turn, from how fast rings fill.
    pace: Duration,
    pub(crate) disk: Disk,
    last_second: Instant,
    /// Time at which the newest process appeared.
    pub(crate) last_birth: Instant,
    /// Buffer for copies of events, reused to avoid allocations.
    pub(crate) scratch: Vec<u8>,
    kernel: Option<kernel::Source>,
    /// The kernel's entry in `longpole.json`, once it is final.
    kernel_entry: Option<serde_json::Value>,
    /// Reason why the kernel's events are missing or incomplete.
    kernel_trouble: Option<String>,
    stacks: Option<Stacks>,
    /// Entry of the stack samples in `longpole.json`, once it is final.
    stacks_told: Option<serde_json::Value>,
    stacks_trouble: Option<String>,
    interfaces: Option<interfaces::Source>,
    /// Entry of the interface packets in `longpole.json`, once it is final.
    interfaces_told: Option<serde_json::Value>,
    interfaces_trouble: Option<String>,
    /// Hash of the newest description; one with the same hash is not written again.
    described: Option<u64>,
    /// Scheduling that the command was granted, or the reason why it was not.
    steady: Option<Result<Granted, String>>,
}

/// Sums over the whole recording.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Bytes of recorded events.
    pub recorded: u64,
    /// Bytes of stream files on the disk. Larger than `recorded`, because packets are padded to
    /// pages.
    pub written: u64,
    /// Number of lost events.
    pub lost: u64,
    /// Number of events that found no ring.
    pub refused: u64,
    /// Number of processes with probes that were seen.
    pub processes: u64,
    /// Number of processes that were left out because of the scope or of policies.
    pub unwanted: u64,
    /// Number of processes that another recorder holds.
    pub taken: u64,
    /// Bytes of events that no policy selects.
    pub dropped: u64,
    /// Bytes of events of threads of which only captured packets are recorded.
    pub packets_only: u64,
    /// Number of captured packets.
    pub packets: u64,
    /// Number of captured packets that could not be written.
    pub packets_refused: u64,
    /// Nanoseconds that threads waited for room in their rings, as counted by the threads.
    pub waited: u64,
}

impl Recorder {
    /// Starts a recording. After this function returns, every selected event is recorded.
    ///
    /// An error of the kernel, of stack sampling or of interfaces does not prevent the recording:
    /// it becomes a diagnostic, unless the request itself is wrong. With `stop`, a watchdog is
    /// started also.
    pub fn start(options: Options, stop: Option<&Stop>) -> Result<Recorder, Error> {
        let config = match &options.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        let preferred = ClockSource::choose();
        let mut interfaces_trouble = None;
        let interfaces = match packets_request(&options, &config) {
            None => None,
            Some(request) => without_interfaces(interfaces::Source::prepare(&request), &mut interfaces_trouble)?,
        };
        let mut kernel_trouble = None;
        let plan = match options.kernel.clone().map(|request| kernel::Request {
            buffer: request.buffer.or(config.kernel_buffer),
            overwrite: options.mode.or(config.mode) == Some(Mode::Overwrite),
            ..request
        }) {
            None => None,
            Some(request) => without_kernel(kernel::Plan::make(&request, preferred), &mut kernel_trouble)?,
        };
        // The kernel's tracer and the programs must use the same clock.
        let source = plan.as_ref().map_or(preferred, |plan| plan.clock.1);
        let calibration = Calibration::begin(source);
        let config_seen = options.config.as_deref().and_then(version);
        raise_file_limit();
        let runtime = Runtime::create(&Runtime::default_path())?;
        let start = unix_now();
        // Microseconds since 1970, because JSON readers with only doubles represent them exactly.
        let session = start / 1000;
        let (held, unfinished) = claim::take(&runtime, options.scope, session)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| Error::io("make", "epoll")(error.into()))?;
        if let Some(wake) = stop.and_then(Stop::wake) {
            let _ = epoll::add(&epoll, wake, epoll::EventData::new_u64(TOKEN_STOP), epoll::EventFlags::IN);
        }
        let place = Place::new(runtime, held, 0, None, &epoll);
        let root = options.root.clone().or_else(|| config.root.clone()).unwrap_or_else(recording::root);
        let predecessor = unfinished.as_ref().and_then(KilledRecording::open);
        let tidied = kernel::reap::all();
        let path = recording::create(&root, start)?;
        let home = RecordingFolder::open(&path)?;
        // The preparation overlaps the time that the calibration of the clock needs anyway.
        let prepared = plan.map(|plan| without_kernel(kernel::Source::prepare(plan, &path), &mut kernel_trouble)).transpose();
        let kernel = match prepared {
            Ok(prepared) => prepared.flatten(),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&path);
                return Err(error);
            }
        };
        if kernel.is_none() {
            // A reader would take the files of an incomplete preparation for kernel pages.
            let _ = std::fs::remove_dir_all(path.join("kernel"));
        }
        let clock = calibration.finish();
        let user = path.join("user");
        let uuid = Uuid::random().map_err(Error::io("read", "/dev/urandom"))?;
        let steady = options.steady.map(|(steady, nice)| steady.attempt(nice));
        let env: Vec<(&str, String)> = steady.iter().flatten().map(|granted| ("steady", granted.to_string())).collect();
        let metadata = Metadata::create(&user, &uuid, &clock, &recording::host(), options.probe_cost_ns, &env)
            .map_err(Error::io("make", user.join("metadata")))?;
        let reserve = Reserve::make(&home.path());
        let now = Instant::now();
        let (max_size, max_age) = (options.max_size.or(config.max_size), options.max_age.or(config.max_age));
        // Stack samples and interface packets cannot be overwritten in place. In overwrite mode
        // they would fill the disk of a recorder that runs for days, so a limit of size is implied.
        // Pages of the kernel's overwriting buffers are not divided into chunks yet.
        let context = (options.stacks.is_some() || interfaces.is_some()) && kernel.is_none();
        let implied = match options.mode.or(config.mode) == Some(Mode::Overwrite) {
            true => context.then_some(chunks::FLIGHT),
            false => options.default_max_size,
        };
        let implied = implied.filter(|_| max_size.is_none() && max_age.is_none());
        let chunks = Chunks::new(max_size.or(implied), max_age);
        let mut recorder = Recorder {
            place,
            others: Vec::new(),
            search: Search::default(),
            neighbours: None,
            streams: 0,
            options,
            config,
            config_seen,
            chosen: 0,
            path,
            home,
            uuid,
            clock,
            session,
            metadata,
            lanes: Vec::new(),
            closed: BTreeMap::new(),
            captures: HashMap::new(),
            outputs: Vec::new(),
            predecessor,
            reserve,
            epoll,
            directory_changed: true,
            mailbox: None,
            requests_changed: false,
            watches: Watches::default(),
            chunks,
            deaths: true,
            ancestor: None,
            start,
            residual: 0,
            diagnostics: BTreeMap::new(),
            total: Totals::default(),
            why_refused: String::new(),
            last_turn: now,
            pace: SHORTEST,
            disk: Disk::default(),
            last_second: now,
            last_birth: now,
            scratch: Vec::new(),
            kernel,
            kernel_entry: None,
            kernel_trouble,
            stacks: None,
            stacks_told: None,
            stacks_trouble: None,
            interfaces,
            interfaces_told: None,
            interfaces_trouble,
            described: None,
            steady,
        };
        if let (Some(unfinished), None) = (&unfinished, &recorder.predecessor) {
            recorder.diagnostic(format!("the recording {} before this one did not end and cannot be found", unfinished.path.display()));
        }
        for note in tidied {
            recorder.diagnostic(note);
        }
        if source != preferred {
            recorder
                .diagnostic("this kernel's tracer cannot read the time-stamp counter, so all times are of CLOCK_MONOTONIC_RAW".to_owned());
        }
        if let Some(Err(why)) = &mut recorder.steady {
            *why = format!("the command runs like any other: {why}");
            let trouble = why.clone();
            recorder.diagnostic(trouble);
        }
        let (name, session) = recorder.environment();
        recorder.search.look((name, &session));
        recorder.tidy()?;
        recorder.begin_kernel();
        recorder.begin_stacks();
        recorder.begin_interfaces();
        recorder.open_mailbox();
        recorder.describe(None)?;
        if stop.is_some() {
            crate::control::watchdog::watch(&recorder.path);
        }
        recorder.place.held.publish(&recorder.path, &recorder.default_order());
        // The watch reports processes that appear from now on; the search finds those that exist
        // already.
        recorder.neighbours = RuntimeWatch::new(&recorder.epoll);
        recorder.search_other_directories(true)?;
        recorder.turn()?;
        if let Some(predecessor) = recorder.predecessor.take() {
            predecessor.close();
        }
        Ok(recorder)
    }

    /// Path of the recording's folder; with a limit of size or age, that of the newest chunk.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a channel that receives the path of each further chunk, once the chunk before it is
    /// complete.
    pub fn chunks(&mut self) -> Receiver<PathBuf> {
        let (told, chunks) = channel();
        self.chunks.told = Some(told);
        chunks
    }

    /// Unix time in ns by the clock of the recording's events, which ignores later changes of the
    /// system time.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.unix_ns(self.clock.now()).max(0) as u64
    }

    pub(crate) fn start_ns(&self) -> u64 {
        self.start
    }

    /// Sets the start of a new chunk.
    pub(crate) fn begins(&mut self, unix_ns: u64) {
        self.start = unix_ns;
    }

    /// Makes the metadata file of a recording at `path`.
    pub(crate) fn new_metadata(&self, path: &Path, uuid: &Uuid) -> Result<Metadata, Error> {
        let env: Vec<(&str, String)> = self.steady.iter().flatten().map(|granted| ("steady", granted.to_string())).collect();
        let user = path.join("user");
        Metadata::create(&user, uuid, &self.clock, &recording::host(), self.options.probe_cost_ns, &env)
            .map_err(Error::io("make", user.join("metadata")))
    }

    /// Longest time between two looks at a ring.
    pub fn period(&self) -> Duration {
        self.config.period
    }

    /// Limit of the recording's bytes on the disk.
    pub fn max_size(&self) -> Option<u64> {
        self.chunks.max_size()
    }

    /// True if the kernel's events are recorded.
    pub fn records_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// True if stacks are sampled.
    pub fn records_stacks(&self) -> bool {
        self.stacks.is_some()
    }

    /// True if packets of network devices are captured.
    pub fn records_interfaces(&self) -> bool {
        self.interfaces.is_some()
    }

    /// Reasons why something that was asked for is missing: kernel events, stacks, packets of
    /// interfaces, or the scheduling of the command.
    pub fn troubles(&self) -> impl Iterator<Item = &str> {
        let steady = self.steady.as_ref().and_then(|steady| steady.as_ref().err());
        let sources = [&self.kernel_trouble, &self.stacks_trouble, &self.interfaces_trouble];
        sources.into_iter().flatten().chain(steady).map(String::as_str)
    }

    /// Adds a diagnostic to the recording's description.
    pub fn note(&mut self, text: &str) {
        self.diagnostic(text.to_owned());
    }

    /// Environment variable (name, value) by which the recorder recognizes the command and its
    /// descendants.
    pub fn environment(&self) -> (&'static str, String) {
        ("LONGPOLE_SESSION", self.session.to_string())
    }

    /// With [`Scope::Descendants`]: records what the process `pid` starts.
    pub fn follow(&mut self, pid: i32) {
        self.ancestor = Some(pid);
        // Scheduling that the command really has, read while it is alive.
        if let (Some(Ok(expected)), Ok(granted)) = (&self.steady, Granted::of(pid)) {
            if *expected != granted {
                self.diagnostic(format!("the command runs with {granted}, not with {expected}"));
            }
            self.steady = Some(Ok(granted));
        }
    }

    /// Order for a process that the recorder has not seen yet: the union of all policies.
    pub(crate) fn default_order(&self) -> Order {
        let all = self.config.policy.iter().map(|policy| self.config.manner(Some(policy)));
        let manner = self.manner(all.reduce(FullRingAction::common).unwrap_or_else(|| self.config.manner(None)));
        let mut order = Order {
            mask: 0,
            mode: manner.mode.number(),
            block_limit: manner.limit(),
            ring_size: self.options.buffer.unwrap_or(RING_MINIMUM) as u32,
            snaplen: DEFAULT_SNAPLEN,
            clock: self.clock.source.number(),
            session: self.session,
        };
        if self.config.enable && !matches!(self.options.scope, Scope::Process(_)) && self.options.selection.is_none() {
            order.mask = match self.config.policy.as_slice() {
                [] => ALL_CATEGORIES,
                policies => policies.iter().fold(0, |mask, policy| mask | policy.events),
            };
            let snaplen = self.config.policy.iter().map(|policy| policy.packets.snaplen).max();
            order.snaplen = snaplen.unwrap_or(DEFAULT_SNAPLEN);
        }
        order
    }

    /// Order for one process, and the ring size in bytes that its policies ask for.
    pub(crate) fn order_for(&self, label: &str, pid: i32, wanted: bool) -> (Order, Option<u64>) {
        let mut order = Order { mask: 0, ..self.default_order() };
        let part = Part::process(label, pid);
        let (wanted, chosen) = match &self.options.selection {
            Some(selection) => (wanted && selection.touches(&part), selection.buffer(&part)),
            None => (wanted, None),
        };
        let choice = if wanted { self.config.for_process(label) } else { None };
        let buffer = self.options.buffer.or(chosen).or(choice.and_then(|choice| choice.buffer));
        if let Some(choice) = choice {
            order.mask = choice.mask;
            order.snaplen = choice.snaplen;
            let manner = self.manner(choice.manner);
            (order.mode, order.block_limit) = (manner.mode.number(), manner.limit());
        }
        order.ring_size = buffer.unwrap_or(RING_MINIMUM) as u32;
        (order, buffer)
    }

    /// Takes all events that the rings hold now. Returns the longest time until the next turn.
    pub fn turn(&mut self) -> Result<Duration, Error> {
        self.reload();
        self.choose_again();
        self.search_if_reported();
        let (changed, deaths) = (std::mem::take(&mut self.directory_changed), std::mem::take(&mut self.deaths));
        let mut pressure: f64 = 0.0;
        self.in_each_directory(|recorder| {
            if changed || std::mem::take(&mut recorder.place.missed) {
                recorder.scan()?;
            } else {
                recorder.take_up_reported();
            }
            if deaths {
                recorder.mark_dead();
            }
            recorder.visit();
            pressure = pressure.max(recorder.drain(false));
            recorder.reap();
            Ok::<(), Error>(())
        })?;
        self.flush_captures();
        self.write_outputs(false);
        self.note_switched_off()?;
        if std::mem::take(&mut self.requests_changed) {
            self.answer_requests();
        }
        let watching = self.watch();
        self.rotate_if_due();
        let now = Instant::now();
        if now - self.last_second >= SECOND {
            self.last_second = now;
            self.follow_moved_folder()?;
            self.each_second();
        }
        let since = now - self.last_turn;
        if self.clock.ticks(since) >= 1 << 47 {
            self.diagnostic(format!(
                "the recorder stood still for {} s; times of events that were written meanwhile may be wrong",
                since.as_secs()
            ));
        }
        self.last_turn = now;
        let patience = self.neighbours.as_ref().and_then(|neighbours| neighbours.patience(now));
        let longest = [watching, patience].into_iter().flatten();
        self.pace = self.interval(pressure, since, now);
        Ok(longest.fold(self.pace, Duration::min))
    }

    /// Searches the runtime directories of other users after a process appeared in one of them.
    fn search_if_reported(&mut self) {
        let began = Instant::now();
        if !self.neighbours.as_mut().is_some_and(|neighbours| neighbours.asks(began)) {
            return;
        }
        if let Err(error) = self.search_other_directories(false) {
            self.diagnostic(error.to_string());
        }
        self.directory_changed = true;
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.searched(began);
        }
    }

    /// Time until the next turn: rings should be at most half full by then if they fill at the same
    /// rate as since the last turn.
    fn interval(&self, pressure: f64, since: Duration, now: Instant) -> Duration {
        let period = self.config.period;
        if now - self.last_birth < UNKNOWN {
            return SHORTEST.min(period);
        }
        // `pressure` is the largest share of a ring that was filled since the last turn; the
        // interval aims at three eighths. For a ring that was full, the rate is unknown. A thread
        // that was slow may only have had no CPU for a moment and may be faster afterwards, so the
        // interval at most doubles from turn to turn.
        let calm = match pressure {
            full if full >= 1.0 => SHORTEST,
            some if some > 0.0 => since.max(SHORTEST).mul_f64((0.375 / some).min(1000.0)),
            _ => period,
        };
        calm.min(self.pace.max(SHORTEST) * 2).clamp(SHORTEST.min(period), period)
    }

    /// Sleeps until a turn is due: `longest` has passed, a process appeared or ended, or a signal
    /// or a request arrived.
    pub fn wait(&mut self, longest: Duration) {
        let timeout = rustix::time::Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: i64::from(longest.subsec_nanos()) };
        let mut events: [std::mem::MaybeUninit<epoll::Event>; 64] = [std::mem::MaybeUninit::uninit(); 64];
        let Ok((ready, _)) = epoll::wait(&self.epoll, &mut events, Some(&timeout)) else { return };
        let mut tokens = [0; 64];
        let count = ready.len();
        for (token, event) in tokens.iter_mut().zip(ready.iter()) {
            *token = event.data.u64();
        }
        for token in &tokens[..count] {
            match *token {
                TOKEN_DIRECTORY => {
                    // The rate of a new ring is unknown, and its process may not have announced the
                    // ring yet.
                    self.pace = Duration::ZERO;
                    self.place.hear();
                    self.others.iter_mut().for_each(Place::hear);
                }
                TOKEN_OTHER_DIRECTORIES => {
                    if let Some(neighbours) = &mut self.neighbours {
                        let taken =
                            [&self.place].into_iter().chain(&self.others).map(|place| place.runtime.path().to_owned()).collect::<Vec<_>>();
                        neighbours.hear(|path| taken.iter().any(|other| other.ends_with(path.strip_prefix("/").unwrap_or(path))));
                    }
                }
                TOKEN_STOP => {
                    if let Some(wake) = Stop.wake() {
                        let _ = rustix::io::read(wake, &mut [0u8; 8]);
                    }
                }
                TOKEN_REQUEST => self.requests_changed = true,
                _ => self.deaths = true,
            }
        }
    }

    fn each_second(&mut self) {
        self.directory_changed = true;
        self.deaths = true;
        self.forget_the_dead();
        self.sample_clock();
        if let Err(error) = self.search_other_directories(false) {
            self.diagnostic(error.to_string());
        }
        if let Err(error) = self.describe(None) {
            self.diagnostic(error.to_string());
        }
    }

    fn sample_clock(&mut self) {
        let residual = self.clock.residual_ns();
        if residual.abs() > self.residual.abs() {
            self.residual = residual;
        }
    }

    /// Reads the configuration again if its file has changed.
    fn reload(&mut self) {
        let Some(path) = &self.options.config else { return };
        let seen = version(path);
        if seen.is_none() || seen == self.config_seen {
            return;
        }
        self.config_seen = seen;
        match Config::read(path) {
            Ok(config) => {
                self.config = config;
                let _ = self.in_each_directory(|recorder| {
                    recorder.place.held.order(&recorder.default_order());
                    recorder.decide_again();
                    Ok::<(), Error>(())
                });
                eprintln!("longpole: took the new configuration");
            }
            Err(error) => {
                eprintln!("longpole: the configuration stays as it was: {error}");
                self.diagnostic(format!("a new configuration was refused: {}", error.to_string().lines().next().unwrap_or("")));
            }
        }
    }

    /// Decides again about all processes if the selection has changed.
    fn choose_again(&mut self) {
        let Some(version) = self.options.selection.as_ref().map(Selection::version) else { return };
        if std::mem::replace(&mut self.chosen, version) != version {
            let _ = self.in_each_directory(|recorder| {
                recorder.decide_again();
                Ok::<(), Error>(())
            });
        }
    }

    /// Records something unexpected for the readers of the recording. Equal texts are counted.
    pub(crate) fn diagnostic(&mut self, text: String) {
        if self.diagnostics.len() < MOST_DIAGNOSTICS || self.diagnostics.contains_key(&text) {
            *self.diagnostics.entry(text).or_insert(0) += 1;
        }
    }

    fn diagnostics(&self) -> Vec<String> {
        let times = |(text, count): (&String, &u64)| match count {
            1 => text.clone(),
            count => format!("{text} ({count} times)"),
        };
        self.diagnostics.iter().map(times).collect()
    }
}

/// Modification time and size: together they identify a version of the file.
fn version(path: &Path) -> Option<(SystemTime, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Each process and each stream file needs a descriptor. The command is started with the old limit;
/// see the verb.
fn raise_file_limit() {
    use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
