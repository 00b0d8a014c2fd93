//! `longpole top`: shows the running system live, on the terminal or as text: CPUs, threads,
//! queues, latencies and the bottleneck of each period.

use super::record::{self, Groups, Kernel};
use crate::input::rules;
use crate::top::batch::{self, Printed};
use crate::top::screen;
use crate::top::source::{Source, Sources, Update, Wanted};
use crate::WrongUsage;
use longpole_analysis::live::order::{self, Order};
use longpole_analysis::live::Period;
use longpole_record::{Options, Scope};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "Examples:
  longpole top                               the whole host, a new picture every 2 s
  longpole top --pid 1234 --period 1s        one process
  longpole top --filter nginx --sort blocked threads of this name, those that wait most first
  longpole top --kernel none                 programs with probes only; needs no root
  longpole top --batch --count 3             the threads with the most time per CPU, as text, three times
  longpole top --json --for 1min | jq -r '.verdict'
                                             one line of JSON for each period

Keys: q ends, s sorts, / filters, space pauses, ? explains.

The system is recorded in memory, period by period; each period is read as `longpole report` reads a recording, while
the next one is recorded. Nothing is left on the disk. If reading takes longer than a period, periods are skipped and
counted. Without root, only programs with probes are shown.";

/// Shortest period. In shorter ones, reading /proc at each begin would take most of the time.
const MIN_PERIOD: Duration = Duration::from_millis(200);

/// Show the running system live: CPUs, threads, queues, latencies, and the bottleneck
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Length of a period: 1s, 500ms
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = period)]
    period: Duration,
    /// Only the probes and threads of this process; CPUs are those of the host in any case
    #[arg(short, long, value_name = "PID")]
    pid: Option<i32>,
    /// Configuration (TOML): which events to record of which subjects
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Groups of kernel events, or none [default, as root:
    /// sched,irq,softirq,net,block,workqueue,syscall,fault, each in part]
    #[arg(long, value_name = "GROUP,…|none", value_parser = record::groups)]
    kernel: Option<Groups>,
    /// Rules for what events mean, read before ~/.config/longpole/rules and the built-in ones
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Sort threads by this: running, runnable, blocked, calls, name, tid
    #[arg(long, value_name = "COLUMN", default_value = "running", value_parser = column, conflicts_with = "batch")]
    sort: Order,
    /// Only threads whose name, process or number contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print each period as text instead of drawing on the terminal
    #[arg(long)]
    batch: bool,
    /// Print each period as a line of JSON
    #[arg(long, conflicts_with = "batch")]
    json: bool,
    /// With --batch: number of threads per CPU, and of queues and latencies
    #[arg(short = 'n', long, value_name = "COUNT", default_value = "5")]
    top: usize,
    /// End after this number of periods
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time: 10s, 2min
    #[arg(long = "for", value_name = "TIME", value_parser = record::duration)]
    time: Option<Duration>,
}

fn period(text: &str) -> Result<Duration, String> {
    match record::duration(text)? {
        short if short < MIN_PERIOD => Err(format!("{text} is too short; the shortest period is {MIN_PERIOD:?}")),
        period => Ok(period),
    }
}

fn column(text: &str) -> Result<Order, String> {
    let known = || Order::ALL.map(Order::name).join(", ");
    Order::ALL.into_iter().find(|order| order.name() == text).ok_or_else(|| format!("{text:?} is no column; write one of {}", known()))
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let prints = args.batch || args.json;
    let is_on_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if !prints && !is_on_terminal {
        return Err(WrongUsage("this is no terminal; `longpole top --batch` prints text, --json prints JSON".to_owned()).into());
    }
    if let Some(pid) = args.pid {
        record::check_process(pid)?;
    }
    let source = Source::begin(args.wanted()?)?;
    match prints {
        true => args.print(&source),
        false => screen::run(&source, args.shown()),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Reports what is recorded elsewhere, and what is not recorded.
fn begun(sources: &Sources) {
    let other = sources.other.as_ref().map(|other| format!("probes are those of the recording in progress, {other}"));
    other.iter().chain(&sources.troubles).for_each(|note| eprintln!("longpole: note: {note}"));
}

impl Args {
    fn wanted(&self) -> anyhow::Result<Wanted> {
        let kernel = Kernel::from(self.kernel.clone());
        let options = Options {
            root: None,
            config: self.config.clone(),
            scope: self.pid.map_or(Scope::Everything, Scope::Process),
            selection: None,
            buffer: None,
            mode: None,
            max_size: None,
            default_max_size: None,
            max_age: None,
            command: Vec::new(),
            probe_cost_ns: crate::overhead::probe_cost(),
            kernel: kernel.request(),
            stacks: None,
            packets: Some(Vec::new()),
            snaplen: None,
            steady: None,
        };
        Ok(Wanted { options, period: self.period, rules: rules::read(&rules::files(&self.rules)?)?, note: kernel.note() })
    }

    fn shown(&self) -> screen::Shown {
        screen::Shown {
            order: self.sort,
            filter: self.filter.clone().unwrap_or_default(),
            pid: self.pid,
            end: self.end(),
            count: self.count,
        }
    }

    fn end(&self) -> Option<Instant> {
        self.time.map(|time| Instant::now() + time)
    }

    /// Prints periods until the number or the time is reached, or a signal ends the command.
    fn print(&self, source: &Source) -> anyhow::Result<()> {
        let (end, mut printed) = (self.end(), 0);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            match source.next(left.unwrap_or(self.period).min(self.period)) {
                Some(Update::Period(mut period)) => {
                    self.keep_process(&mut period);
                    if self.json {
                        self.choose(&mut period);
                    }
                    self.print_one(&period)?;
                    printed += 1;
                }
                Some(Update::Begun(sources)) => begun(&sources),
                Some(Update::Note(note)) => eprintln!("longpole: note: {note}"),
                Some(Update::Failed(error)) => return Err(error),
                Some(Update::Ended) => return Ok(()),
                None => {}
            }
            if self.count.is_some_and(|count| printed >= count) || left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
        }
    }

    fn keep_process(&self, period: &mut Period) {
        if let Some(pid) = self.pid {
            period.threads.retain(|thread| thread.pid == Some(pid));
        }
    }

    /// Keeps the threads that are asked for, in their order.
    fn choose(&self, period: &mut Period) {
        let filter = self.filter.as_deref().unwrap_or_default();
        period.threads.retain(|thread| order::is_selected(thread, filter));
        order::sort(&mut period.threads, self.sort);
    }

    fn print_one(&self, period: &Period) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        match self.json {
            true => batch::json(&mut out, period),
            false => batch::text(&mut out, period, Printed { rows: self.top, filter: self.filter.as_deref() }),
        }
    }
}
