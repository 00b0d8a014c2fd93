//! `longpole print`: prints the events of a trace as lines, in the order of time.

mod follow;

use crate::input::empty_range;
use crate::input::filter::{EventSelector, Filter, Patterns};
use crate::input::{self, Input};
use crate::render::diagnostics;
use crate::render::events::{Printer, Tail};
use crate::render::terminal::output;
use longpole_trace::Catalogue;
use longpole_trace::Damage;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::io::{self, Write};
use std::process::ExitCode;

/// Print the events of a trace in the order of time; a loss is a line, too.
#[derive(clap::Args)]
#[command(mut_arg("all", crate::input::all_without_effect))]
#[command(after_help = "\
A line is: [time of day, UTC] (+since the line before) who name: { cpu_id }, { contexts }, { fields }

Examples:
  longpole print | head                         the newest recording
  longpole print --begin +1.5s --end +1.6s DIR
  longpole print --names 'sched_*' --fields 'prev_*,next_*' DIR
  longpole print --filter 'cpu == 0 && name ~ \"net_*\" && len > 1000' DIR
  longpole print --tail 20 --strict ~/lttng-traces/run1 capture.pcapng
  longpole print --follow --tail 10 ~/lttng-traces/live
  longpole print --json | jq 'select(.name == \"log\").fields.text'")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    /// Only events with these names, separated by commas; * ? and [a-z] are wildcards
    #[arg(long, value_name = "LIST", value_parser = Patterns::parse)]
    names: Option<Patterns>,

    /// Only these fields (also context.NAME, packet.NAME), comma-separated; wildcards * ? [a-z]
    #[arg(long, value_name = "LIST", value_parser = Patterns::parse)]
    fields: Option<Patterns>,

    /// Only events that match: 'cpu == 0 && name ~ "sched_*"' (syntax:
    /// docs/reference/conditions.md)
    #[arg(long, value_name = "EXPR", value_parser = Filter::parse)]
    filter: Option<Filter>,

    /// Only the last N lines
    #[arg(long, value_name = "N")]
    tail: Option<usize>,

    /// Also print what is written later, until the recorder ends, or SIGINT (Ctrl-C)
    #[arg(long)]
    follow: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    // The events before the damage are printed.
    let damage = if args.input.strict { Damage::EndsTrace } else { Damage::Pass };
    let options = Options { damage, ..args.input.options() };
    // What follows a running recording must not wait until the pager has a screen of lines.
    let out: Box<dyn Write> = if args.follow { Box::new(io::stdout().lock()) } else { output::raw() };
    let printer = Printer::new(out).only(args.fields);
    let selector = EventSelector::new(args.filter, args.names);
    let mut lines = Lines { printer, selector, json: args.input.json, tail: args.tail.map(Tail::new) };
    if args.follow {
        return follow::run(&args.input.paths_as_they_are()?, options, args.input.strict, lines);
    }
    let paths = args.input.completed_paths()?;
    let mut trace = input::open_stored(&paths, options)?;
    lines.printer.name_hosts(trace.catalogue());
    lines.selector.begins_at(trace.start_ns().unwrap_or(0));
    let printed = lines.all(&mut trace);
    lines.end()?;
    printed?;
    diagnostics::print(&trace);
    empty_range::check(&trace, &paths, &args.input.options())?;
    Ok(if trace.is_damaged() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints the selected items as lines.
struct Lines<W> {
    printer: Printer<W>,
    selector: EventSelector,
    json: bool,
    tail: Option<Tail>,
}

impl<W: Write> Lines<W> {
    fn all(&mut self, trace: &mut Trace) -> anyhow::Result<()> {
        while let Some(shown) = trace.see_next(|item, catalogue| self.item(item, catalogue))? {
            shown?;
        }
        Ok(())
    }

    #[inline]
    fn item(&mut self, item: &Item<'_>, catalogue: &Catalogue) -> io::Result<()> {
        match (item, self.json) {
            // Losses are always shown: a user who searches for an event must see where it may be
            // missing.
            (Item::Loss(loss), false) => self.printer.loss(loss, catalogue),
            (Item::Loss(loss), true) => self.printer.loss_json(loss, catalogue),
            (Item::Event(event), json) => {
                if !self.selector.passes(event, catalogue) {
                    return Ok(());
                }
                match json {
                    true => self.printer.event_json(event, catalogue),
                    false => self.printer.event(event, catalogue),
                }
            }
        }
        match &mut self.tail {
            Some(tail) => self.printer.put_aside(tail),
            None => self.printer.flush_if_full()?,
        }
        Ok(())
    }

    /// Writes the lines that are due now; later items follow. The first call ends `--tail`.
    fn flush_tail(&mut self) -> io::Result<()> {
        match self.tail.take() {
            Some(tail) => self.printer.put_back(tail),
            None => self.printer.flush(),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.flush_tail()?;
        self.selector.notes().iter().for_each(|note| eprintln!("longpole: note: {note}"));
        Ok(())
    }
}
