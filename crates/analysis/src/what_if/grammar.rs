//! The grammar of changes, as a user types them.
//!
//! ```text
//! 'server::parse x0.5'   'server x0.5'   'queue inbox capacity 2048'   'cpus +1' 'batch server
//! 150'   'concurrency server 4'   'lock accounts split' 'a::b x0.5 and queue q capacity 8'
//! ```
//!
//! Without a state, everything that the machine, or the threads of the program, does itself is
//! changed, but not its waits.
//!
//! A name with spaces or `::` is written in double quotes, alone or as `"MACHINE::STATE"`. If the
//! quotes are missing, every split of the name at a `::` is tried; only one of them occurs in a
//! trace.

/// One world: the changes that are made together, and their text.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub text: String,
    pub changes: Vec<Change>,
}

/// A change of the system.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Multiplies the time of a state of a machine (or of all machines of a class), or of a link.
    Scale { target: Target, factor: f64 },
    /// Sets the capacity of a queue; `None` is unlimited.
    Capacity { queue: String, units: Option<u64> },
    /// Adds CPUs to each host.
    Cpus { more: u32 },
    /// Pays the cost of each call or signal of a machine once for this number of items. The target
    /// may name the state that is paid for.
    Batch { target: Target, items: u64 },
    /// Lets a server, a pool or a lock do this number of pieces of work at once.
    Concurrency { of: String, at_once: u64 },
    /// Removes the waits for a lock; the work under the lock stays with each thread.
    Split { lock: String },
}

impl Change {
    /// Returns the name of what does several pieces of work at once, and their number (`None`:
    /// any).
    pub fn at_once(&self) -> Option<(&str, Option<u64>)> {
        match self {
            Change::Concurrency { of, at_once } => Some((of, Some(*at_once))),
            Change::Split { lock } => Some((lock, None)),
            _ => None,
        }
    }
}

/// A state of a machine, as (machine, state); without a state, the machine. There are several ways
/// if it is unclear where the name is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub text: String,
    pub ways: Vec<(String, Option<String>)>,
}

/// Summary of the grammar, for error messages.
pub const GRAMMAR: &str = "a change is 'MACHINE::STATE x0.5', 'MACHINE x0.5', 'queue NAME capacity N', 'cpus +N', 'batch MACHINE N', \
     'concurrency NAME N' or 'lock NAME split', several of one scenario joined by `and`";

/// Largest factor; something ten thousand times slower is no useful experiment.
const LARGEST_FACTOR: f64 = 10_000.0;
const MAX_CPUS: u32 = 1024;
pub(crate) const MAX_AT_ONCE: u64 = 1024;

/// A character, and whether it was in quotes.
type Letter = (char, bool);
type Word = Vec<Letter>;

impl Scenario {
    /// Returns true if some machine calls less often in this world.
    pub fn batches(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Batch { .. }))
    }

    /// Returns true if the time of some state becomes 0.
    pub fn leaves_out(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Scale { factor, .. } if *factor == 0.0))
    }

    /// Returns the scenario without its CPUs, if it adds CPUs and makes other changes.
    pub fn without_cpus(&self) -> Option<Scenario> {
        let is_cpus = |change: &Change| matches!(change, Change::Cpus { .. });
        let changes: Vec<Change> = self.changes.iter().filter(|change| !is_cpus(change)).cloned().collect();
        let has_both = !changes.is_empty() && changes.len() < self.changes.len();
        has_both.then(|| Scenario { text: self.text.clone(), changes })
    }

    /// Parses a scenario. The error is a message that quotes the text and shows the grammar.
    pub fn parse(text: &str) -> Result<Scenario, String> {
        let wrong = |what: String| format!("'{text}': {what}; {GRAMMAR}");
        let words = words(text).map_err(wrong)?;
        let mut changes = Vec::new();
        for part in words.split(|word| is(word, "and")) {
            changes.push(change(part).map_err(wrong)?);
        }
        Ok(Scenario { text: text.trim().to_owned(), changes })
    }

    /// Returns the scenario with another one's changes added.
    pub fn with(&self, other: &Scenario) -> Scenario {
        let changes = self.changes.iter().chain(&other.changes).cloned().collect();
        Scenario { text: format!("{} and {}", self.text, other.text), changes }
    }

    /// Returns the name of what the first change changes.
    pub fn of(&self) -> String {
        match self.changes.first() {
            Some(Change::Scale { target, .. } | Change::Batch { target, .. }) => target.text.clone(),
            Some(Change::Capacity { queue: name, .. } | Change::Concurrency { of: name, .. } | Change::Split { lock: name }) => {
                name.clone()
            }
            Some(Change::Cpus { .. }) => "the number of CPUs".to_owned(),
            None => String::new(),
        }
    }

    /// Makes a scenario that scales a state, with the names as given.
    pub fn scale(machine: &str, state: &str, factor: f64) -> Scenario {
        let text = format!("{}::{}", quoted(machine), quoted(state));
        let target = Target { text: format!("{machine}::{state}"), ways: vec![(machine.to_owned(), Some(state.to_owned()))] };
        Scenario { text: format!("{text} x{factor}"), changes: vec![Change::Scale { target, factor }] }
    }

    /// Makes a scenario that scales everything that a machine, or the threads of a program, does
    /// itself.
    pub fn scale_all(machine: &str, factor: f64) -> Scenario {
        let target = Target { text: machine.to_owned(), ways: vec![(machine.to_owned(), None)] };
        Scenario { text: format!("{} x{factor}", quoted(machine)), changes: vec![Change::Scale { target, factor }] }
    }

    pub fn capacity(queue: &str, units: u64) -> Scenario {
        let text = format!("queue {} capacity {units}", quoted(queue));
        Scenario { text, changes: vec![Change::Capacity { queue: queue.to_owned(), units: Some(units) }] }
    }

    /// Makes a scenario with one call for this number of items. `state` is the state of the call.
    pub fn batch(machine: &str, state: &str, items: u64) -> Scenario {
        let target = Target { text: format!("{machine}::{state}"), ways: vec![(machine.to_owned(), Some(state.to_owned()))] };
        Scenario { text: format!("batch {}::{} {items}", quoted(machine), quoted(state)), changes: vec![Change::Batch { target, items }] }
    }

    pub fn concurrency(of: &str, at_once: u64) -> Scenario {
        let text = format!("concurrency {} {at_once}", quoted(of));
        Scenario { text, changes: vec![Change::Concurrency { of: of.to_owned(), at_once }] }
    }

    pub fn split(lock: &str) -> Scenario {
        Scenario { text: format!("lock {} split", quoted(lock)), changes: vec![Change::Split { lock: lock.to_owned() }] }
    }

    pub fn cpus(more: u32) -> Scenario {
        Scenario { text: format!("cpus +{more}"), changes: vec![Change::Cpus { more }] }
    }
}

/// Returns a name as it must be typed.
pub fn quoted(name: &str) -> String {
    let plain = !name.is_empty() && !name.contains("::") && !name.contains(|c: char| c.is_whitespace() || c == '"' || c == '\\');
    match plain && name != "and" {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut letters = text.chars();
    let mut within = false;
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                within = !within;
                word.get_or_insert_default();
            }
            '\\' if within => word.get_or_insert_default().push((letters.next().ok_or("it ends with a `\\`")?, true)),
            letter if within => word.get_or_insert_default().push((letter, true)),
            letter if letter.is_whitespace() => words.extend(word.take()),
            letter => word.get_or_insert_default().push((letter, false)),
        }
    }
    if within {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    Ok(words)
}

fn is(word: &Word, text: &str) -> bool {
    word.iter().all(|letter| !letter.1) && plain(word) == text
}

fn plain(word: &[Letter]) -> String {
    word.iter().map(|letter| letter.0).collect()
}

/// Joins the words of an unquoted name.
fn joined(words: &[Word]) -> Word {
    words.join(&(' ', false))
}

fn change(words: &[Word]) -> Result<Change, String> {
    let Some((last, before)) = words.split_last() else { return Err("there is no change in it".to_owned()) };
    let Some(first) = words.first() else { return Err("there is no change in it".to_owned()) };
    let number = plain(last);
    if is(first, "cpus") && words.len() == 2 {
        let more = number.strip_prefix('+').and_then(|more| more.parse().ok()).filter(|more| (1..=MAX_CPUS).contains(more));
        let more = more.ok_or_else(|| format!("\"{number}\" is not a number of CPUs to add, such as +1 (at most +{MAX_CPUS})"))?;
        return Ok(Change::Cpus { more });
    }
    if is(first, "queue") && words.len() >= 4 && before.last().is_some_and(|word| is(word, "capacity")) {
        let queue = plain(&joined(&words[1..words.len() - 2]));
        let units = match number.as_str() {
            "unlimited" => None,
            number => Some(
                number
                    .parse()
                    .ok()
                    .filter(|&units| units > 0)
                    .ok_or_else(|| format!("\"{number}\" is not a capacity: write an integer from 1 on, or unlimited"))?,
            ),
        };
        return Ok(Change::Capacity { queue, units });
    }
    if is(first, "batch") && words.len() >= 3 {
        let items = number.parse().ok().filter(|&items| items > 0).ok_or_else(|| format!("\"{number}\" is not a number of items"))?;
        return Ok(Change::Batch { target: target(&joined(&words[1..words.len() - 1]))?, items });
    }
    if is(first, "concurrency") && words.len() >= 3 {
        let at_once = number.parse().ok().filter(|at_once| (1..=MAX_AT_ONCE).contains(at_once));
        let at_once = at_once.ok_or_else(|| format!("\"{number}\" is not a number of pieces of work at once (1 to {MAX_AT_ONCE})"))?;
        return Ok(Change::Concurrency { of: plain(&joined(&words[1..words.len() - 1])), at_once });
    }
    if is(first, "lock") && words.len() >= 3 && is(last, "split") {
        return Ok(Change::Split { lock: plain(&joined(&words[1..words.len() - 1])) });
    }
    let factor = number.strip_prefix(['x', '×']).and_then(|factor| factor.parse::<f64>().ok());
    let Some(factor) = factor.filter(|factor| (0.0..=LARGEST_FACTOR).contains(factor)) else {
        return Err(format!("\"{number}\" is not a factor, such as x0.5 (0 to {LARGEST_FACTOR})"));
    };
    Ok(Change::Scale { target: target(&joined(before))?, factor })
}

fn target(name: &Word) -> Result<Target, String> {
    let text = plain(name);
    let parts = |quoted: bool| {
        let at = (1..name.len().saturating_sub(2))
            .filter(|&at| name[at].0 == ':' && name[at + 1].0 == ':' && (quoted || !name[at].1 && !name[at + 1].1));
        at.map(|at| (plain(&name[..at]), Some(plain(&name[at + 2..])))).collect::<Vec<_>>()
    };
    let mut ways = parts(false);
    if ways.is_empty() {
        ways = parts(true);
    }
    if text.is_empty() || text.starts_with("::") || text.ends_with("::") {
        return Err(format!("\"{text}\" is not a state; write MACHINE::STATE"));
    }
    ways.push((text.clone(), None));
    Ok(Target { text, ways })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(text: &str) -> Vec<(String, String)> {
        match &Scenario::parse(text).unwrap().changes[0] {
            Change::Scale { target, .. } => {
                let with_state = target.ways.iter().filter(|way| way.1.is_some());
                with_state.map(|way| (way.0.clone(), way.1.clone().unwrap())).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    fn way(machine: &str, state: &str) -> (String, String) {
        (machine.to_owned(), state.to_owned())
    }

    #[test]
    fn a_name_is_split_at_double_colons_outside_quotes() {
        assert_eq!(ways("server::parse x0.5"), [way("server", "parse")]);
        assert_eq!(ways("\"irq 36\"::run x0"), [way("irq 36", "run")]);
        assert_eq!(ways("\"a::b\"::\"c::d\" ×2"), [way("a::b", "c::d")]);
        assert_eq!(ways("\"init -> x::look up\" x0.5"), [way("init -> x", "look up")]);
        assert_eq!(ways("irq 36::run x0.5"), [way("irq 36", "run")]);
        assert_eq!(ways("a::b::c x0.5"), [way("a", "b::c"), way("a::b", "c")]);
        assert_eq!(ways(r#""a\"b"::c x0.5"#), [way("a\"b", "c")]);
    }

    #[test]
    fn several_changes_are_joined_by_and() {
        let scenario =
            Scenario::parse("a::b x0.5 and queue \"my and queue\" capacity 8 and cpus +2 and batch m 150 and batch m::call 2").unwrap();
        assert_eq!(scenario.changes.len(), 5);
        assert_eq!(scenario.changes[1], Change::Capacity { queue: "my and queue".to_owned(), units: Some(8) });
        assert_eq!(scenario.changes[2], Change::Cpus { more: 2 });
        assert_eq!(
            Scenario::parse("queue q capacity unlimited").unwrap().changes[0],
            Change::Capacity { queue: "q".to_owned(), units: None }
        );
    }

    #[test]
    fn names_in_concurrency_and_lock_changes_need_no_quotes() {
        let parsed = |text: &str| Scenario::parse(text).unwrap().changes.remove(0);
        assert_eq!(parsed("concurrency port 8080 4"), Change::Concurrency { of: "port 8080".to_owned(), at_once: 4 });
        assert_eq!(parsed("lock my lock split"), Change::Split { lock: "my lock".to_owned() });
        assert!(matches!(parsed("lock::hold x0.5"), Change::Scale { .. }));
    }

    #[test]
    fn a_generated_text_parses_to_the_same_change() {
        for scenario in [
            Scenario::capacity("and", 4),
            Scenario::cpus(1),
            Scenario::scale_all("a b", 0.5),
            Scenario::concurrency("port 80", 4),
            Scenario::split("a and b"),
        ] {
            assert_eq!(Scenario::parse(&scenario.text).unwrap(), scenario);
        }
        for scenario in [Scenario::scale("a b", "c::d", 0.5), Scenario::scale("a\"\\", "x", 2.0)] {
            let (Change::Scale { target: read, .. }, Change::Scale { target, .. }) =
                (&Scenario::parse(&scenario.text).unwrap().changes[0], &scenario.changes[0])
            else {
                panic!("{scenario:?}")
            };
            assert_eq!(read.ways[0], target.ways[0]);
        }
    }

    #[test]
    fn invalid_changes_are_refused_with_a_reason() {
        for (text, said) in [
            ("", "there is no change in it"),
            ("a::b x0.5 and", "there is no change in it"),
            ("a::b 0.5", "\"0.5\" is not a factor"),
            ("a::b x-1", "\"x-1\" is not a factor"),
            ("a::b xNaN", "\"xNaN\" is not a factor"),
            ("::b x0.5", "\"::b\" is not a state"),
            ("a:: x0.5", "\"a::\" is not a state"),
            ("\"a::b x0.5", "a quote is not closed"),
            ("queue q capacity 0", "\"0\" is not a capacity"),
            ("cpus 1", "\"1\" is not a number of CPUs"),
            ("cpus +99999", "\"+99999\" is not a number of CPUs"),
            ("batch m 0", "\"0\" is not a number of items"),
            ("concurrency m 0", "\"0\" is not a number of pieces of work"),
            ("lock m halved", "\"halved\" is not a factor"),
        ] {
            let error = Scenario::parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
