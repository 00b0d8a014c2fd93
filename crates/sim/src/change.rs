//! Changes of a system, in the syntax of `what-if`.

use crate::system::{each_step, Step, System};

/// One change of a system.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Scales the time of a state of a machine or of a class, or the time of a link.
    Scale {
        machine: String,
        state: String,
        factor: f64,
    },
    Capacity {
        queue: String,
        capacity: u64,
    },
    Cpus {
        more: u64,
    },
    Batch {
        machine: String,
        n: u64,
    },
}

/// Splits at spaces outside of quotes. Quotes are retained; [`bare`] removes them around a part of
/// a word.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted, mut any) = (Vec::new(), String::new(), false, false);
    for c in text.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                any = true;
                word.push('"');
            }
            c if c.is_whitespace() && !quoted => {
                if any {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            c => {
                word.push(c);
                any = true;
            }
        }
    }
    if quoted {
        return Err(format!("`{text}`: a quote is not closed"));
    }
    if any {
        words.push(word);
    }
    Ok(words)
}

fn bare(word: &str) -> String {
    word.trim_matches('"').to_owned()
}

/// Splits MACHINE and STATE at the first `::` outside of quotes.
fn pair(word: &str) -> Option<(String, String)> {
    let mut quoted = false;
    for (at, c) in word.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ':' if !quoted && word[at..].starts_with("::") => return Some((bare(&word[..at]), bare(&word[at + 2..]))),
            _ => {}
        }
    }
    None
}

/// Parses one scenario: changes joined by `and`.
pub fn parse(text: &str) -> Result<Vec<Change>, String> {
    let words = words(text)?;
    words.split(|word| word == "and").map(|words| one(words).ok_or_else(|| format!("`{text}` is not a known change"))).collect()
}

fn one(words: &[String]) -> Option<Change> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["queue", queue, "capacity", n] => Some(Change::Capacity { queue: bare(queue), capacity: n.parse().ok().filter(|&n| n > 0)? }),
        ["cpus", more] => Some(Change::Cpus { more: more.strip_prefix('+')?.parse().ok()? }),
        ["batch", machine, n] => Some(Change::Batch { machine: bare(machine), n: n.parse().ok().filter(|&n| n > 0)? }),
        [state, factor] => {
            let (machine, state) = pair(state)?;
            let factor = factor.strip_prefix('x')?.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 0.0)?;
            Some(Change::Scale { machine, state, factor })
        }
        _ => None,
    }
}

pub fn apply(system: &mut System, changes: &[Change]) -> Result<(), String> {
    changes.iter().try_for_each(|change| match apply_one(system, change) {
        true => Ok(()),
        false => Err(format!("nothing in this system is changed by {change:?}")),
    })
}

/// Applies a change. Returns false if the system has nothing that it changes.
fn apply_one(system: &mut System, change: &Change) -> bool {
    let mut found = false;
    match change {
        Change::Scale { machine, state, factor } if machine == "link" && state == "timer" => {
            system.timer_factor = Some(system.timer_factor.unwrap_or(1.0) * factor);
            found = true;
        }
        Change::Scale { machine: of, state, factor } => {
            let id = system.states.iter().position(|name| name == state).map(|at| at as u32);
            for machine in system.machines.iter_mut().filter(|machine| machine.name == *of || machine.class == *of) {
                each_step(&mut machine.program, &mut |step| {
                    if let Step::Work { state, time } | Step::Device { state, time } = step {
                        if Some(*state) == id {
                            time.factor *= factor;
                            found = true;
                        }
                    }
                });
            }
            for queue in system.queues.iter_mut().filter(|queue| state == "wire" && (queue.name == *of || of == "link")) {
                for latency in [&mut queue.latency, &mut queue.space_latency].into_iter().flatten() {
                    latency.factor *= factor;
                    found = true;
                }
            }
        }
        Change::Capacity { queue: of, capacity } => {
            for queue in system.queues.iter_mut().filter(|queue| queue.name == *of) {
                queue.capacity = Some((*capacity).max(queue.initial));
                found = true;
            }
        }
        Change::Cpus { more } => {
            for pool in &mut system.pools {
                pool.cpus += more;
                found = true;
            }
        }
        Change::Batch { machine: of, n: batch } => {
            for machine in system.machines.iter_mut().filter(|machine| machine.name == *of || machine.class == *of) {
                each_step(&mut machine.program, &mut |step| {
                    if let Step::Every { n, .. } = step {
                        *n = *batch;
                        found = true;
                    }
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_may_have_quotes_and_are_joined_by_and() {
        let scale = |machine: &str, state: &str, factor| Change::Scale { machine: machine.to_owned(), state: state.to_owned(), factor };
        assert_eq!(parse("a::b x0.5"), Ok(vec![scale("a", "b", 0.5)]));
        assert_eq!(
            parse("\"a b\"::\"c::d\" x2 and queue \"q r\" capacity 4 and cpus +1 and batch m 10"),
            Ok(vec![
                scale("a b", "c::d", 2.0),
                Change::Capacity { queue: "q r".to_owned(), capacity: 4 },
                Change::Cpus { more: 1 },
                Change::Batch { machine: "m".to_owned(), n: 10 },
            ])
        );
        for bad in ["", "a::b", "a b x1", "queue q capacity 0", "cpus 1", "a::b x-1", "a::b xNaN", "\"a::b x1", "a::b x1 and"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
