//! Numbers and names in the form used in sentences and tables.

use longpole_model::interaction::{MachineId, Vocabulary};

/// Returns the name of a machine, with its host if it has one.
pub fn place(host: &str, machine: &str) -> String {
    match host {
        "" => machine.to_owned(),
        host => format!("{host}/{machine}"),
    }
}

/// Returns the name of a machine by its id, with its host if it has one.
pub(crate) fn machine_place(vocabulary: &Vocabulary, machine: MachineId) -> String {
    place(vocabulary.host(machine), vocabulary.machine_name(machine))
}

/// Formats `1234567` as `1,234,567`.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with a noun whose plural ends in s: `1 link`, `2 links`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", number(count), if count == 1 { "" } else { "s" })
}

/// Formats a fraction from 0 to 1 as a percentage with one digit. A positive fraction that would
/// round to 0 is shown as `<0.1 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.05 => "<0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(1000), "1,000");
        assert_eq!(number(12_345_678), "12,345,678");
    }

    #[test]
    fn a_positive_share_is_never_shown_as_zero() {
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(percent(0.0001), "<0.1 %");
        assert_eq!(percent(0.615), "61.5 %");
    }
}
