//! Answers about several recordings of one system, for people.

use crate::render::table::{number, percent, plain, Table};
use longpole_analysis::compare::repeated::{Repeated, Row};
use longpole_analysis::what_if::Scenario;
use std::io::{self, Write};

/// Maximum number of lines for people; the JSON answer contains all.
const MOST_ROWS: usize = 15;

pub fn print(out: &mut impl Write, all: &Repeated) -> io::Result<()> {
    writeln!(out, "{}", plain(all.verdict.text()))?;
    let predictions = all.predictions.as_deref().unwrap_or_default();
    let rows = all.criticality.as_deref().unwrap_or_default();
    let scaled = |row: &Row| Scenario::scale(&row.machine, &row.state, 0.5).text;
    let tells_running = all.inputs.tells_running;
    let signed = |gain: f64| format!("{}{}", if gain < 0.0 { "" } else { "+" }, percent(gain));
    if let Some(best) = predictions.iter().find(|it| it.gain.is_some_and(|gain| gain > 0.0)) {
        let range =
            best.gain_low.zip(best.gain_high).map_or_else(String::new, |(low, high)| format!(" ({} to {})", signed(low), signed(high)));
        let is_state = rows.iter().any(|row| row.profile_rank.is_some() && scaled(row) == best.change);
        let open = if is_state && !tells_running { ", if that is work and no wait" } else { "" };
        writeln!(out, "{} would bring {}{range}{open}.", plain(best.change.clone()), signed(best.gain.unwrap_or(0.0)))?;
    }
    if !rows.is_empty() {
        writeln!(out, "\nCRITICAL PATH (mean share, and the interval of the mean in 95 of 100 cases)")?;
        let rank = if tells_running { ">thread-time rank" } else { ">rank by time" };
        let mut table = Table::new(&["state", ">share of path", ">±", ">least", ">most", ">recordings", rank, ">gain if halved"]);
        let gain = |row: &Row| {
            let text = scaled(row);
            predictions.iter().find(|it| it.change == text).and_then(|it| it.gain)
        };
        for row in rows.iter().take(MOST_ROWS) {
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
        }
        table.print(out)?;
        if let Some(more @ 1..) = rows.len().checked_sub(MOST_ROWS) {
            writeln!(out, "  … and {} more (--json has them)", number(more as u64))?;
        }
    }
    if !all.findings.is_empty() {
        writeln!(out, "\nFINDINGS")?;
        let mut table = Table::new(&["finding", "subject", ">recordings", ">count", ">mean share"]);
        for found in &all.findings {
            let recordings = if found.runs == all.runs.len() as u64 { "all".to_owned() } else { number(found.runs) };
            table.row([found.kind.clone(), found.subject.clone(), recordings, number(found.count), percent(found.share)]);
        }
        table.print(out)?;
        for found in &all.findings {
            writeln!(out, "  - {}", plain(found.advice.clone()))?;
        }
    }
    writeln!(out, "\nRECORDINGS")?;
    for run in &all.runs {
        writeln!(out, "  {}: {}", plain(run.path.clone()), plain(run.report.verdict.text()))?;
    }
    Ok(())
}
