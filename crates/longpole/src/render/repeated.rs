//! Answers about several recordings of one system, for people.

use crate::render::length::Length;
use crate::render::style::{title, Role};
use crate::render::table::{number, percent, plain, Table};
use longpole_analysis::compare::repeated::{Repeated, RepeatedRow};
use longpole_analysis::what_if::Scenario;
use std::io::{self, Write};

/// Number of rows for which the first screen has room: of states, and of findings and recordings.
const FIRST_ROWS: usize = 7;
const FIRST_OTHERS: usize = 2;

pub fn print(out: &mut impl Write, all: &Repeated, length: Length) -> io::Result<()> {
    writeln!(out, "{}", title(plain(all.verdict.text())))?;
    let predictions = all.predictions.as_deref().unwrap_or_default();
    let rows = all.criticality.as_deref().unwrap_or_default();
    let scaled = |row: &RepeatedRow| Scenario::scale(&row.machine, &row.state, 0.5).text;
    let tells_running = all.inputs.tells_running;
    let signed = |gain: f64| format!("{}{}", if gain < 0.0 { "" } else { "+" }, percent(gain));
    if let Some(best) = predictions.iter().find(|it| it.gain.is_some_and(|gain| gain > 0.0)) {
        let range =
            best.gain_low.zip(best.gain_high).map_or_else(String::new, |(low, high)| format!(" ({} to {})", signed(low), signed(high)));
        let is_state = rows.iter().any(|row| row.profile_rank.is_some() && scaled(row) == best.change);
        let open = if is_state && !tells_running { ", if that is work and no wait" } else { "" };
        writeln!(out, "Predicted gain of {}: {}{range}{open}.", plain(best.change.clone()), signed(best.gain.unwrap_or(0.0)))?;
    }
    if !rows.is_empty() {
        writeln!(out, "\n{} (mean share, and the interval of the mean in 95 of 100 cases)", title("CRITICAL PATH"))?;
        let rank = if tells_running { ">thread-time rank" } else { ">rank by time" };
        let mut table = Table::new(&["state", ">share of path", ">±", "~>least", "~>most", ">recordings", rank, ">gain if halved"]);
        let gain = |row: &RepeatedRow| {
            let text = scaled(row);
            predictions.iter().find(|it| it.change == text).and_then(|it| it.gain)
        };
        for (at, row) in rows.iter().enumerate() {
            table.row([
                format!("{}::{}", row.machine, row.state),
                percent(row.share),
                row.share_error.map_or_else(|| "?".to_owned(), percent),
                percent(row.share_min),
                percent(row.share_max),
                number(row.runs),
                row.profile_rank.map_or_else(|| "-".to_owned(), number),
                gain(row).map_or_else(|| "-".to_owned(), signed),
            ]);
            if at == 0 {
                table.paint(Role::Bottleneck);
            }
        }
        table.print_first(out, length.rows(FIRST_ROWS))?;
    }
    if !all.findings.is_empty() {
        writeln!(out, "\n{}", title("FINDINGS"))?;
        let mut table = Table::new(&["finding", "subject", ">recordings", ">count", ">mean share"]);
        for found in &all.findings {
            let recordings = if found.runs == all.runs.len() as u64 { "all".to_owned() } else { number(found.runs) };
            table.row([found.kind.clone(), found.subject.clone(), recordings, number(found.count), percent(found.share)]);
        }
        table.print_first(out, length.rows(FIRST_OTHERS))?;
        for found in all.findings.iter().filter(|_| length.is_full()) {
            writeln!(out, "  - {}", plain(found.advice.clone()))?;
        }
    }
    if !length.is_full() {
        return writeln!(out, "\n{} recordings: --full has the verdict of each", number(all.runs.len() as u64));
    }
    writeln!(out, "\n{}", title("RECORDINGS"))?;
    for run in &all.runs {
        writeln!(out, "  {}: {}", plain(run.path.clone()), plain(run.report.verdict.text()))?;
    }
    Ok(())
}
