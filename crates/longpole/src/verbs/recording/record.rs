//! `longpole record`: records while a command runs, for a given time, or until a signal ends it.
//!
//! `start` has the same options and also calls [`record`]; `util` calls [`run_until_the_end`]. A
//! command keeps its own exit status: a recorder that fails prints the reason and lets the command
//! run to its end.

mod command;
mod java;
mod outcome;
mod runtimes;
mod units;

pub use command::run_until_the_end;
pub use outcome::{code_of, print as print_outcome};
pub use units::{bytes, duration, size};

use crate::log::Log;
use crate::render::terminal::conversion;
use anyhow::{bail, Context};
use command::{lives, process_of_thread, Inherited, Recorded, Started};
use longpole_predicate::glob;
use longpole_record::control::steady::Steady;
use longpole_record::interfaces::Pattern;
use longpole_record::kernel::{Context as EventContext, EventRequest, Group, KernelError, Request, RequestError};
use longpole_record::stacks::Rates;
use longpole_record::{Mode, Options, Recorder, Scope, Stop};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "Examples:
  longpole record -- ./my-system --its-options   record what this command starts, until it ends; as root the kernel, too
  longpole record --for 10s                      record everything with probes for ten seconds
  longpole record --pid 1234                     record one process until Ctrl-C
  longpole record -c policies.toml -o traces     choose by label; the file is read again when it changes
  longpole record --kernel sched,irq -- make     of the kernel: scheduling and interrupts
  longpole record --kernel none -- ./my-system   programs with probes only
  longpole record --kernel none --event 'block:block_rq_*' --for 5s
                                                 of the kernel only these events
  longpole record --stacks 999 -- ./my-system    sample what the CPUs run, 999 times a second
  longpole record --stacks-waiting 999 -- make   more stacks of waits and wake-ups
  longpole record --event 'block:block_rq_issue:bytes > 65536' --for 5s
                                                 an event with a filter in the kernel's language
  longpole record --packets 'eth*,lo' -- ./my-system
                                                 and the packets of these network devices
  longpole record --log --kernel none            and the events as text while they come
  longpole record --capture-output -- ./my-system
                                                 and the lines that it prints, on the timeline
  longpole record --runtimes -- python3 app.py   and the names of Python's own functions in stacks
  longpole record --steady=fifo -- ./my-system   the command before all others, so that nobody takes its CPU away

Groups of kernel events: sched irq softirq ipi timer net skb block syscall futex lock fault workqueue io_uring signal power.
The kernel's events are those of the whole host, whatever is recorded of programs. They need root; root mounts
tracefs for the recorder alone if it is not mounted. Without them the rest is recorded, and `longpole check` says what to do.

What is recorded, where to, and how it ends is printed to stderr before the command starts, the path of the recording again at
the end. A recording without a command, --pid, --for, --max-size and --max-age has a limit of 10 GiB; beyond it the oldest part
is removed. Ctrl-C and kill -INT end every recording.

With a command, the exit status is the command's (128 + the signal that ended it); 2 for wrong usage, 125 if the recording
could not begin. A recording that captured nothing says why and exits with 1.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directory for the recording's own directory [default: $LONGPOLE_ROOT, else traces]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Configuration (TOML): which events to record of which subjects
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// End after this time: 10s, 500ms, 2min
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub time: Option<Duration>,
    /// Record this process only
    #[arg(short, long, value_name = "PID", conflicts_with = "all")]
    pub pid: Option<i32>,
    /// With a command: also record everything else that has probes
    #[arg(long)]
    pub all: bool,
    /// Size of each thread's ring: 64KiB, 4MiB [default: 32 KiB, larger when busy]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub buffer: Option<u64>,
    /// What a full ring does: discard the newest, overwrite the oldest (a flight recorder), or
    /// block the thread for a bounded time [default: discard]
    #[arg(long, value_name = "discard|overwrite|block")]
    pub mode: Option<Mode>,
    /// Maximum size on disk; the oldest part is removed, and the removed events are counted
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub max_size: Option<u64>,
    /// Maximum age of recorded data: 10min, 2h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub max_age: Option<Duration>,
    #[command(flatten)]
    pub kernel: Kernel,
    #[command(flatten)]
    pub packets: Packets,
    /// Print the events of programs as they arrive, in the format of `longpole print`
    #[arg(long)]
    pub log: bool,
    /// Record the command's output line by line, and pass it on unchanged
    #[arg(long)]
    pub capture_output: bool,
    /// Make the command's Python, Node and Java name their functions in stacks, by their
    /// environment
    #[arg(long)]
    pub runtimes: bool,
    /// Protect the command from preemption: longest time slice, or SCHED_FIFO (needs root)
    #[arg(long, value_name = "slice|fifo", num_args = 0..=1, require_equals = true, default_missing_value = "slice", value_parser = steady)]
    pub steady: Option<Steady>,
    /// The command to run, after the options of longpole; `--` in front of it is optional
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Options for kernel events and stack samples.
#[derive(clap::Args, Clone)]
pub struct Kernel {
    /// Groups of kernel events, or none [default, as root:
    /// sched,irq,softirq,net,block,workqueue,syscall,fault, each in part]
    #[arg(long, value_name = "GROUP,…|none", value_parser = groups)]
    kernel: Option<Groups>,
    /// More kernel events; * matches any text, ? any letter, `all` means all events
    #[arg(long = "event", value_name = "SUBSYSTEM:NAME[:FILTER]")]
    events: Vec<EventRequest>,
    /// Never switch off a kind of kernel event when more come than can be stored: lose events of
    /// all kinds alike
    #[arg(long)]
    keep_all: bool,
    /// What each kernel event records about its thread: pid, ppid, comm, prio
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    context: Vec<EventContext>,
    /// Samples per second of the stack that each CPU runs, or none [default, as root: 99; with
    /// --kernel none: none]
    #[arg(long, value_name = "HZ|none", value_parser = stacks, overrides_with = "stacks")]
    stacks: Option<Stacks>,
    /// Sample the stacks of waits: of all that last 1 / HZ seconds or longer, of shorter ones by
    /// chance, and of the threads that end them; needs Linux 6.16
    /// [default, as root with stacks and the kernel group sched: 249]
    #[arg(long, value_name = "HZ|none", value_parser = stacks, overrides_with = "stacks_waiting")]
    stacks_waiting: Option<Stacks>,
}

/// Stack samples per second if the user gave no rate.
const DEFAULT_STACKS: u32 = 99;
/// Stack samples of a thread per second of its waiting if the user gave no rate. With this rate,
/// all waits longer than about 4 ms are sampled. A sample costs some 9 us, so that a rate of 999
/// would slow down a program that only switches between threads by 4 percent.
const DEFAULT_STACKS_WAITING: u32 = 249;
/// Highest accepted rate of stack samples per second. The kernel refuses higher rates.
const MAX_STACKS: u32 = 100_000;

/// Stack samples per second; `None` if no stacks are sampled.
#[derive(Clone, Copy)]
struct Stacks(Option<u32>);

fn stacks(text: &str) -> Result<Stacks, String> {
    match text {
        "none" => Ok(Stacks(None)),
        text => match text.parse() {
            Ok(hz @ 1..=MAX_STACKS) => Ok(Stacks(Some(hz))),
            _ => Err(format!("{text:?} is not a rate of stacks; write a number from 1 to {MAX_STACKS} (per second), or none")),
        },
    }
}

impl From<Option<Groups>> for Kernel {
    /// Returns the options of which only `--kernel` was given.
    fn from(kernel: Option<Groups>) -> Kernel {
        Kernel { kernel, events: Vec::new(), keep_all: false, context: Vec::new(), stacks: Some(Stacks(None)), stacks_waiting: None }
    }
}

/// Groups from one `--kernel` option. The list is a type of its own because clap would otherwise
/// treat a `Vec` as several values.
#[derive(Clone)]
pub struct Groups(Vec<Group>);

pub fn groups(text: &str) -> Result<Groups, RequestError> {
    match text {
        "none" => Ok(Groups(Vec::new())),
        text => text.split(',').map(|name| name.trim().parse()).collect::<Result<_, _>>().map(Groups),
    }
}

impl Kernel {
    /// Returns the request for the recorder; `None` if no kernel events are wanted or possible.
    pub fn request(&self) -> Option<Request> {
        let groups = match &self.kernel {
            Some(groups) => groups.0.clone(),
            None if rustix::process::geteuid().is_root() || longpole_record::kernel::available().is_ok() => Group::DEFAULT.to_vec(),
            None => Vec::new(),
        };
        let nothing = groups.is_empty() && self.events.is_empty();
        let light = self.kernel.is_none();
        let (events, context, keep_all) = (self.events.clone(), self.context.clone(), self.keep_all);
        (!nothing).then(|| Request { groups, light, events, context, keep_all, ..Request::default() })
    }

    /// Returns a note if the user gave no kernel option and the kernel cannot be recorded.
    pub fn note(&self) -> Option<String> {
        let silent = self.kernel.is_none() && self.events.is_empty();
        (silent && self.request().is_none())
            .then(|| "the kernel is not recorded: needs root (see longpole check); --kernel none silences this".to_owned())
    }

    /// Returns an error if options contradict each other.
    pub fn check(&self) -> Result<(), crate::WrongUsage> {
        let none = self.kernel.as_ref().is_some_and(|groups| groups.0.is_empty()) && self.events.is_empty();
        let wrong = |text: &str| Err(crate::WrongUsage(text.to_owned()));
        if matches!(self.stacks_waiting, Some(Stacks(Some(_)))) {
            if none {
                return wrong("--stacks-waiting needs kernel events, and --kernel none leaves them out");
            }
            if matches!(self.stacks, Some(Stacks(None))) {
                return wrong("--stacks-waiting needs stacks, and --stacks none leaves them out");
            }
            if self.kernel.is_some() && !self.has_switches() {
                return wrong("--stacks-waiting needs the switches between threads; add the group sched to --kernel");
            }
        }
        match none {
            true if !self.context.is_empty() => wrong("--context is for kernel events, and --kernel none leaves them out"),
            true if self.keep_all => wrong("--keep-all is for kernel events, and --kernel none leaves them out"),
            _ => Ok(()),
        }
    }

    /// Returns whether the recorded events include the switches between threads.
    fn has_switches(&self) -> bool {
        let is_switch = |event: &EventRequest| {
            let is_named = event.pattern == "all" || glob::matches(&event.pattern, "sched:sched_switch");
            is_named && event.filter.is_none()
        };
        self.request().is_some_and(|request| request.groups.contains(&Group::Sched) || request.events.iter().any(is_switch))
    }

    fn stacks(&self) -> Option<Rates> {
        let running = match (self.stacks, &self.kernel) {
            (Some(Stacks(requested)), _) => requested,
            // A user who excludes the kernel wants only the probes of programs.
            (None, Some(Groups(groups))) if groups.is_empty() => None,
            (None, _) => rustix::process::geteuid().is_root().then_some(DEFAULT_STACKS),
        }?;
        let waiting = match self.stacks_waiting {
            Some(Stacks(requested)) => requested,
            // The length of a wait is known only from the switches between threads.
            None => (rustix::process::geteuid().is_root() && self.has_switches()).then_some(DEFAULT_STACKS_WAITING),
        };
        Some(Rates { running, waiting })
    }

    /// Returns these options as arguments for another `longpole` process.
    pub fn arguments(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(Groups(groups)) = &self.kernel {
            let names: Vec<&str> = groups.iter().map(|group| group.name()).collect();
            all.push(format!("--kernel={}", if names.is_empty() { "none".to_owned() } else { names.join(",") }));
        }
        all.extend(self.events.iter().map(|event| format!("--event={event}")));
        all.extend(self.context.iter().map(|context| format!("--context={}", context.name())));
        all.extend(self.keep_all.then(|| "--keep-all".to_owned()));
        for (option, rate) in [("--stacks", self.stacks), ("--stacks-waiting", self.stacks_waiting)] {
            if let Some(Stacks(hz)) = rate {
                all.push(format!("{option}={}", hz.map_or_else(|| "none".to_owned(), |hz| hz.to_string())));
            }
        }
        all
    }
}

/// Options for packets of network interfaces.
#[derive(clap::Args, Clone)]
pub struct Packets {
    /// Capture the packets of these network devices (eth0, eth*, pid:1234/eth0), or none [default:
    /// none]
    #[arg(long = "packets", value_name = "IF,…|none", value_parser = interfaces)]
    interfaces: Option<Interfaces>,
    /// Bytes stored of each packet of these devices [default: 100]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    snaplen: Option<u32>,
}

#[derive(Clone)]
struct Interfaces(Vec<Pattern>);

fn interfaces(text: &str) -> Result<Interfaces, String> {
    match text {
        "none" => Ok(Interfaces(Vec::new())),
        text => text.split(',').map(|name| name.trim().parse()).collect::<Result<_, _>>().map(Interfaces),
    }
}

impl Packets {
    /// Returns these options as arguments for another `longpole` process.
    pub fn arguments(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(Interfaces(patterns)) = &self.interfaces {
            let names: Vec<String> = patterns.iter().map(ToString::to_string).collect();
            all.push(format!("--packets={}", if names.is_empty() { "none".to_owned() } else { names.join(",") }));
        }
        all.extend(self.snaplen.map(|snaplen| format!("--snaplen={snaplen}")));
        all
    }
}

fn steady(text: &str) -> Result<Steady, String> {
    match text {
        "slice" => Ok(Steady::Slice),
        "fifo" => Ok(Steady::Fifo),
        _ => Err(format!("{text:?} is not a value of --steady; write slice or fifo")),
    }
}

/// Limit of a recording that has neither a command nor an end nor a limit. As root the kernel alone
/// can emit some 10 MB a second, which fills a disk while nobody looks.
const DEFAULT_MAX_SIZE: u64 = 10 << 30;
/// Time between two checks of output that the command still prints.
const PAUSE: Duration = Duration::from_millis(5);
/// Nice value of the recorder, if it may choose one.
const URGENT: i32 = -10;
/// Exit status if the recorder itself fails, so that it can be distinguished from the command's.
pub const OWN_FAILURE: u8 = 125;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let with_command = !args.command.is_empty();
    if !with_command && std::env::args_os().next_back().is_some_and(|last| last == "--") {
        return Err(crate::WrongUsage("no command follows `--`; leave out `--` to record all programs with probes".to_owned()).into());
    }
    if !with_command && args.steady.is_some() {
        return Err(crate::WrongUsage("--steady is for a command that is started here: longpole record --steady -- CMD".to_owned()).into());
    }
    if !with_command && args.capture_output {
        let what = "--capture-output is for a command that is started here: longpole record --capture-output -- CMD";
        return Err(crate::WrongUsage(what.to_owned()).into());
    }
    if !with_command && args.runtimes {
        return Err(
            crate::WrongUsage("--runtimes is for a command that is started here: longpole record --runtimes -- CMD".to_owned()).into()
        );
    }
    args.kernel.check()?;
    let announcement = Announcement::of(&args);
    match record(args, |recorder| announcement.print(recorder)) {
        Ok(code) => Ok(code),
        Err(error) if with_command && !error.is::<crate::WrongUsage>() => {
            eprintln!("longpole: {}", crate::message(&error));
            Ok(ExitCode::from(OWN_FAILURE))
        }
        Err(error) => Err(error),
    }
}

/// What the user learns at the begin of a recording: what is recorded, where to, and how it ends.
struct Announcement {
    /// The programs whose probes are recorded.
    programs: String,
    /// The event that ends the recording.
    end: String,
}

impl Announcement {
    fn of(args: &Args) -> Announcement {
        let command = args.command.first().map(|program| program.to_string_lossy().into_owned());
        let programs = match (args.pid, &command) {
            (Some(pid), _) => format!("process {pid} if it has probes"),
            (None, Some(command)) if !args.all => format!("the programs with probes that {command} starts"),
            (None, _) => "all programs with probes".to_owned(),
        };
        let mut ends: Vec<String> = Vec::new();
        ends.extend(command.map(|command| format!("{command} ends")));
        ends.extend(args.pid.map(|pid| format!("process {pid} ends")));
        ends.extend(args.time.map(|time| format!("{time:?} have passed")));
        ends.push(format!("Ctrl-C (kill -INT {})", std::process::id()));
        Announcement { programs, end: ends.join(", or ") }
    }

    /// Prints to stderr what the recorder could begin, which may be less than what was requested.
    fn print(&self, recorder: &Recorder) {
        let of_host = [
            (recorder.records_kernel(), "the kernel's events"),
            (recorder.records_stacks(), "stacks"),
            (recorder.records_interfaces(), "packets"),
        ];
        let of_host: Vec<&str> = of_host.into_iter().filter(|(is_recorded, _)| *is_recorded).map(|(_, what)| what).collect();
        let of_host = if of_host.is_empty() { String::new() } else { format!("; of the whole host: {}", of_host.join(", ")) };
        let limit = recorder.max_size().map_or_else(String::new, |size| format!("; {}", limit(size)));
        let plain = crate::render::table::plain;
        // A closed stderr must not end the recording, so errors are ignored.
        let mut out = std::io::stderr().lock();
        let _ = writeln!(out, "longpole: recording {}", plain(format!("{}{of_host}", self.programs)));
        let _ = writeln!(out, "longpole: writing to {} until {}{limit}", recorder.path().display(), plain(self.end.clone()));
    }
}

/// Returns the text about a limit of the recording's bytes.
pub fn limit(size: u64) -> String {
    format!("limit {}, beyond it the oldest part is removed (--max-size sets another limit)", crate::render::table::bytes(size))
}

/// Returns the command as a description stores it; bytes that are not UTF-8 are replaced.
pub fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Records. Calls `ready` once everything that was requested is being recorded, before the command
/// starts.
pub fn record(args: Args, ready: impl FnOnce(&Recorder)) -> anyhow::Result<ExitCode> {
    let inherited = Inherited::new();
    let stop = Stop::install().context("cannot handle signals")?;
    if !args.command.is_empty() {
        stop.pass_on().context("cannot handle signals")?;
    }
    if let Some(pid) = args.pid {
        check_process(pid)?;
    }
    let note = args.kernel.note();
    let options = options(&args, inherited.nice);
    // If all CPUs are busy, a recorder that waits for a CPU loses events. It needs little CPU time,
    // and root may raise its priority.
    let urgent = inherited.nice.min(URGENT);
    let _ = rustix::process::setpriority_process(None, urgent);
    if let Some(steady) = args.steady {
        steady.stay_ahead();
    }
    let mut recorder = Recorder::start(options, Some(&stop)).map_err(wrong_request)?;
    note.iter().for_each(|note| recorder.note(note));
    let troubles: Vec<String> = recorder.troubles().map(str::to_owned).chain(note).collect();
    for trouble in &troubles {
        eprintln!("longpole: note: {trouble}");
    }
    ready(&recorder);
    let settings = if args.runtimes { runtimes::settings(|name| std::env::var_os(name)) } else { Vec::new() };
    if args.runtimes {
        eprintln!("longpole: {}", crate::render::table::plain(runtimes::shown(&settings)));
    }
    let how = Started { inherited, steady: args.steady, capture_output: args.capture_output, settings };
    let mut recorded = match Recorded::start(&args.command, &mut recorder, how) {
        Ok(recorded) => recorded,
        Err(error) => {
            // Nothing was recorded; leave no empty recording behind.
            recorder.abandon();
            return Err(error);
        }
    };
    let log = args.log.then(|| Log::begin(recorder.path().to_owned(), recorder.chunks(), recorder.period()));
    let log = log.transpose().context("cannot show the recorded events (--log)")?;
    let child = recorded.as_mut().map(|recorded| &mut recorded.child);
    let status = run_until_the_end(&mut recorder, &stop, args.time, args.pid, child);
    if let Some(recorded) = &recorded {
        recorded.drain_output(&mut recorder);
        if args.runtimes && lives(recorded.child.id() as i32) {
            let pid = recorded.child.id();
            let asking = std::thread::spawn(move || java::list_functions(pid));
            while !asking.is_finished() {
                let longest = recorder.turn().unwrap_or(PAUSE);
                recorder.wait(longest.min(PAUSE));
            }
        }
    }
    if let Some(steady) = args.steady {
        // The remaining work may take long, and at normal priority it disturbs nobody.
        steady.fall_back(urgent);
    }
    let asked = stop.count();
    let outcome = recorder.finish_with(&mut conversion::progress(Some(stop)), &mut |path| match stop.count() > asked {
        true => Vec::new(),
        false => crate::input::complete_symbols(path),
    });
    if let Some(recorded) = &mut recorded {
        recorded.end_output(|| stop.count() > asked);
    }
    if let Some(log) = log {
        log.end();
    }
    let status = match (status, recorded.as_mut()) {
        (Ok(status), _) => status,
        (Err(error), None) => {
            outcome::print(&outcome, &troubles);
            return Err(error);
        }
        // The command still runs, and the process that started us waits for its status.
        (Err(error), Some(recorded)) => {
            eprintln!("longpole: {}; the command continues without being recorded", crate::in_one_line(&error));
            Some(recorded.child.wait().context("cannot wait for the command")?)
        }
    };
    outcome::print(&outcome, &troubles);
    if let Some(signal) = stop.signal().filter(|_| stop.count() > asked) {
        // The user did not want to wait for the rest.
        return Ok(ExitCode::from(128u8.wrapping_add(signal as u8)));
    }
    Ok(outcome::exit_code(status, recorded.is_some(), &stop, &outcome))
}

fn options(args: &Args, nice: i32) -> Options {
    let scope = match args.pid {
        Some(pid) => Scope::Process(pid),
        None if args.command.is_empty() || args.all => Scope::Everything,
        None => Scope::Descendants,
    };
    let has_no_end = scope == Scope::Everything && args.command.is_empty() && args.time.is_none();
    Options {
        root: args.output.clone(),
        config: args.config.clone(),
        scope,
        selection: None,
        buffer: args.buffer,
        mode: args.mode,
        max_size: args.max_size,
        default_max_size: has_no_end.then_some(DEFAULT_MAX_SIZE),
        max_age: args.max_age,
        command: words(&args.command),
        probe_cost_ns: crate::overhead::probe_cost(),
        kernel: args.kernel.request(),
        stacks: args.kernel.stacks(),
        packets: args.packets.interfaces.clone().map(|Interfaces(patterns)| patterns),
        snaplen: args.packets.snaplen,
        steady: args.steady.map(|steady| (steady, nice)),
    }
}

pub fn check_process(pid: i32) -> anyhow::Result<()> {
    match (lives(pid), process_of_thread(pid)) {
        (true, Some(process)) if process != pid => bail!("{pid} is a thread of process {process}; write --pid {process}"),
        (true, _) => Ok(()),
        (false, _) => bail!("there is no process {pid}; `longpole list` shows those with probes"),
    }
}

/// Turns the request for an event that this kernel does not have into wrong usage, as a wrong group
/// of events is.
fn wrong_request(error: longpole_record::Error) -> anyhow::Error {
    match error {
        longpole_record::Error::Kernel(error @ KernelError::NoEvent { .. }) => crate::WrongUsage(error.to_string()).into(),
        error => error.into(),
    }
}
