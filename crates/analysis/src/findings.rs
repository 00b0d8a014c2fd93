//! Findings: what an expert finds in a trace by hand, as rules (`rules/findings.toml`).
//!
//! `stage_facts`, `path_facts`, `kernel_facts` and `network::packet_loss` collect facts per scope.
//! A scope is one kind of thing, such as a call of a stage, its signals, its batches, its states,
//! or a queue. A rule names its scope, the condition on the facts under which it applies, and the
//! remedy. A rule that uses a fact that its scope does not have is an error, which is reported with
//! its line.
//!
//! Example: the rule `called_once_per_item` applies in the scope `call` if `calls_per_item` and
//! `share` are large enough, and its advice names `{machine}` and `{call}`.

pub mod kernel_facts;
pub(crate) mod path_facts;
pub(crate) mod shares;
pub(crate) mod stage_evidence;
pub(crate) mod stage_facts;

use crate::stats::evidence::Evidence;
use crate::stats::text::{number, percent};
use longpole_model::rules::{self, RuleError};
use longpole_predicate::{Datum, Predicate};
use serde::{Deserialize, Serialize};
use toml::Spanned;

/// The kind of thing about which a rule speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// A call that a stage makes.
    Call,
    /// The signals that a stage sends.
    Signal,
    /// The batches of a stage.
    Batch,
    /// A state of a stage.
    State,
    /// A queue between stages.
    Queue,
    /// Lost packets of one place.
    Loss,
    /// A state on the critical path.
    Path,
    /// Polls of a queue that found it empty.
    Look,
    /// A lock for which probes exist.
    Lock,
    /// Machines that wait only for each other.
    MutualWait,
    /// CPUs that were idle while a thread waited for another thread.
    Idle,
    /// A CPU that was idle while a ready thread waited for that CPU.
    Held,
    /// Interrupts that ran on another CPU than the thread that they wake.
    Interrupt,
    /// Page faults.
    Fault,
    /// A lock of a program without probes.
    Futex,
}

impl Scope {
    /// Returns the names of the facts of this scope: texts first, then numbers.
    fn facts(self) -> &'static [&'static str] {
        match self {
            Scope::Call => &["machine", "call", "items", "share", "count", "verdict", "blame", "calls_per_item"],
            Scope::Signal => &["machine", "share", "count", "verdict", "blame", "signals_per_item", "inner_per_item"],
            Scope::Batch => &[
                "machine",
                "queue",
                "state",
                "share",
                "count",
                "verdict",
                "blame",
                "resubmitted",
                "at_limit",
                "with_more",
                "limit",
                "of_loop",
            ],
            Scope::State => &["machine", "state", "share", "count", "verdict", "blame", "stands_out"],
            Scope::Queue => &["queue", "share", "count", "verdict", "full", "empty"],
            Scope::Loss => &["place", "where", "owner", "sender", "share", "count"],
            Scope::Path => &["machine", "state", "kind", "share", "count"],
            Scope::Look => &["machine", "queue", "share", "count", "vain_per_item"],
            Scope::Lock => &["queue", "share", "count", "contended", "waiters"],
            Scope::MutualWait => &["machines", "foremost", "foremost_share", "share", "count"],
            Scope::Idle | Scope::Held => &["machine", "share", "count", "part"],
            Scope::Interrupt => &["machine", "interrupt", "share", "count", "away", "on_path"],
            Scope::Fault => &["machine", "share", "count", "per_ms"],
            Scope::Futex => &["machine", "address", "share", "count", "threads", "waiters", "handed_on", "on_path"],
        }
    }
}

/// The format in which a template shows a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Percent,
    Times,
}

fn form_of(key: &str) -> (&str, Form) {
    if let Some(name) = key.strip_suffix('%') {
        (name, Form::Percent)
    } else if let Some(name) = key.strip_suffix(" times") {
        (name, Form::Times)
    } else {
        (key, Form::Plain)
    }
}

/// The facts about one thing.
#[derive(Clone, Debug)]
pub struct Facts {
    pub scope: Scope,
    pub texts: Vec<(&'static str, String)>,
    pub numbers: Vec<(&'static str, f64)>,
    /// Two standard errors of the share, if they are known.
    pub error: Option<f64>,
    /// Id of the process to which a futex belongs.
    pub process: Option<i32>,
    pub evidence: Evidence,
}

impl Facts {
    /// Facts about a thing of this scope, without an error and a process.
    pub fn new(scope: Scope, texts: Vec<(&'static str, String)>, numbers: Vec<(&'static str, f64)>, evidence: Evidence) -> Facts {
        Facts { scope, texts, numbers, error: None, process: None, evidence }
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.numbers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str())
    }

    /// Returns these facts with "it" in place of the machine's name.
    fn of_it(&self) -> Facts {
        let called = |name: &'static str, text: &String| (name, if name == "machine" { "it".to_owned() } else { text.clone() });
        Facts { texts: self.texts.iter().map(|(name, text)| called(name, text)).collect(), ..self.clone() }
    }

    fn datum(&self, name: &str) -> Datum<'_> {
        match self.number(name) {
            Some(value) => Datum::Real(value),
            None => self.text(name).map_or(Datum::Unknown, |text| Datum::Text(text.as_bytes())),
        }
    }

    /// Fills a template. `{fact}` inserts the value, `{fact%}` a percentage, and `{fact times}` a
    /// frequency: "once", "2.10 times". With `certain` false, the share is followed by its error.
    fn fill(&self, template: &str, certain: bool) -> String {
        let mut out = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let Some((key, tail)) = after.split_once('}') else {
                out.push('{');
                rest = after;
                continue;
            };
            rest = tail;
            let (name, form) = form_of(key);
            match (self.number(name), form) {
                (None, _) => out.push_str(self.text(name).unwrap_or("?")),
                (Some(value), Form::Percent) if name == "share" && !certain => {
                    out.push_str(&format!("{} ± {}", percent(value), self.error.map_or_else(|| "?".to_owned(), percent)));
                }
                (Some(value), Form::Percent) => out.push_str(&format!("{:.0} %", value * 100.0)),
                (Some(value), Form::Times) if (0.95..=1.05).contains(&value) => out.push_str("once"),
                (Some(value), Form::Times) => out.push_str(&format!("{value:.2} times")),
                (Some(value), Form::Plain) if value.fract() == 0.0 && value >= 0.0 => out.push_str(&number(value as u64)),
                (Some(value), Form::Plain) => out.push_str(&format!("{value:.2}")),
            }
        }
        out + rest
    }
}

/// A rule that applies, with its texts filled in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    pub kind: String,
    pub subject: String,
    pub count: u64,
    pub share: f64,
    pub evidence: Evidence,
    pub advice: String,
    #[serde(skip)]
    pub of: Scope,
    #[serde(skip)]
    pub machine: Option<String>,
    /// State in which the finding occurs.
    #[serde(skip)]
    pub state: Option<String>,
    /// Observation for a sentence that has already named the machine: the machine is "it" here, and
    /// the share is followed by its error.
    #[serde(skip)]
    pub of_it: String,
    /// Observation; the first part of the advice. `remedy` is the second part.
    #[serde(skip)]
    pub what: String,
    #[serde(skip)]
    pub remedy: String,
    #[serde(skip)]
    pub error: Option<f64>,
    /// Id of the process to which a futex belongs.
    #[serde(skip)]
    pub process: Option<i32>,
    #[serde(skip)]
    describes: bool,
    #[serde(skip)]
    weight: f64,
}

/// Smallest share of all packets at which losses are placed before the verdict. Below it, a loss is
/// one finding among others.
const FOREMOST_SHARE: f64 = 0.05;

impl Finding {
    /// Returns true if this finding is placed before everything else, including the verdict: lost
    /// packets that are a cause and at least [`FOREMOST_SHARE`] of all packets, because everything
    /// behind them waits in vain.
    pub fn precedes_verdict(&self) -> bool {
        self.of == Scope::Loss && self.is_cause() && self.share >= FOREMOST_SHARE
    }

    /// Returns whether the finding names a cause rather than only an observation.
    pub fn is_cause(&self) -> bool {
        !self.describes
    }
}

/// The thresholds and rules of `rules/findings.toml`.
#[derive(Clone, Debug)]
pub struct Rules {
    pub stages: Thresholds,
    pub path: PathThresholds,
    findings: Vec<(Rule, Predicate)>,
}

/// Thresholds of the verdict from the critical path.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathThresholds {
    pub stands_out: Vec<Lead>,
    pub min_gain: f64,
    pub min_of_promise: f64,
    pub max_of_others: f64,
    pub max_unknown: f64,
}

/// Thresholds of the verdict from the queues between stages. `rules/findings.toml` gives the reason
/// for each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    pub min_busy: f64,
    pub min_blame: f64,
    pub min_wait: f64,
    pub max_unknown: f64,
    pub stands_out: Vec<Lead>,
    pub min_enclosing_share: f64,
    pub min_service: f64,
    pub min_calls: f64,
    pub min_signalling: f64,
    pub min_stage_blame: f64,
    pub min_finding: f64,
}

/// A share of a stage's work, and the factor by which it must be ahead of the next one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lead {
    pub share: f64,
    pub lead: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    stages: Thresholds,
    path: PathThresholds,
    #[serde(default)]
    finding: Vec<Rule>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    kind: String,
    of: Scope,
    when: Spanned<String>,
    subject: Spanned<String>,
    /// The advice is this, a colon and `remedy`.
    observation: Spanned<String>,
    remedy: Spanned<String>,
    /// True if the rule repeats an observation instead of naming a cause. Such findings follow the
    /// causes.
    #[serde(default)]
    describes: bool,
}

impl Rules {
    /// Returns the rules that are part of the program. An error means that they are invalid; a test
    /// checks them.
    pub fn built_in() -> Result<Rules, RuleError> {
        Rules::parse("findings.toml", include_str!("../rules/findings.toml"))
    }

    /// Parses rules. Errors name the line in `file`.
    pub fn parse(file: &str, text: &str) -> Result<Rules, RuleError> {
        let place = |offset: usize, message: String| RuleError::at(file, text, offset, message);
        let parsed: File = rules::parse(file, text)?;
        let mut findings = Vec::new();
        for rule in parsed.finding {
            let begin = rule.when.span().start;
            let when = Predicate::parse(rule.when.get_ref())
                .and_then(Predicate::with_plain_names)
                .map_err(|error| place(begin, format!("`when`: {error}")))?;
            let known = rule.of.facts();
            let unknown = |name: &str| format!("unknown fact `{name}`: expected one of {}", known.join(", "));
            if let Some(name) = when.names().iter().find(|name| !known.contains(&name.name.as_str())) {
                return Err(place(begin, unknown(&name.name)));
            }
            for template in [&rule.subject, &rule.observation, &rule.remedy] {
                for key in template.get_ref().split('{').skip(1).filter_map(|part| part.split_once('}')) {
                    let (name, _) = form_of(key.0);
                    if !known.contains(&name) {
                        return Err(place(template.span().start, unknown(name)));
                    }
                }
            }
            findings.push((rule, when));
        }
        Ok(Rules { stages: parsed.stages, path: parsed.path, findings })
    }

    /// Returns the findings that apply. Causes come first, ordered by the time of their stage that
    /// they explain.
    pub fn findings(&self, facts: &[Facts]) -> Vec<Finding> {
        let mut out: Vec<Finding> = Vec::new();
        for (rule, when) in &self.findings {
            for facts in facts.iter().filter(|facts| facts.scope == rule.of) {
                if !when.holds(|at| when.names().get(at).map_or(Datum::Unknown, |name| facts.datum(&name.name))) {
                    continue;
                }
                let what = facts.fill(rule.observation.get_ref(), true);
                let remedy = facts.fill(rule.remedy.get_ref(), true);
                let share = facts.number("share").unwrap_or(0.0);
                let finding = Finding {
                    kind: rule.kind.clone(),
                    subject: facts.fill(rule.subject.get_ref(), true),
                    count: facts.number("count").unwrap_or(0.0) as u64,
                    share,
                    evidence: facts.evidence,
                    advice: format!("{what}: {remedy}."),
                    of_it: facts.of_it().fill(rule.observation.get_ref(), false),
                    what,
                    remedy,
                    error: facts.error,
                    process: facts.process,
                    of: rule.of,
                    machine: facts.text("machine").map(str::to_owned),
                    state: facts.text("state").map(str::to_owned),
                    describes: rule.describes,
                    weight: share * facts.number("blame").unwrap_or(0.0),
                };
                // Only the finding with the largest share is kept per kind and subject.
                match out.iter_mut().find(|known| known.kind == finding.kind && known.subject == finding.subject) {
                    Some(known) if known.share < finding.share => *known = finding,
                    Some(_) => {}
                    None => out.push(finding),
                }
            }
        }
        out.sort_by(|a, b| a.describes.cmp(&b.describes).then(b.weight.total_cmp(&a.weight)));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: &str = "[stages]\nmin_busy = 0\nmin_blame = 0\nmin_wait = 0\nmax_unknown = 1\nstands_out = []\nmin_enclosing_share = 0\nmin_service = 0\nmin_calls = 0\nmin_signalling = 0\nmin_stage_blame = 0\nmin_finding = 0\n[path]\nstands_out = []\nmin_gain = 0\nmin_of_promise = 0\nmax_of_others = 9\nmax_unknown = 1\n";

    fn refused(rule: &str) -> RuleError {
        Rules::parse("f.toml", &format!("{THRESHOLDS}{rule}")).unwrap_err()
    }

    #[test]
    fn the_built_in_rules_are_valid() {
        assert!(!Rules::built_in().unwrap().findings.is_empty());
    }

    #[test]
    fn a_rule_with_an_error_is_refused_with_its_line() {
        let before = THRESHOLDS.lines().count();
        let error = refused(
            "[[finding]]\nkind = \"k\"\nof = \"call\"\nwhen = \"depth > 1\"\nsubject = \"s\"\nobservation = \"a\"\nremedy = \"r\"\n",
        );
        assert_eq!(error.line, before + 4);
        assert!(error.message.contains("unknown fact `depth`: expected one of machine, call"), "{error}");
        let error = refused(
            "[[finding]]\nkind = \"k\"\nof = \"call\"\nwhen = \"share > 1\"\nsubject = \"{queue}\"\nobservation = \"a\"\nremedy = \"r\"\n",
        );
        assert_eq!(error.line, before + 5);
        let error = refused("[[finding]]\nkind = \"k\"\nof = \"moon\"\n");
        assert_eq!(error.line, before + 3);
        let error =
            refused("[[finding]]\nkind = \"k\"\nof = \"call\"\nwhen = \"share >\"\nsubject = \"s\"\nobservation = \"a\"\nremedy = \"r\"\n");
        assert!(error.message.contains("column 8"), "{error}");
    }

    #[test]
    fn causes_come_before_descriptions_and_large_shares_before_small_ones() {
        let facts = |scope, machine: &str, share| {
            let texts = [("machine", machine), ("call", "c"), ("items", "units"), ("state", "s")];
            let numbers = vec![("share", share), ("blame", 1.0), ("calls_per_item", 1.0), ("stands_out", 1.0), ("count", 7.0)];
            Facts::new(scope, texts.map(|(name, text)| (name, text.to_owned())).to_vec(), numbers, Evidence::default())
        };
        let found = Rules::built_in().unwrap().findings(&[
            facts(Scope::State, "m", 0.9),
            facts(Scope::Call, "light", 0.1),
            facts(Scope::Call, "heavy", 0.3),
            facts(Scope::Call, "none", 0.01),
        ]);
        let subjects: Vec<&str> = found.iter().map(|finding| finding.subject.as_str()).collect();
        assert_eq!(subjects, ["heavy::c", "light::c", "m::s"]);
        assert_eq!(found[0].count, 7);
        assert!(found[0].advice.starts_with("heavy calls c once per item and spends 30 %"), "{}", found[0].advice);
    }
}
