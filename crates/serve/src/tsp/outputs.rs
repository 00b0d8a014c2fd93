//! Outputs: what a client can show of an experiment.

use super::reply::{self, Answer, Refused};
use longpole_analysis::timeline::RowKind;
use serde::Serialize;

/// An output. Each experiment has all of them; one about which the traces have nothing is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Threads,
    Machines,
    Cpus,
    Interrupts,
    CriticalPath,
    CpuUsage,
    RunningRows,
    Queues,
    Counters,
    PathShares,
    Statistics,
    PathTable,
    Events,
}

/// The shapes of outputs, each with requests of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    TimeGraph,
    Xy,
    GenericXy,
    DataTree,
    Table,
}

#[derive(Serialize)]
struct Descriptor {
    id: &'static str,
    name: &'static str,
    description: &'static str,
    #[serde(rename = "type")]
    shape: &'static str,
}

impl Output {
    const ALL: [Output; 13] = [
        Output::CriticalPath,
        Output::Threads,
        Output::Machines,
        Output::Cpus,
        Output::Interrupts,
        Output::CpuUsage,
        Output::RunningRows,
        Output::Queues,
        Output::Counters,
        Output::PathShares,
        Output::Statistics,
        Output::PathTable,
        Output::Events,
    ];

    pub fn id(self) -> &'static str {
        match self {
            Output::Threads => "longpole.threads",
            Output::Machines => "longpole.machines",
            Output::Cpus => "longpole.cpus",
            Output::Interrupts => "longpole.interrupts",
            Output::CriticalPath => "longpole.critical-path",
            Output::CpuUsage => "longpole.cpu-usage",
            Output::RunningRows => "longpole.running",
            Output::Queues => "longpole.queues",
            Output::Counters => "longpole.counters",
            Output::PathShares => "longpole.path-shares",
            Output::Statistics => "longpole.statistics",
            Output::PathTable => "longpole.path-table",
            Output::Events => "longpole.events",
        }
    }

    pub fn shape(self) -> Shape {
        match self {
            Output::Threads | Output::Machines | Output::Cpus | Output::Interrupts | Output::CriticalPath => Shape::TimeGraph,
            Output::CpuUsage | Output::RunningRows | Output::Queues | Output::Counters => Shape::Xy,
            Output::PathShares => Shape::GenericXy,
            Output::Statistics => Shape::DataTree,
            Output::PathTable | Output::Events => Shape::Table,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Output::Threads => "Threads",
            Output::Machines => "Machines",
            Output::Cpus => "CPUs",
            Output::Interrupts => "Interrupts",
            Output::CriticalPath => "Critical path",
            Output::CpuUsage => "CPU usage",
            Output::RunningRows => "Running threads",
            Output::Queues => "Fill levels of queues",
            Output::Counters => "Counters",
            Output::PathShares => "Critical path by state",
            Output::Statistics => "Statistics of states",
            Output::PathTable => "Segments of the critical path",
            Output::Events => "Events",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Output::Threads => "The state of each thread, by host and process, with the critical path as arrows",
            Output::Machines => {
                "The state of each machine that is no thread of the kernel's events: programs with probes, machines of a log"
            }
            Output::Cpus => "The thread or interrupt that had each CPU",
            Output::Interrupts => "When each interrupt and softirq ran",
            Output::CriticalPath => "The states and links that nothing else could have hidden, in one lane and by row",
            Output::CpuUsage => "Share of the time in which each CPU executed code",
            Output::RunningRows => "Number of threads and machines that ran at once, on average, in all and by process",
            Output::Queues => "Number of items or bytes in each queue",
            Output::Counters => "The values that programs report",
            Output::PathShares => "Share of the critical path that each state has",
            Output::Statistics => "How often each row was in each state, and for how long",
            Output::PathTable => "Begin, duration, row and state of each segment of the critical path",
            Output::Events => "Time, name, thread, CPU and fields of each event, and each loss of events",
        }
    }

    /// Returns the kinds of rows that the output shows, without the groups above them.
    pub fn shows(self, kind: RowKind) -> bool {
        match self {
            Output::Threads => kind == RowKind::Thread,
            Output::Machines => kind == RowKind::Machine,
            Output::Cpus | Output::CpuUsage => kind == RowKind::Cpu,
            Output::Interrupts => kind == RowKind::Interrupt,
            // The rows on the path are among these.
            Output::CriticalPath => matches!(kind, RowKind::Path | RowKind::Thread | RowKind::Machine | RowKind::Interrupt),
            Output::RunningRows => matches!(kind, RowKind::Thread | RowKind::Machine),
            Output::Queues => kind == RowKind::Queue,
            Output::Counters => kind == RowKind::Counter,
            Output::PathShares | Output::PathTable => kind == RowKind::Path,
            Output::Events => false,
            Output::Statistics => matches!(kind, RowKind::Path | RowKind::Thread | RowKind::Machine | RowKind::Cpu | RowKind::Interrupt),
        }
    }

    fn descriptor(self) -> Descriptor {
        let shape = match self.shape() {
            Shape::TimeGraph => "TIME_GRAPH",
            Shape::Xy => "TREE_TIME_XY",
            Shape::GenericXy => "TREE_GENERIC_XY",
            Shape::DataTree => "DATA_TREE",
            Shape::Table => "TABLE",
        };
        Descriptor { id: self.id(), name: self.name(), description: self.description(), shape }
    }
}

pub(crate) fn all() -> Answer {
    reply::plain(&Output::ALL.map(Output::descriptor))
}

pub(crate) fn one(id: &str) -> Answer {
    reply::plain(&find(id)?.descriptor())
}

pub(crate) fn find(id: &str) -> Result<Output, Refused> {
    let found = Output::ALL.into_iter().find(|output| output.id() == id);
    found.ok_or_else(|| Refused::not_found("No such output", format!("there is no output {id:?}; GET outputs lists them")))
}

/// Returns the output with this id if it has this shape.
pub(crate) fn of_shape(id: &str, shape: Shape) -> Result<Output, Refused> {
    let output = find(id)?;
    match output.shape() == shape {
        true => Ok(output),
        false => Err(Refused::not_found("No such output", format!("the output {id:?} has no such requests; its type tells which it has"))),
    }
}
