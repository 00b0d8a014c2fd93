//! `--offset PATH=TIME`: corrects the clock of one of several inputs.

use crate::input::machine_log;
use crate::input::unpacked;
use crate::WrongUsage;
use longpole_trace::Moment;
use longpole_trace::Shift;
use longpole_trace::Shifts;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Offset {
    path: PathBuf,
    shift: Shift,
}

impl Offset {
    /// Parses `PATH=+1.5s`, `PATH=-20us`, and with a drift
    /// `PATH=+1.5s,-3.2ppm@1763679845123456789`. The drift is applied to the time since that moment
    /// of the path's own clock, in ns.
    pub fn parse(text: &str) -> Result<Offset, String> {
        let wrong = || {
            format!("`{text}` is not an offset; write PATH=+1.5s or PATH=-20us (s, ms, us, ns, m, h), with a drift PATH=+1.5s,-3.2ppm@NS")
        };
        let (path, rest) = text.rsplit_once('=').filter(|(path, _)| !path.is_empty()).ok_or_else(wrong)?;
        let (offset, drift) = match rest.split_once(',') {
            Some((offset, drift)) => (offset, Some(drift)),
            None => (rest, None),
        };
        let mut shift = Shift::by(time(offset).ok_or_else(wrong)?);
        if let Some(drift) = drift {
            let (ppm, since) = drift.split_once("ppm@").ok_or_else(wrong)?;
            shift.drift = ppm.parse::<f64>().ok().filter(|ppm| ppm.abs() <= 1e5).ok_or_else(wrong)? / 1e6;
            shift.since_ns = since.parse().map_err(|_| wrong())?;
        }
        Ok(Offset { path: PathBuf::from(path), shift })
    }
}

impl Offset {
    /// Returns the option that expresses this correction of a path.
    pub fn as_option(path: &Path, shift: &Shift) -> String {
        let offset = format!("{}={}", path.display(), seconds(shift.offset_ns).replace(' ', ""));
        match shift.drift == 0.0 {
            true => offset,
            false => format!("{offset},{:+.6}ppm@{}", shift.drift * 1e6, shift.since_ns),
        }
    }
}

/// Formats ns as `+1.500000000 s`.
pub fn seconds(ns: i64) -> String {
    let (sign, size) = (if ns < 0 { '-' } else { '+' }, ns.unsigned_abs());
    format!("{sign}{}.{:09} s", size / 1_000_000_000, size % 1_000_000_000)
}

/// Parses `+1.5s`, `-20us`, `7ms` to ns.
fn time(text: &str) -> Option<i64> {
    let (sign, span) = match text.strip_prefix('-') {
        Some(span) => (-1, span),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    // The format is that of a moment relative to the begin of a trace.
    match Moment::parse(&format!("+{span}")) {
        Ok(Moment::AfterStart(ns)) => Some(sign * ns),
        _ => None,
    }
}

pub fn shifts(offsets: &[Offset]) -> Shifts {
    // The contents of an archive are read from another directory.
    let content = |path: &Path| unpacked::content(path).unwrap_or_else(|_| path.to_owned());
    Shifts::new(offsets.iter().map(|offset| (content(&offset.path), offset.shift)).collect())
}

/// Returns an error if a path is not among the inputs. It is probably mistyped, and the offset
/// would have no effect.
pub fn check(offsets: &[Offset], traces: &[PathBuf]) -> Result<(), WrongUsage> {
    let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    for offset in offsets {
        let path = absolute(&offset.path);
        let shown = offset.path.display();
        match traces.iter().find(|trace| path.starts_with(absolute(trace))) {
            Some(log) if machine_log::is_one(log) => {
                return Err(WrongUsage(format!("--offset {shown}: a machine log has its own time and is read alone")));
            }
            Some(_) if path.exists() => {}
            _ => return Err(WrongUsage(format!("--offset {shown}: it is neither one of the traces that are read nor a part of one"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_signed_times_of_a_path() {
        let parse = |text: &str| Offset::parse(text).map(|offset| (offset.path.display().to_string(), offset.shift.offset_ns));
        assert_eq!(parse("a=+1.5s"), Ok(("a".to_owned(), 1_500_000_000)));
        assert_eq!(parse("a=b/c=-20us"), Ok(("a=b/c".to_owned(), -20_000)));
        assert_eq!(parse("a=7ms"), Ok(("a".to_owned(), 7_000_000)));
        let drifting = Offset::parse("a=-1s,-3.5ppm@100").unwrap().shift;
        assert_eq!((drifting.drift, drifting.since_ns), (-3.5e-6, 100));
        for text in ["a", "=1s", "a=", "a=x", "a=--1s", "a=1s,3", "a=1s,3ppm", "a=1s,1e9ppm@0"] {
            assert!(Offset::parse(text).unwrap_err().contains("PATH=+1.5s"), "{text}");
        }
    }
}
