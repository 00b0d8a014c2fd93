//! A recording from its first to its last moment.
//!
//! The recorder does everything in turns on one thread: look who is there, say what is to be recorded, look at all rings, take what they
//! hold. The caller decides when a turn comes and when the last one has been; [`Recorder::wait`] sleeps until something calls for
//! the next.

mod ending;
mod home;
mod sources;

use crate::clock::{unix_now, Calibration, Clock, Source as ClockSource};
use crate::control::mailbox::Mailbox;
use crate::control::policy::{Config, Manner, Mode, DEFAULT_SNAPLEN};
use crate::control::recovery::Predecessor;
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
use crate::runtime_dir::claim;
use crate::runtime_dir::foreign::Search;
use crate::runtime_dir::process::{Process, Source};
use crate::runtime_dir::recorded::Place;
use crate::runtime_dir::session::Order;
use crate::runtime_dir::watch::RuntimeWatch;
use crate::runtime_dir::Runtime;
use crate::stacks::{self, SampleOutcome, Stacks, StacksError};
pub(crate) use home::Home;
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

/// Whose events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All programs of the user.
    Everything,
    /// One process.
    Process(i32),
    /// What a command starts; see [`Recorder::follow`].
    Descendants,
}

impl Scope {
    /// The process, if it is one.
    pub(crate) fn alone(self) -> Option<i32> {
        match self {
            Scope::Process(pid) => Some(pid),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    /// `-o`; else as the configuration says, else `LONGPOLE_ROOT`, else `traces`.
    pub root: Option<PathBuf>,
    /// Configuration file.
    pub config: Option<PathBuf>,
    pub scope: Scope,
    /// Of these, only whom somebody chooses meanwhile.
    pub selection: Option<Selection>,
    /// Size of every ring in bytes, whatever policies say.
    pub buffer: Option<u64>,
    /// What a full ring does, whatever policies say; overwriting, also the kernel's buffers.
    pub mode: Option<Mode>,
    /// Bytes on the disk, and age of the oldest event, beyond which the oldest part goes.
    pub max_size: Option<u64>,
    pub max_age: Option<Duration>,
    /// Told in the description.
    pub command: Vec<String>,
    /// What one event costs the thread that writes it, where that was measured.
    pub probe_cost_ns: Option<f64>,
    /// What of the kernel; none: nothing.
    pub kernel: Option<kernel::Request>,
    /// How often a second the stack of what each CPU runs is taken; none: never.
    pub stacks: Option<u32>,
    /// Whose packets, in place of those that the configuration names; an empty list: nobody's.
    pub packets: Option<Vec<interfaces::Pattern>>,
    /// How the command shall run, and the nice value that it would have had.
    pub steady: Option<(Steady, i32)>,
    /// Bytes kept of a packet of an interface, in place of what the configuration says.
    pub snaplen: Option<u32>,
}

/// What came of a recording.
#[derive(Debug)]
pub struct Outcome {
    pub path: PathBuf,
    /// Bytes of events.
    pub recorded: u64,
    /// Events.
    pub lost: u64,
    pub lanes: usize,
    /// None if the kernel was not recorded.
    pub kernel: Option<KernelOutcome>,
    /// None if no stacks were sampled.
    pub samples: Option<SampleOutcome>,
    /// None if no interface was captured.
    pub interfaces: Option<InterfacesOutcome>,
    /// Packets in capture files.
    pub packets: u64,
    /// Why there is nothing in it.
    pub empty: Option<String>,
    pub diagnostics: Vec<String>,
}

/// What came of the kernel's events.
#[derive(Clone, Copy, Debug)]
pub struct KernelOutcome {
    pub events: u64,
    /// Events that the kernel counted as lost.
    pub lost: u64,
    pub cpus: usize,
}

/// What came of the packets of interfaces.
#[derive(Clone, Copy, Debug)]
pub struct InterfacesOutcome {
    pub packets: u64,
    /// Packets that are not in the file, although they were seen.
    pub lost: u64,
    pub interfaces: usize,
}

/// Shortest time between two turns.
const SHORTEST: Duration = Duration::from_millis(1);
/// For so long after a birth, nobody knows yet how busy the newcomer is.
const UNKNOWN: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
/// Different oddities that are kept.
const MOST_DIAGNOSTICS: usize = 100;

pub(crate) const TOKEN_DIRECTORY: u64 = 1;
pub(crate) const TOKEN_STOP: u64 = 2;
pub(crate) const TOKEN_PROCESS: u64 = 3;
pub(crate) const TOKEN_REQUEST: u64 = 4;
pub(crate) const TOKEN_NEIGHBOURS: u64 = 5;

/// A process and its rings.
#[derive(Debug)]
pub(crate) struct Subject {
    pub process: Process,
    pub sources: Vec<Source>,
    /// Within the scope.
    pub wanted: bool,
    /// This recorder's, and no other's; of others there are no sources.
    pub claimed: bool,
    /// It was said that it is another's.
    pub told_taken: bool,
    /// It is of another recorder's command; not asked again before.
    pub anothers_until: Option<Instant>,
    /// In which nothing came from it, though it is claimed and not to be recorded.
    pub silent_turns: u32,
    pub order: Order,
    /// Sizes that its policies ask for.
    pub buffer: Option<u64>,
    pub ended: bool,
    /// Rings that are not read; their memory is freed with the process's.
    pub ignored: Vec<String>,
    /// Turns since it ended.
    pub turns_dead: u32,
}

#[derive(Debug)]
pub struct Recorder {
    /// The own one; another only while [`Recorder::in_each_place`] is there.
    pub(crate) place: Place,
    pub(crate) others: Vec<Place>,
    pub(crate) search: Search,
    neighbours: Option<RuntimeWatch>,
    /// The newest stream class.
    pub(crate) streams: u32,
    pub(crate) options: Options,
    pub(crate) config: Config,
    config_seen: Option<(SystemTime, u64)>,
    /// The choice that was looked at.
    chosen: u64,
    pub(crate) path: PathBuf,
    pub(crate) home: Home,
    pub(crate) uuid: Uuid,
    pub(crate) clock: Clock,
    pub(crate) session: u64,
    pub(crate) metadata: Metadata,
    pub(crate) lanes: Vec<Option<Lane>>,
    /// What is told of lanes that are closed, by number.
    pub(crate) closed: BTreeMap<u32, serde_json::Value>,
    pub(crate) captures: HashMap<String, Capture>,
    /// Streams of the command whose lines are recorded.
    pub(crate) outputs: Vec<Output>,
    pub(crate) predecessor: Option<Predecessor>,
    pub(crate) reserve: Reserve,
    pub(crate) epoll: OwnedFd,
    pub(crate) directory_changed: bool,
    pub(crate) mailbox: Option<Mailbox>,
    pub(crate) requests_changed: bool,
    pub(crate) watches: Watches,
    pub(crate) chunks: Chunks,
    /// Some process may have ended.
    pub(crate) deaths: bool,
    pub(crate) ancestor: Option<i32>,
    start: u64,
    residual: i64,
    diagnostics: BTreeMap<String, u64>,
    pub(crate) total: Totals,
    /// Of the newest events without a ring.
    pub(crate) why_refused: String,
    pub(crate) last_turn: Instant,
    /// Until the next turn, by how fast rings fill.
    pace: Duration,
    pub(crate) disk: Disk,
    last_second: Instant,
    pub(crate) last_birth: Instant,
    pub(crate) scratch: Vec<u8>,
    kernel: Option<kernel::Source>,
    /// As the description has it, once it is complete.
    kernel_told: Option<serde_json::Value>,
    kernel_trouble: Option<String>,
    stacks: Option<Stacks>,
    stacks_told: Option<serde_json::Value>,
    stacks_trouble: Option<String>,
    interfaces: Option<interfaces::Source>,
    interfaces_told: Option<serde_json::Value>,
    interfaces_trouble: Option<String>,
    /// The newest description, as a hash: one that says the same is not written again.
    described: Option<u64>,
    /// What the scheduler grants to the command, or why it does not.
    steady: Option<Result<Granted, String>>,
}

/// Sums over the recording.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub recorded: u64,
    /// Bytes of streams on the disk: packets are padded to pages.
    pub written: u64,
    pub lost: u64,
    pub refused: u64,
    /// Processes with probes that were seen.
    pub processes: u64,
    /// Those left out because of the scope or of policies.
    pub unwanted: u64,
    /// Those that another recorder had.
    pub taken: u64,
    /// Bytes of events that no policy wanted.
    pub dropped: u64,
    /// Bytes of events of threads of which only packets are wanted.
    pub packets_only: u64,
    /// Captured packets, and those of them that could not be written.
    pub packets: u64,
    pub packets_refused: u64,
    /// Nanoseconds that threads say they waited for room.
    pub waited: u64,
}

impl Recorder {
    /// From the return of this function on, everything that is wanted is recorded.
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
        // The kernel's tracer and the programs must count the same.
        let source = plan.as_ref().map_or(preferred, |plan| plan.clock.1);
        let calibration = Calibration::begin(source);
        let config_seen = options.config.as_deref().and_then(version);
        raise_file_limit();
        let runtime = Runtime::create(&Runtime::default_path())?;
        let start = unix_now();
        // Microseconds, so that readers of JSON that know only doubles keep it exact.
        let session = start / 1000;
        let (held, unfinished) = claim::take(&runtime, options.scope, session)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| Error::io("make", "epoll")(error.into()))?;
        if let Some(wake) = stop.and_then(Stop::wake) {
            let _ = epoll::add(&epoll, wake, epoll::EventData::new_u64(TOKEN_STOP), epoll::EventFlags::IN);
        }
        let place = Place::new(runtime, held, 0, None, &epoll);
        let root = options.root.clone().or_else(|| config.root.clone()).unwrap_or_else(recording::root);
        let predecessor = unfinished.as_ref().and_then(Predecessor::open);
        let tidied = kernel::reap::all();
        let path = recording::create(&root, start)?;
        let home = Home::open(&path)?;
        // What this takes falls into the time that the calibration waits anyway.
        let prepared = plan.map(|plan| without_kernel(kernel::Source::prepare(plan, &path), &mut kernel_trouble)).transpose();
        let kernel = match prepared {
            Ok(prepared) => prepared.flatten(),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&path);
                return Err(error);
            }
        };
        if kernel.is_none() {
            // Half a preparation must not look like pages.
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
        // What cannot overwrite would fill the disk of a recorder that is to run for days. The kernel's pages that overwrite do not go along yet.
        let context = (options.stacks.is_some() || interfaces.is_some()) && kernel.is_none();
        let flight = options.mode.or(config.mode) == Some(Mode::Overwrite) && context;
        let implied = (flight && max_size.is_none() && max_age.is_none()).then_some(chunks::FLIGHT);
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
            kernel_told: None,
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
            crate::output::watchdog::watch(&recorder.path);
        }
        recorder.place.held.publish(&recorder.path, &recorder.default_order());
        // Who comes from now on is heard; who was there is found.
        recorder.neighbours = RuntimeWatch::new(&recorder.epoll);
        recorder.search_elsewhere(true)?;
        recorder.turn()?;
        if let Some(predecessor) = recorder.predecessor.take() {
            predecessor.close();
        }
        Ok(recorder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells each chunk that comes after this one, when the one before is complete.
    pub fn chunks(&mut self) -> Receiver<PathBuf> {
        let (told, chunks) = channel();
        self.chunks.told = Some(told);
        chunks
    }

    /// Unix time by the recording's clock, which nobody sets: that of its events.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.unix_ns(self.clock.now()).max(0) as u64
    }

    pub(crate) fn start_ns(&self) -> u64 {
        self.start
    }

    /// What follows is a new chunk.
    pub(crate) fn begins(&mut self, unix_ns: u64) {
        self.start = unix_ns;
    }

    /// The metadata of a recording at `path`.
    pub(crate) fn new_metadata(&self, path: &Path, uuid: &Uuid) -> Result<Metadata, Error> {
        let env: Vec<(&str, String)> = self.steady.iter().flatten().map(|granted| ("steady", granted.to_string())).collect();
        let user = path.join("user");
        Metadata::create(&user, uuid, &self.clock, &recording::host(), self.options.probe_cost_ns, &env)
            .map_err(Error::io("make", user.join("metadata")))
    }

    /// The longest time between two looks at a ring.
    pub fn period(&self) -> Duration {
        self.config.period
    }

    /// Why something is not as it was asked for: the kernel, stacks, the packets of interfaces, a steady run.
    pub fn troubles(&self) -> impl Iterator<Item = &str> {
        let steady = self.steady.as_ref().and_then(|steady| steady.as_ref().err());
        let sources = [&self.kernel_trouble, &self.stacks_trouble, &self.interfaces_trouble];
        sources.into_iter().flatten().chain(steady).map(String::as_str)
    }

    /// Tells something in the recording's description.
    pub fn note(&mut self, text: &str) {
        self.diagnostic(text.to_owned());
    }

    /// What a command must have in its environment to be known as the one that is followed.
    pub fn environment(&self) -> (&'static str, String) {
        ("LONGPOLE_SESSION", self.session.to_string())
    }

    /// With [`Scope::Descendants`]: record what this process starts.
    pub fn follow(&mut self, pid: i32) {
        self.ancestor = Some(pid);
        // What the command has in truth, while it has it.
        if let (Some(Ok(expected)), Ok(granted)) = (&self.steady, Granted::of(pid)) {
            if *expected != granted {
                self.diagnostic(format!("the command runs with {granted}, not with {expected}"));
            }
            self.steady = Some(Ok(granted));
        }
    }

    /// What processes do that nobody has looked at yet.
    pub(crate) fn default_order(&self) -> Order {
        let all = self.config.policy.iter().map(|policy| self.config.manner(Some(policy)));
        let manner = self.manner(all.reduce(Manner::common).unwrap_or_else(|| self.config.manner(None)));
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

    /// What one process does.
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

    /// Takes all that is there now. Returns when the next turn should come at the latest.
    pub fn turn(&mut self) -> Result<Duration, Error> {
        self.reload();
        self.choose_again();
        self.look_at_neighbours();
        let (changed, deaths) = (std::mem::take(&mut self.directory_changed), std::mem::take(&mut self.deaths));
        let mut pressure: f64 = 0.0;
        self.in_each_place(|recorder| {
            if changed || std::mem::take(&mut recorder.place.missed) {
                recorder.scan()?;
            } else {
                recorder.take_up_heard();
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
            self.stay_at_home()?;
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

    /// Somebody has come to the runtime directory of another user.
    fn look_at_neighbours(&mut self) {
        let began = Instant::now();
        if !self.neighbours.as_mut().is_some_and(|neighbours| neighbours.asks(began)) {
            return;
        }
        if let Err(error) = self.search_elsewhere(false) {
            self.diagnostic(error.to_string());
        }
        self.directory_changed = true;
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.searched(began);
        }
    }

    /// Rings shall be at most half full at the next turn, if things go on as they did since the last one.
    fn interval(&self, pressure: f64, since: Duration, now: Instant) -> Duration {
        let period = self.config.period;
        if now - self.last_birth < UNKNOWN {
            return SHORTEST.min(period);
        }
        // `pressure` is the largest share of a ring that filled up meanwhile; aim at three eighths. How fast a ring fills that was full is not known. Who was
        // slow for a moment may have had no CPU, and be faster than before when he has one again: so it becomes longer in steps.
        let calm = match pressure {
            full if full >= 1.0 => SHORTEST,
            some if some > 0.0 => since.max(SHORTEST).mul_f64((0.375 / some).min(1000.0)),
            _ => period,
        };
        calm.min(self.pace.max(SHORTEST) * 2).clamp(SHORTEST.min(period), period)
    }

    /// Sleeps until a turn is due: the time is over, a process came or went, or a signal arrived.
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
                    // How fast a new ring fills is not known yet, nor may its process have said that it is there.
                    self.pace = Duration::ZERO;
                    self.place.hear();
                    self.others.iter_mut().for_each(Place::hear);
                }
                TOKEN_NEIGHBOURS => {
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
        if let Err(error) = self.search_elsewhere(false) {
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

    /// The configuration is taken again when its file changes.
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
                let _ = self.in_each_place(|recorder| {
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

    /// Somebody may have chosen others.
    fn choose_again(&mut self) {
        let Some(version) = self.options.selection.as_ref().map(Selection::version) else { return };
        if std::mem::replace(&mut self.chosen, version) != version {
            let _ = self.in_each_place(|recorder| {
                recorder.decide_again();
                Ok::<(), Error>(())
            });
        }
    }

    /// Something that whoever reads the recording should know. Equal ones are counted.
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

/// Modification time and size: what tells a changed file.
fn version(path: &Path) -> Option<(SystemTime, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Every process and lane takes a descriptor. A command that is started gets the old limit back, see the verb.
fn raise_file_limit() {
    use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
