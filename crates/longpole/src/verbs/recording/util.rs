//! `longpole util -- CMD`: runs a command and prints the CPU time of each of its threads, like
//! seL4's benchmark interface.
//!
//! With the kernel's tracer every context switch is counted, in a recording that is removed
//! afterwards. Without it, the counters of the command's threads are read periodically while they
//! run.

use super::record;
use crate::input::memory_dump::Raw;
use crate::input::Input;
use crate::passes::kernel::{self as reading, Reading};
use crate::render::answer;
use crate::render::length::Length;
use crate::render::style::{painted, Role};
use crate::render::table::{duration, more_rows, number, percent, Table};
use crate::render::terminal::conversion;
use anyhow::{bail, Context};
use longpole_analysis::scheduling::cpus::CpuTimes;
use longpole_analysis::scheduling::family::Family;
use longpole_analysis::scheduling::probed::CpuTime;
use longpole_record::counter_is_a_clock;
use longpole_record::kernel::{self, Group, Request};
use longpole_record::output::scratch::Scratch;
use longpole_record::runtime_dir::family;
use longpole_record::ClockSource;
use longpole_record::Error;
use longpole_record::Options;
use longpole_record::Recorder;
use longpole_record::Scope;
use longpole_record::Stop;
use longpole_trace::Item;
use longpole_trace::Moment;
use longpole_trace::Trace;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::process::{getrlimit, pidfd_open, setrlimit, waitid, Pid, PidfdFlags, Resource, Rlimit, WaitId, WaitIdOptions};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "Examples:
  longpole util -- ./my-system             what each of its threads used, and what the CPUs idled
  longpole util --json -- ./my-system      the same for programs; what the command prints goes to stderr then
  longpole util -o traces -- ./my-system   keep the recording

The exit status is the command's (128 + the signal that ended it); 125 if it could not be run.";

/// Run a command and show the CPU time of each of its threads
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Keep the recording in this directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Answer in JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    length: Length,
    /// The command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Serialize)]
struct Answer {
    /// `kernel` if every context switch was recorded, `schedstat` if the threads' counters were
    /// read while they ran.
    source: &'static str,
    command: Vec<String>,
    status: u8,
    total_ns: u64,
    /// Cycles of the time-stamp counter.
    total_cycles: Option<u64>,
    idle_ns: u64,
    cpus: Vec<Cpu>,
    threads: Vec<Thread>,
    /// CPU time of the command that none of the listed threads accounts for, in ns.
    unseen_ns: Option<u64>,
    lost: Option<u64>,
    recording: Option<PathBuf>,
}

#[derive(Serialize)]
struct Cpu {
    cpu: u32,
    total_ns: u64,
    idle_ns: u64,
    irq_ns: Option<u64>,
    softirq_ns: Option<u64>,
    thread_ns: Option<u64>,
    unknown_ns: Option<u64>,
}

#[derive(Serialize)]
struct Thread {
    pid: Option<i32>,
    tid: i32,
    name: String,
    running_ns: u64,
    cycles: Option<u64>,
    /// Fraction of one CPU's time.
    share: f64,
    schedules: u64,
    runnable_ns: u64,
}

/// Interval at which the counters of threads are read.
const STEP: Duration = Duration::from_millis(10);

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match measure(&args) {
        Ok(answer) => {
            answer::json_or_text(args.json, &answer, |out| print(out, &answer, args.length))?;
            Ok(ExitCode::from(answer.status))
        }
        Err(error) => {
            eprintln!("longpole: {}", crate::message(&error));
            // The command ran, and the process that started us waits for its status.
            Ok(ExitCode::from(error.downcast_ref::<NoAnswer>().map_or(record::OWN_FAILURE, |ran| ran.status)))
        }
    }
}

/// The command ran, but the times of its threads are unknown.
#[derive(Debug)]
struct NoAnswer {
    status: u8,
    why: String,
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "nothing is known about the command's threads: {}", self.why)
    }
}

impl std::error::Error for NoAnswer {}

/// Measures with the kernel's tracer if it is available, otherwise by reading counters.
fn measure(args: &Args) -> anyhow::Result<Answer> {
    let limit = getrlimit(Resource::Nofile);
    let scratch = Scratch::new().context("cannot make a temporary directory")?;
    let root = args.output.clone().unwrap_or_else(|| scratch.path().to_owned());
    let why = match kernel::available() {
        Err(error) => error.to_string(),
        Ok(_) if kernel::has_foreign_pids() => {
            "the kernel's events have other thread numbers, because this process is in a pid namespace of its own".to_owned()
        }
        Ok(_) => match start(args, root) {
            Ok(recorder) => return recorded(args, recorder, limit),
            Err(error) => crate::in_one_line(&error.into()),
        },
    };
    eprintln!("longpole: note: the threads are read from /proc while they run, without their last moments: {why}");
    sampled(args)
}

fn start(args: &Args, root: PathBuf) -> Result<Recorder, Error> {
    let options = Options {
        root: Some(root),
        config: None,
        scope: Scope::Descendants,
        selection: None,
        buffer: None,
        mode: None,
        max_size: None,
        default_max_size: None,
        max_age: None,
        command: record::words(&args.command),
        probe_cost_ns: None,
        kernel: Some(Request { groups: vec![Group::Sched, Group::Irq, Group::Softirq], ..Request::default() }),
        stacks: None,
        packets: Some(Vec::new()),
        snaplen: None,
        steady: None,
    };
    Recorder::start(options, None)
}

fn spawn(args: &Args, limit: Rlimit) -> anyhow::Result<Child> {
    let Some((program, rest)) = args.command.split_first() else { bail!("there is no command") };
    let mut command = Command::new(program);
    command.args(rest);
    // SAFETY: between fork and exec only system calls are made, on copied values. The recorder
    // raises this limit and handles SIGINT for itself only.
    unsafe {
        command.pre_exec(move || {
            Stop::restore_inherited();
            Ok(setrlimit(Resource::Nofile, limit)?)
        })
    };
    if args.json {
        // Stdout contains nothing but the answer, so the command's output goes to stderr.
        command.stdout(Stdio::from(rustix::io::dup(io::stderr()).context("cannot pass stderr on")?));
    }
    command.spawn().with_context(|| format!("cannot run {}", program.to_string_lossy()))
}

fn recorded(args: &Args, mut recorder: Recorder, limit: Rlimit) -> anyhow::Result<Answer> {
    let stop = Stop::install().context("cannot handle signals")?;
    let troubles: Vec<String> = recorder.troubles().map(str::to_owned).collect();
    let begin = (ClockSource::Counter.now(), Instant::now());
    let mut child = match spawn(args, limit) {
        Ok(child) => child,
        Err(error) => {
            recorder.abandon();
            return Err(error);
        }
    };
    let pid = child.id() as i32;
    recorder.follow(pid);
    let status = record::run_until_the_end(&mut recorder, &stop, None, None, Some(&mut child));
    let rate = rate(begin);
    let outcome = recorder.finish_with(&mut conversion::progress(Some(stop)), &mut |_| Vec::new());
    outcome.diagnostics.iter().chain(&troubles).for_each(|note| eprintln!("longpole: note: {note}"));
    let (status, failure) = match status {
        Ok(status) => (status, None),
        Err(error) => (None, Some(error)),
    };
    let status = match status {
        Some(status) => status,
        None => child.wait().context("cannot wait for the command")?,
    };
    let status = record::code_of(status);
    let answer = failure.map_or_else(|| of_recording(&outcome.path, pid), Err);
    let mut answer = answer.map_err(|error| NoAnswer { status, why: crate::in_one_line(&error) })?;
    answer.status = status;
    answer.command = record::words(&args.command);
    answer.recording = args.output.as_ref().map(|_| outcome.path.clone());
    answer.count_cycles(rate);
    Ok(answer)
}

/// Returns the answer for the range from the command's start to its end.
fn of_recording(path: &std::path::Path, pid: i32) -> anyhow::Result<Answer> {
    let mut members = Family::new(pid);
    let mut trace = Trace::open(&[path], longpole_trace::Options::default())?;
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        if let Item::Event(event) = &item {
            members.event(catalogue, event);
        }
    }
    let (Some(begin_ns), Some(end_ns)) = (members.begin_ns, members.end_ns) else {
        bail!("the kernel's events of the command's begin and end are lost");
    };
    let range = (Some(Moment::At(begin_ns)), Some(Moment::At(end_ns)));
    let input = Input {
        traces: vec![path.to_owned()],
        begin: range.0,
        end: range.1,
        all: true,
        json: false,
        rules: Vec::new(),
        offsets: Vec::new(),
        strict: false,
        raw: Raw::default(),
    };
    let mut times = CpuTimes::default();
    let Reading { linux, .. } = reading::read(&input, &mut times, |_, _| {})?;
    let total_ns = (end_ns - begin_ns) as u64;
    let mut threads: Vec<Thread> = Vec::new();
    for thread in times.threads(&linux).into_iter().filter(|thread| members.members.contains(&i64::from(thread.tid))) {
        threads.push(Thread {
            pid: thread.pid,
            tid: thread.tid,
            name: thread.name,
            running_ns: thread.running_ns,
            cycles: None,
            share: share(thread.running_ns, total_ns),
            schedules: thread.instances,
            runnable_ns: thread.runnable_ns,
        });
    }
    let cpus: Vec<Cpu> = times.cpus(&linux).into_iter().map(Cpu::from).collect();
    Ok(Answer::new("kernel", total_ns, cpus, threads, None, Some(linux.counts.lost)))
}

impl From<CpuTime> for Cpu {
    fn from(of: CpuTime) -> Cpu {
        Cpu {
            cpu: of.cpu,
            total_ns: of.total_ns,
            idle_ns: of.idle_ns,
            irq_ns: Some(of.irq_ns),
            softirq_ns: Some(of.softirq_ns),
            thread_ns: Some(of.thread_ns),
            unknown_ns: Some(of.unknown_ns),
        }
    }
}

fn sampled(args: &Args) -> anyhow::Result<Answer> {
    let (idle, waited) = (family::idle_ns(), family::waited_ns());
    let begin = (ClockSource::Counter.now(), Instant::now());
    let mut child = spawn(args, getrlimit(Resource::Nofile))?;
    let pid = child.id() as i32;
    let known = Pid::from_raw(pid).context("the command has no pid")?;
    let handle = pidfd_open(known, PidfdFlags::empty()).context("cannot watch the command")?;
    let mut members = family::Family::default();
    let step = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(STEP.subsec_nanos()) };
    loop {
        members.look(pid);
        let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&step));
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::Pid(known), options).is_ok_and(|ended| ended.is_some()) {
            break;
        }
    }
    let total_ns = begin.1.elapsed().as_nanos() as u64;
    // The command has ended and was not reaped yet, so the counters of its main thread can still be
    // read.
    members.look(pid);
    let rate = rate(begin);
    let after = family::idle_ns();
    let status = child.wait().context("cannot wait for the command")?;
    let unseen_ns = (family::waited_ns() - waited).saturating_sub(members.running_ns());
    let mut cpus = Vec::new();
    for (cpu, after) in after {
        let before = idle.iter().find(|before| before.0 == cpu).map_or(after, |before| before.1);
        let idle_ns = after.saturating_sub(before).min(total_ns);
        cpus.push(Cpu { cpu, total_ns, idle_ns, irq_ns: None, softirq_ns: None, thread_ns: None, unknown_ns: None });
    }
    let thread = |(tid, used): (i32, family::Used)| Thread {
        pid: Some(used.pid),
        tid,
        name: used.name,
        running_ns: used.running_ns,
        cycles: None,
        share: share(used.running_ns, total_ns),
        schedules: used.schedules,
        runnable_ns: used.runnable_ns,
    };
    let threads = members.threads.into_iter().map(thread).collect();
    let mut answer = Answer::new("schedstat", total_ns, cpus, threads, Some(unseen_ns), None);
    answer.status = record::code_of(status);
    answer.command = record::words(&args.command);
    answer.count_cycles(rate);
    Ok(answer)
}

fn share(part: u64, total: u64) -> f64 {
    part as f64 / total.max(1) as f64
}

/// Returns the cycles of the time-stamp counter per nanosecond; `None` if the counter is no clock.
fn rate(begin: (u64, Instant)) -> Option<f64> {
    let (cycles, ns) = (ClockSource::Counter.now().saturating_sub(begin.0), begin.1.elapsed().as_nanos());
    (counter_is_a_clock() && ns > 0).then(|| cycles as f64 / ns as f64)
}

impl Answer {
    fn new(
        source: &'static str,
        total_ns: u64,
        cpus: Vec<Cpu>,
        mut threads: Vec<Thread>,
        unseen_ns: Option<u64>,
        lost: Option<u64>,
    ) -> Answer {
        threads.sort_by(|a, b| b.running_ns.cmp(&a.running_ns).then(a.tid.cmp(&b.tid)));
        let idle_ns = cpus.iter().map(|cpu| cpu.idle_ns).sum();
        Answer {
            source,
            command: Vec::new(),
            status: 0,
            total_ns,
            total_cycles: None,
            idle_ns,
            cpus,
            threads,
            unseen_ns,
            lost,
            recording: None,
        }
    }

    fn count_cycles(&mut self, rate: Option<f64>) {
        let cycles = |ns: u64| rate.map(|rate| (ns as f64 * rate) as u64);
        self.total_cycles = cycles(self.total_ns);
        for thread in &mut self.threads {
            thread.cycles = cycles(thread.running_ns);
        }
    }
}

/// Number of rows for which the first screen has room.
const FIRST_THREADS: usize = 9;
const FIRST_CPUS: usize = 4;

fn print(out: &mut impl Write, answer: &Answer, length: Length) -> io::Result<()> {
    let count = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), number);
    let time = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), duration);
    let mut table = Table::new(&["thread", "~>pid", ">tid", ">time", "~>TSC cycles", ">share", ">schedules", ">runnable"]);
    let shown = length.rows(FIRST_THREADS).unwrap_or(usize::MAX);
    for thread in answer.threads.iter().take(shown) {
        table.row([
            thread.name.clone(),
            thread.pid.map_or_else(String::new, |pid| pid.to_string()),
            thread.tid.to_string(),
            duration(thread.running_ns),
            count(thread.cycles),
            percent(thread.share),
            number(thread.schedules),
            duration(thread.runnable_ns),
        ]);
    }
    let all: u64 = answer.threads.iter().map(|thread| thread.running_ns).sum();
    if let Some(unseen) = answer.unseen_ns.filter(|unseen| *unseen > 0) {
        table.row(["(unseen)", "", "", &duration(unseen), "", &percent(share(unseen, answer.total_ns))]);
    }
    let used = all + answer.unseen_ns.unwrap_or(0);
    table.row(["all", "", "", &duration(used), "", &percent(share(used, answer.total_ns))]);
    table.row(["total", "", "", &duration(answer.total_ns), &count(answer.total_cycles), "100 %"]);
    table.print(out)?;
    more_rows(out, answer.threads.len().saturating_sub(shown))?;
    writeln!(out)?;
    let mut table = Table::new(&["CPU", ">total", ">idle", ">share", ">threads", "~>irq", "~>softirq", ">unknown"]);
    for cpu in &answer.cpus {
        table.row([
            cpu.cpu.to_string(),
            duration(cpu.total_ns),
            duration(cpu.idle_ns),
            percent(share(cpu.idle_ns, cpu.total_ns)),
            time(cpu.thread_ns),
            time(cpu.irq_ns),
            time(cpu.softirq_ns),
            time(cpu.unknown_ns),
        ]);
    }
    table.print_first(out, length.rows(FIRST_CPUS))?;
    if let Some(lost) = answer.lost.filter(|lost| *lost > 0) {
        writeln!(out, "\n{}", painted(Role::Caveat, format!("{} kernel events are lost, so times are uncertain", number(lost))))?;
    }
    if let Some(recording) = &answer.recording {
        eprintln!("longpole: recording: {}", recording.display());
    }
    Ok(())
}
