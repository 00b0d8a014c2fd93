//! A moment named by a user: absolute, within a day, or relative to the begin of the trace.

use jiff::civil::Date;

/// Begin or end of a part of a trace. A relative moment is resolved when the trace's first time is
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Unix time in ns, or ns on a foreign clock.
    At(i64),
    /// ns after the first event of the trace.
    AfterStart(i64),
    /// ns since midnight UTC of the day on which the trace begins. `print` shows times in this
    /// form.
    OfDay(i64),
}

const DAY: i64 = 86_400_000_000_000;

impl Moment {
    /// Returns the moment in ns for a trace that begins at `start_ns`.
    pub fn resolve(self, start_ns: i64) -> i64 {
        match self {
            Moment::At(ns) => ns,
            Moment::AfterStart(ns) => start_ns.saturating_add(ns),
            Moment::OfDay(ns) => start_ns.saturating_sub(start_ns.rem_euclid(DAY)).saturating_add(ns),
        }
    }

    /// Parses a moment. Accepted forms are `+1.5s` and `+20ms` (units s, ms, us, ns, m, h);
    /// `1763679845123456789` (ns); `1763679845.123` (s); dates as in RFC 3339 and shortened, such
    /// as `2025-11-20T23:04:05.5Z`, `2025-11-21 00:04+01:00` and `2025-11-20`; and
    /// `23:04:05.123456789`. A time without a zone is UTC.
    ///
    /// The error is a message that lists the accepted forms, or that names the length of the month
    /// if a date does not exist.
    pub fn parse(text: &str) -> Result<Moment, String> {
        let wrong = || {
            format!(
                "`{text}` is not a time; write +1.5s (from the trace's begin; s, ms, us, ns, m, h), 23:04:05.5 (UTC), \
                 2025-11-20T23:04:05.5Z (or +01:00), 2025-11-20, or Unix time as ns or with a point as seconds"
            )
        };
        let parsed = if let Some(relative) = text.strip_prefix('+') {
            span(relative).map(Moment::AfterStart)
        } else if text.contains('-') {
            let (date, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00"));
            let days = days(date).ok_or_else(wrong)??;
            zoned(time).and_then(|ns| days.checked_mul(DAY)?.checked_add(ns)).map(Moment::At)
        } else if text.contains(':') {
            of_day(text.strip_suffix('Z').unwrap_or(text)).map(Moment::OfDay)
        } else if text.contains('.') {
            decimal(text, 1_000_000_000).map(Moment::At)
        } else {
            text.parse().ok().map(Moment::At)
        };
        parsed.ok_or_else(wrong)
    }
}

/// Parses a span such as `1.5s`. The result is in ns; the default unit is seconds.
fn span(text: &str) -> Option<i64> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" | "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1_000,
        "ns" => 1,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    decimal(&text[..digits], unit)
}

/// Parses a decimal number and multiplies it by `unit`. Floating point is avoided because it cannot
/// represent Unix time in ns exactly.
fn decimal(text: &str, unit: i64) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fraction.len() > 18 {
        return None;
    }
    let mut value = whole.parse::<i64>().ok()?.checked_mul(unit)?;
    if !fraction.is_empty() {
        let scale = 10i128.pow(fraction.len() as u32);
        let part = fraction.parse::<i128>().ok()? * i128::from(unit) / scale;
        value = value.checked_add(i64::try_from(part).ok()?)?;
    }
    Some(value)
}

/// Parses a time of the day such as `23:04:05.5`. The result is in ns since midnight.
fn of_day(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, ':');
    let hour = parts.next()?.parse::<u8>().ok().filter(|&hour| hour < 24)?;
    let minute = parts.next()?.parse::<u8>().ok().filter(|&minute| minute < 60)?;
    let seconds = decimal(parts.next().unwrap_or("0"), 1_000_000_000).filter(|&ns| ns < 61_000_000_000)?;
    Some((i64::from(hour) * 60 + i64::from(minute)) * 60_000_000_000 + seconds)
}

/// Parses a time of the day with an optional zone (`23:04:05.5`, with `Z`, or with an offset such
/// as `+01:00`); the default is UTC. The result is in ns since midnight UTC of the date in front of
/// it, and is negative or longer than a day if the offset leads to another day.
fn zoned(text: &str) -> Option<i64> {
    let Some((time, offset)) = text.rfind(['+', '-']).map(|at| text.split_at(at)) else {
        return of_day(text.strip_suffix(['Z', 'z']).unwrap_or(text));
    };
    let (hours, minutes) = offset[1..].split_once(':').filter(|(hours, minutes)| hours.len() == 2 && minutes.len() == 2)?;
    let ahead = of_day(&format!("{hours}:{minutes}"))?;
    of_day(time)?.checked_sub(if offset.starts_with('-') { -ahead } else { ahead })
}

/// Returns the days from 1970-01-01 to a civil date. Returns `None` if the text is no date, and
/// `Some(Err(message))` if the month does not have that day.
fn days(text: &str) -> Option<Result<i64, String>> {
    let mut parts = text.splitn(3, '-');
    let mut number = |most| parts.next()?.parse::<i16>().ok().filter(|number| (1..=most).contains(number));
    let (year, month, day) = (number(9999)?, number(12)? as i8, number(31)? as i8);
    let length = Date::new(year, month, 1).ok()?.days_in_month();
    Some(match Date::new(year, month, day) {
        Ok(date) => Ok(date.duration_since(Date::constant(1970, 1, 1)).as_hours() / 24),
        Err(_) => Err(format!("there is no {text}: that month has {length} days")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_a_moment_are_parsed() {
        assert_eq!(Moment::parse("+1.5s"), Ok(Moment::AfterStart(1_500_000_000)));
        assert_eq!(Moment::parse("+20ms"), Ok(Moment::AfterStart(20_000_000)));
        assert_eq!(Moment::parse("+3"), Ok(Moment::AfterStart(3_000_000_000)));
        assert_eq!(Moment::parse("+1.5ns"), Ok(Moment::AfterStart(1)));
        assert_eq!(Moment::parse("1763679845123456789"), Ok(Moment::At(1_763_679_845_123_456_789)));
        assert_eq!(Moment::parse("1763679845.123456789"), Ok(Moment::At(1_763_679_845_123_456_789)));
        assert_eq!(Moment::parse("2025-11-20T23:04:05.123456789Z"), Ok(Moment::At(1_763_679_845_123_456_789)));
        assert_eq!(Moment::parse("2025-11-20 23:04"), Ok(Moment::At(1_763_679_840_000_000_000)));
        for same in ["2025-11-21T00:04:05+01:00", "2025-11-20t15:34:05-07:30", "2025-11-20 23:04:05z", "2025-11-20T23:04:05.000-00:00"] {
            assert_eq!(Moment::parse(same), Ok(Moment::At(1_763_679_845_000_000_000)), "{same}");
        }
        assert_eq!(Moment::parse("2025-11-20"), Ok(Moment::At(1_763_596_800_000_000_000)));
        assert_eq!(Moment::parse("2024-02-29"), Ok(Moment::At(1_709_164_800_000_000_000)));
        assert_eq!(Moment::parse("00:00:01.5"), Ok(Moment::OfDay(1_500_000_000)));
    }

    #[test]
    fn invalid_moment_is_refused_with_a_list_of_the_valid_forms() {
        for text in [
            "",
            "+",
            "+s",
            "+1.5.5s",
            "+1x",
            "25:00",
            "1.",
            "-5-5T0:0",
            "9999-13-01T00:00",
            "soon",
            "+99999999999h",
            "2025-11",
            "2025-11-20T",
            "2025-11-20T+01:00",
            "2025-11-20T10:00+1",
            "2025-11-20T10:00+25:00",
            "2025-11-20T10:00Z+01:00",
        ] {
            match Moment::parse(text) {
                Err(message) => assert!(message.contains("+1.5s"), "{message}"),
                Ok(moment) => assert_eq!((text, moment), ("1.", Moment::At(1_000_000_000))),
            }
        }
    }

    #[test]
    fn nonexistent_date_is_refused_with_the_length_of_its_month() {
        for (text, length) in [("2024-02-30T00:00Z", 29), ("2025-02-29", 28), ("1900-02-29", 28), ("2025-11-31 10:00", 30)] {
            assert!(Moment::parse(text).unwrap_err().contains(&format!("has {length} days")), "{text}");
        }
    }

    #[test]
    fn relative_moment_counts_from_the_begin_of_the_trace() {
        assert_eq!(Moment::AfterStart(5).resolve(100), 105);
        assert_eq!(Moment::OfDay(7).resolve(3 * DAY + 55), 3 * DAY + 7);
        assert_eq!(Moment::AfterStart(i64::MAX).resolve(5), i64::MAX);
    }
}
