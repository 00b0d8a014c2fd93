//! The names nearest to one that does not occur: what a user who mistyped it probably meant.
//!
//! The distance of two names is the number of insertions, deletions and replacements of characters,
//! ignoring case. A name that contains the other one, or whose last part is the same, is nearer
//! than any that does not. Only the beginnings of long names are compared, since names of a foreign
//! trace may be of any length.

use crate::stats::text::place;
use longpole_model::interaction::{MachineId, Vocabulary};

const COMPARED: usize = 128;

/// Returns at most `most` of the candidates, the nearest first.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let wanted = letters(name);
    let mut ranked: Vec<(bool, usize, &str)> = candidates
        .into_iter()
        .map(|candidate| {
            let other = letters(candidate);
            (!is_part(&wanted, &other), distance(&wanted, &other), candidate)
        })
        .collect();
    ranked.sort_unstable();
    ranked.dedup();
    ranked.into_iter().take(most).map(|(.., candidate)| candidate).collect()
}

/// Returns the message for an end of a machine that has done nothing before, with the nearest
/// machine.
pub(crate) fn ends_nowhere(vocabulary: &Vocabulary, machine: MachineId, is_there: impl Fn(&MachineId) -> bool) -> String {
    let full = |machine| place(vocabulary.host(machine), vocabulary.machine_name(machine));
    let there: Vec<String> = vocabulary.machines().filter(is_there).map(full).collect();
    let near = nearest(&full(machine), there.iter().map(String::as_str), 1);
    let near = near.first().map_or_else(String::new, |near| format!("; the nearest machine is \"{near}\""));
    format!("\"{}\" has not acted before that time, so the path cannot end there{near}", full(machine))
}

/// Number of names that are suggested if the given one does not occur.
const SUGGESTED: usize = 3;

/// Returns the end of a message about a name that does not occur: the nearest names that do, or an
/// empty text if there is none.
pub fn suggestion<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let near = nearest(name, candidates, SUGGESTED);
    if near.is_empty() {
        String::new()
    } else {
        format!("; the nearest: {}", near.join(", "))
    }
}

/// Returns the message for a machine that the user named and that does not occur. The suggested
/// names have the form of the given one: with their hosts if it has one.
pub(crate) fn no_such_machine(vocabulary: &Vocabulary, asked: &str) -> String {
    let has_host = asked.contains('/') && vocabulary.machines().any(|machine| !vocabulary.host(machine).is_empty());
    let host = |machine| if has_host { vocabulary.host(machine) } else { "" };
    let names: Vec<String> = vocabulary.machines().map(|machine| place(host(machine), vocabulary.machine_name(machine))).collect();
    format!("there is no machine \"{asked}\" in it{}", suggestion(asked, names.iter().map(String::as_str)))
}

fn letters(name: &str) -> Vec<char> {
    name.chars().take(COMPARED).flat_map(char::to_lowercase).collect()
}

fn is_part(wanted: &[char], other: &[char]) -> bool {
    let last = wanted.rsplit(|&letter| letter == ':').next().unwrap_or(&[]);
    let within = |short: &[char], long: &[char]| short.len() > 1 && long.windows(short.len()).any(|part| part == short);
    within(last, other) || within(wanted, other) || within(other, wanted)
}

fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (to_at, to) in b.iter().enumerate() {
            let exchanged = diagonal + usize::from(from != to);
            diagonal = row[to_at + 1];
            row[to_at + 1] = exchanged.min(diagonal + 1).min(row[to_at] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_nearest_to_what_was_meant() {
        let names = ["span_begin:parse", "span_end:parse", "queue_put:submit", "mark:x"];
        assert_eq!(nearest("span_begn:parse", names, 2), ["span_begin:parse", "span_end:parse"]);
        assert_eq!(nearest("Submit", names, 1), ["queue_put:submit"]);
        assert_eq!(nearest("", names, 1), ["mark:x"]);
        assert!(nearest("x", [], 3).is_empty());
    }

    #[test]
    fn distances_count_edits() {
        let distance = |a, b| distance(&letters(a), &letters(b));
        assert_eq!((distance("kitten", "sitting"), distance("", "abc"), distance("abc", "abc")), (3, 3, 0));
    }

    #[test]
    fn names_of_any_length_are_compared_in_bounded_time() {
        let long = "y".repeat(1 << 20);
        assert_eq!(nearest(&long, [long.as_str(), "x"], 1), [long.as_str()]);
    }
}
