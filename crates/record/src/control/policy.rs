//! The configuration file: what is recorded of which process and thread.
//!
//! Policies select by label and thread; the first one that matches decides. Without any policy,
//! everything is recorded. An invalid configuration is rejected as a whole, with file, line and
//! reason.

use crate::interfaces;
use crate::text::nearest;
use crate::text::units::{optional_size, parse_duration, snaplen, DEFAULT_SNAPLEN};
use longpole_abi::kind::{Category, ALL_CATEGORIES};
use longpole_abi::{MODE_BLOCK, MODE_DISCARD, MODE_OVERWRITE, RING_MINIMUM};
use longpole_predicate::glob;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two looks at a calm ring by default.
const DEFAULT_PERIOD: Duration = Duration::from_millis(100);
/// Longest wait of a thread for room by default.
const DEFAULT_BLOCK_LIMIT: Duration = Duration::from_millis(100);
/// Largest ring in bytes.
const LARGEST_BUFFER: u64 = 1 << 30;

/// Contents of the configuration file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// If false, nothing is recorded until it is true again.
    pub enable: bool,
    /// Longest time between two looks at a ring.
    #[serde(deserialize_with = "duration")]
    pub period: Duration,
    /// Action of a full ring if its policy does not set one. [`Mode::Overwrite`] applies also to
    /// the kernel's buffers.
    pub mode: Option<Mode>,
    /// Longest time that a thread waits for room, in mode [`Mode::Block`].
    #[serde(deserialize_with = "block_limit")]
    pub block_limit: Option<Duration>,
    /// Folder for new recordings.
    pub root: Option<PathBuf>,
    /// Limit of the recording's bytes on the disk; beyond it the oldest chunk is deleted.
    #[serde(deserialize_with = "optional_size")]
    pub max_size: Option<u64>,
    /// Limit of the age of the oldest event; beyond it the oldest chunk is deleted.
    #[serde(deserialize_with = "age")]
    pub max_age: Option<Duration>,
    /// Size in bytes of each CPU's buffer in the kernel.
    #[serde(deserialize_with = "optional_size")]
    pub kernel_buffer: Option<u64>,
    /// Network interfaces whose packets are captured.
    pub packets: interfaces::Request,
    /// Patterns of labels that are never recorded.
    pub exclude: Vec<String>,
    pub policy: Vec<Policy>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            enable: true,
            period: DEFAULT_PERIOD,
            mode: None,
            block_limit: None,
            root: None,
            max_size: None,
            max_age: None,
            kernel_buffer: None,
            packets: interfaces::Request::default(),
            exclude: Vec::new(),
            policy: Vec::new(),
        }
    }
}

/// A rule that selects processes and threads, and says what is recorded of them. All given
/// conditions must match.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Exact label.
    pub label: Option<String>,
    /// Begin of the label.
    pub label_prefix: Option<String>,
    /// End of the label.
    pub label_suffix: Option<String>,
    /// Pattern of the label.
    pub glob: Option<String>,
    /// Pattern of the thread's name.
    pub thread: Option<String>,
    /// Patterns of labels to which this policy does not apply.
    pub exclude: Vec<String>,
    /// Bit mask of event categories.
    #[serde(deserialize_with = "categories")]
    pub events: u32,
    /// Size of a ring in bytes.
    #[serde(deserialize_with = "buffer")]
    pub buffer: Option<u64>,
    pub mode: Option<Mode>,
    #[serde(deserialize_with = "block_limit")]
    pub block_limit: Option<Duration>,
    pub backends: Vec<Backend>,
    pub packets: Packets,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            label: None,
            label_prefix: None,
            label_suffix: None,
            glob: None,
            thread: None,
            exclude: Vec::new(),
            events: ALL_CATEGORIES,
            buffer: None,
            mode: None,
            block_limit: None,
            backends: vec![Backend::Ctf, Backend::Pcapng],
            packets: Packets::default(),
        }
    }
}

/// Action of a full ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Discards the newest event.
    #[default]
    Discard,
    /// Overwrites the oldest sub-buffer (flight recorder mode). Nothing is taken until a snapshot
    /// is requested or the recording ends.
    Overwrite,
    /// Blocks the thread for a limited time, then discards the event.
    Block,
}

impl Mode {
    pub const ALL: [Mode; 3] = [Mode::Discard, Mode::Overwrite, Mode::Block];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Discard => "discard",
            Mode::Overwrite => "overwrite",
            Mode::Block => "block",
        }
    }

    /// Number of the mode in shared memory.
    pub(crate) fn number(self) -> u32 {
        match self {
            Mode::Discard => MODE_DISCARD,
            Mode::Overwrite => MODE_OVERWRITE,
            Mode::Block => MODE_BLOCK,
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        let known = Mode::ALL.into_iter().find(|mode| mode.name() == text);
        known.ok_or_else(|| format!("{text:?} is not a mode; write discard, overwrite or block"))
    }
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    Ctf,
    Pcapng,
}

/// Packets that a policy selects.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Packets {
    /// Patterns of interface names; an empty list selects all.
    pub interfaces: Vec<String>,
    /// Bytes recorded of each packet.
    #[serde(deserialize_with = "snaplen")]
    pub snaplen: u32,
}

impl Default for Packets {
    fn default() -> Packets {
        Packets { interfaces: Vec::new(), snaplen: DEFAULT_SNAPLEN }
    }
}

impl Packets {
    pub fn wants(&self, interface: &str) -> bool {
        self.interfaces.is_empty() || self.interfaces.iter().any(|pattern| glob::matches(pattern, interface))
    }
}

impl Policy {
    fn matches_label(&self, label: &str) -> bool {
        self.label.as_deref().is_none_or(|wanted| wanted == label)
            && self.label_prefix.as_deref().is_none_or(|prefix| label.starts_with(prefix))
            && self.label_suffix.as_deref().is_none_or(|suffix| label.ends_with(suffix))
            && self.glob.as_deref().is_none_or(|pattern| glob::matches(pattern, label))
            && !self.exclude.iter().any(|pattern| glob::matches(pattern, label))
    }

    fn matches_thread(&self, thread: &str) -> bool {
        self.thread.as_deref().is_none_or(|pattern| glob::matches(pattern, thread))
    }

    pub fn has(&self, backend: Backend) -> bool {
        self.backends.contains(&backend)
    }
}

impl Config {
    /// Reads and checks a configuration file.
    pub fn read(path: &Path) -> Result<Config, PolicyError> {
        let text =
            fs::read_to_string(path).map_err(|error| PolicyError { path: path.to_owned(), place: None, reason: error.to_string() })?;
        Config::parse(&text, path)
    }

    /// Checks the text of a configuration. `path` is only for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Config, PolicyError> {
        toml::from_str(text).map_err(|error| PolicyError {
            path: path.to_owned(),
            place: error.span().map(|span| TextPosition::find(text, span.start, span.end)),
            reason: error.message().to_owned(),
        })
    }

    /// What a process as a whole records: the union of what its threads may need. `None` if
    /// nothing.
    pub fn for_process(&self, label: &str) -> Option<Choice> {
        if !self.enable || self.exclude.iter().any(|pattern| glob::matches(pattern, label)) {
            return None;
        }
        if self.policy.is_empty() {
            return Some(Choice {
                mask: ALL_CATEGORIES,
                buffer: None,
                snaplen: DEFAULT_SNAPLEN,
                full_ring_action: self.full_ring_action(None),
            });
        }
        let mut choice = None;
        for policy in self.policy.iter().filter(|policy| policy.matches_label(label)) {
            let full_ring_action = self.full_ring_action(Some(policy));
            let choice = choice.get_or_insert(Choice { mask: 0, buffer: None, snaplen: 0, full_ring_action });
            choice.full_ring_action = choice.full_ring_action.common(full_ring_action);
            choice.mask |= policy.events;
            choice.buffer = choice.buffer.max(policy.buffer);
            choice.snaplen = choice.snaplen.max(policy.packets.snaplen);
            if policy.thread.is_none() {
                break;
            }
        }
        choice
    }

    /// The policy that decides about a thread. `Ok(None)` if there are no policies; `Err` if none
    /// of them selects the thread.
    pub fn for_thread(&self, label: &str, thread: &str) -> Result<Option<&Policy>, Unwanted> {
        if self.policy.is_empty() {
            return Ok(None);
        }
        let mut policies = self.policy.iter();
        policies.find(|policy| policy.matches_label(label) && policy.matches_thread(thread)).map(Some).ok_or(Unwanted)
    }

    /// Action of a full ring of a thread with this policy.
    pub fn full_ring_action(&self, policy: Option<&Policy>) -> FullRingAction {
        FullRingAction {
            mode: policy.and_then(|policy| policy.mode).or(self.mode).unwrap_or_default(),
            block_limit: policy.and_then(|policy| policy.block_limit).or(self.block_limit).unwrap_or(DEFAULT_BLOCK_LIMIT),
        }
    }

    /// The policies as they appear in `longpole.json`.
    pub fn summary(&self) -> serde_json::Value {
        let policies: Vec<serde_json::Value> = self
            .policy
            .iter()
            .map(|policy| {
                let events: Vec<&str> =
                    Category::ALL.into_iter().filter(|category| policy.events & category.bit() != 0).map(Category::name).collect();
                serde_json::json!({
                    "label": policy.label,
                    "label_prefix": policy.label_prefix,
                    "label_suffix": policy.label_suffix,
                    "glob": policy.glob,
                    "thread": policy.thread,
                    "exclude": policy.exclude,
                    "events": events,
                    "buffer": policy.buffer,
                    "mode": self.full_ring_action(Some(policy)).mode,
                    "backends": policy.backends,
                    "packets": policy.packets,
                })
            })
            .collect();
        serde_json::Value::Array(policies)
    }
}

/// No policy selects the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwanted;

/// Instructions for a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Bit mask of event categories.
    pub mask: u32,
    /// Size of a ring in bytes; `None` lets the recorder decide.
    pub buffer: Option<u64>,
    /// Bytes recorded of each captured packet.
    pub snaplen: u32,
    pub full_ring_action: FullRingAction,
}

/// Action of a full ring, with its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullRingAction {
    pub mode: Mode,
    /// Longest wait for room, in mode [`Mode::Block`].
    pub block_limit: Duration,
}

impl FullRingAction {
    /// The action for new rings of a process whose policies differ: the harmless one, until the
    /// thread's policy is known.
    pub fn common(self, other: FullRingAction) -> FullRingAction {
        let mode = if self.mode == other.mode { self.mode } else { Mode::Discard };
        FullRingAction { mode, block_limit: self.block_limit.min(other.block_limit) }
    }

    /// Limit in microseconds, as stored in shared memory.
    pub(crate) fn limit(self) -> u32 {
        u32::try_from(self.block_limit.as_micros()).unwrap_or(u32::MAX)
    }
}

/// A position in the text of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPosition {
    /// Line number, from 1.
    pub line: usize,
    pub column: usize,
    pub text: String,
    /// Number of characters to mark, from `column` on.
    pub width: usize,
}

impl TextPosition {
    fn find(text: &str, start: usize, end: usize) -> TextPosition {
        let start = start.min(text.len());
        let before = &text.as_bytes()[..start];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let begin = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole = text[begin..].lines().next().unwrap_or("");
        let column = text[begin..start].chars().count() + 1;
        let width = text.get(start..end.min(begin + whole.len()).max(start)).map_or(1, |part| part.chars().count()).max(1);
        TextPosition { line, column, text: whole.to_owned(), width }
    }
}

/// A rejected configuration.
#[derive(Debug, thiserror::Error)]
pub struct PolicyError {
    pub path: PathBuf,
    pub place: Option<TextPosition>,
    pub reason: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(place) = &self.place else { return write!(f, "{}: {}", self.path.display(), self.reason) };
        let number = place.line.to_string();
        let margin = " ".repeat(number.len());
        writeln!(f, "{}:{}:{}: {}", self.path.display(), place.line, place.column, self.reason)?;
        writeln!(f, " {margin} |")?;
        writeln!(f, " {number} | {}", place.text)?;
        write!(f, " {margin} | {}{}", " ".repeat(place.column - 1), "^".repeat(place.width))
    }
}

/// Size in bytes of a ring with at least `bytes`: a power of two within the limits of rings.
pub fn ring_size(bytes: u64) -> Option<u64> {
    (bytes <= LARGEST_BUFFER).then(|| bytes.max(RING_MINIMUM).next_power_of_two())
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    match parse_duration(&text) {
        Some(period) if (Duration::from_millis(1)..=Duration::from_secs(10)).contains(&period) => Ok(period),
        Some(_) => Err(de::Error::custom("the period must be between 1ms and 10s")),
        None => Err(de::Error::custom(format!("{text:?} is not a time; write, for example, \"100ms\""))),
    }
}

fn age<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map(Some).ok_or_else(|| de::Error::custom(format!("{text:?} is not a time; write, for example, \"10min\"")))
}

fn block_limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match parse_duration(&text) {
        Some(limit) if (Duration::from_micros(100)..=Duration::from_secs(10)).contains(&limit) => Ok(Some(limit)),
        Some(_) => Err(de::Error::custom("block_limit must be between 100us and 10s")),
        None => Err(de::Error::custom(format!("{text:?} is not a time; write, for example, \"10ms\""))),
    }
}

fn buffer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    match optional_size(deserializer)?.map(|size| (size, ring_size(size))) {
        Some((_, Some(size))) => Ok(Some(size)),
        Some((size, None)) => Err(de::Error::custom(format!("{size} bytes are more than a ring can have (1GiB)"))),
        None => Ok(None),
    }
}

fn categories<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let all = Vec::<Categories>::deserialize(deserializer)?;
    Ok(all.iter().fold(0, |mask, categories| mask | categories.0))
}

/// One word of `events`. It is checked when it is read, so that the message points at the word and
/// not at the whole list.
struct Categories(u32);

impl<'de> Deserialize<'de> for Categories {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Categories, D::Error> {
        deserializer.deserialize_str(CategoryName)
    }
}

struct CategoryName;

impl de::Visitor<'_> for CategoryName {
    type Value = Categories;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an event category")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Categories, E> {
        if name == "all" {
            return Ok(Categories(ALL_CATEGORIES));
        }
        match Category::from_name(name) {
            Some(category) => Ok(Categories(category.bit())),
            None => {
                let known: Vec<&str> = Category::ALL.into_iter().map(Category::name).collect();
                let meant = nearest(name, &known).map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
                Err(E::custom(format!("{name:?} is not an event category{meant} (there are {} and all)", known.join(", "))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, PolicyError> {
        Config::parse(text, Path::new("p.toml"))
    }

    #[test]
    fn the_first_policy_that_matches_decides() {
        let config = parse(
            "[[policy]]\nlabel_suffix = \"nic_router\"\nthread = \"ep\"\nevents = [\"rpc\", \"queue\"]\nbuffer = \"3MiB\"\n\
             packets = { interfaces = [\"eth*\"], snaplen = 64 }\n[[policy]]\nglob = \"init -> *\"\nexclude = [\"*timer\"]\nevents = [\"log\"]\n",
        )
        .unwrap();
        let router = "init -> nic_router";
        let policy = config.for_thread(router, "ep").unwrap().unwrap();
        assert_eq!(policy.events, Category::Rpc.bit() | Category::Queue.bit());
        assert_eq!(policy.buffer, Some(4 << 20));
        assert!(policy.packets.wants("eth0") && !policy.packets.wants("lo"));
        assert_eq!(config.for_thread(router, "worker").unwrap().unwrap().events, Category::Log.bit());
        let process = config.for_process(router).unwrap();
        assert_eq!(process.mask, Category::Rpc.bit() | Category::Queue.bit() | Category::Log.bit());
        assert!(config.for_process("init -> timer").is_none());
        assert!(config.for_process("other").is_none());
    }

    #[test]
    fn without_policies_everything_is_recorded_unless_excluded() {
        assert_eq!(parse("").unwrap().for_process("x").unwrap().mask, ALL_CATEGORIES);
        let config = parse("exclude = [\"noise*\"]").unwrap();
        assert!(config.for_process("noise 1").is_none());
        assert!(config.for_process("x").is_some());
        assert!(parse("enable = false").unwrap().for_process("x").is_none());
    }

    #[test]
    fn a_wrong_configuration_is_refused_with_file_line_and_reason() {
        for (text, line, reason) in [
            ("enable = true\nperiod = \"soon\"", 2, "is not a time"),
            ("\n\nperoid = \"1s\"", 3, "unknown field"),
            ("[[policy]]\nevents = [\"rpc\", \"rcp\"]", 2, "\"rcp\" is not an event category"),
            ("[[policy]]\nbuffer = \"4 elephants\"", 2, "is not a size"),
            ("[[policy]]\nmode = \"overwrites\"", 2, "unknown variant"),
            ("[[policy]]\nblock_limit = \"11s\"", 2, "must be between"),
            ("[[policy]]\npackets = { snaplen = 0 }", 2, "snaplen must be between"),
            ("a = [", 1, ""),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.place.as_ref().map(|place| place.line), Some(line), "{text}: {error}");
            assert!(error.reason.contains(reason), "{error}");
            assert!(error.to_string().starts_with(&format!("p.toml:{line}:")), "{error}");
        }
    }

    #[test]
    fn a_message_points_at_a_wrong_category_and_suggests_the_nearest_one() {
        let error = parse("[[policy]]\nevents = [\"rpc\", \"sgnal\", \"queue\"]\n").unwrap_err();
        let text = error.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "p.toml:2:18: \"sgnal\" is not an event category; did you mean \"signal\"? (there are state, span, mark, counter, rpc, signal, queue, link, packet, event, log and all)");
        assert_eq!(lines[2..], [" 2 | events = [\"rpc\", \"sgnal\", \"queue\"]", "   |                  ^^^^^^^"]);
        let suggested =
            |word: &str| parse(&format!("[[policy]]\nevents = [\"{word}\"]")).unwrap_err().reason.split('?').next().unwrap().to_owned();
        assert!(suggested("rcp").ends_with("did you mean \"rpc\""));
        assert!(suggested("queues").ends_with("did you mean \"queue\""));
        assert!(!suggested("elephants").contains("mean"));
        assert_eq!(parse("[[policy]]\nevents = [\"rpc\", 5]").unwrap_err().place.unwrap().column, 18);
    }

    #[test]
    fn a_ring_has_a_power_of_two_within_its_limits() {
        assert_eq!(ring_size(100_000), Some(131_072));
        assert_eq!(ring_size(1), Some(RING_MINIMUM));
    }
}
