//! Findings: what people find by hand when they look at a trace, as rules (`rules/findings.toml`).
//!
//! The pass gathers facts per scope: a call of a stage, its signals, its batches, its states, a queue. A rule says of which scope it
//! speaks, under which condition on the facts it holds, and what to do about it. A rule that asks for a fact that its scope does not
//! have is refused with its line.

pub mod kernel_facts;
pub(crate) mod path_facts;
pub(crate) mod stage_facts;

use crate::stats::text::{number, percent};
use longpole_model::rules::predicate::{Datum, Predicate};
use longpole_model::rules::{self, RuleError};
use serde::{Deserialize, Serialize};
use toml::Spanned;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Call,
    Signal,
    Batch,
    State,
    Queue,
    /// Lost packets of one place.
    Loss,
    /// A state on the critical path.
    Path,
    /// Looks into a queue that find nothing.
    Look,
    Lock,
    /// Machines that wait for nobody but each other.
    MutualWait,
    /// CPUs that were idle while a thread waited for another one.
    Idle,
    /// A CPU that was idle while a thread that was ready waited for that very one.
    Held,
    /// Interrupts on another CPU than whom they wake.
    Interrupt,
    /// Missing pages.
    Fault,
    /// A lock of a program without probes.
    Futex,
}

impl Scope {
    /// Texts, then numbers.
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

/// How a template wants a number.
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

/// What is known of one thing.
#[derive(Clone, Debug)]
pub struct Facts {
    pub scope: Scope,
    pub texts: Vec<(&'static str, String)>,
    pub numbers: Vec<(&'static str, f64)>,
    /// Of the share, where it is known: two standard errors.
    pub error: Option<f64>,
    /// Id of the process to which a futex belongs.
    pub process: Option<i32>,
    pub evidence: Evidence,
}

impl Facts {
    fn number(&self, name: &str) -> Option<f64> {
        self.numbers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str())
    }

    /// The same with "it" in place of the machine's name.
    fn of_it(&self) -> Facts {
        let called = |name: &'static str, text: &String| (name, if name == "machine" { "it".to_owned() } else { text.clone() });
        Facts { texts: self.texts.iter().map(|(name, text)| called(name, text)).collect(), ..self.clone() }
    }

    fn datum(&self, name: &str) -> Datum<'_> {
        match self.number(name) {
            Some(value) => Datum::Real(value),
            None => self.text(name).map_or(Datum::Unknown, Datum::Text),
        }
    }

    /// `{fact}` as it is, `{fact%}` as a percentage, `{fact times}` as a frequency: "once", "2.10 times".
    /// With `certain` false, the share stands with its error.
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
            match (self.datum(name), form) {
                (Datum::Text(text), _) => out.push_str(text),
                (Datum::Real(value), Form::Percent) if name == "share" && !certain => {
                    out.push_str(&format!("{} ± {}", percent(value), self.error.map_or_else(|| "?".to_owned(), percent)));
                }
                (Datum::Real(value), Form::Percent) => out.push_str(&format!("{:.0} %", value * 100.0)),
                (Datum::Real(value), Form::Times) if (0.95..=1.05).contains(&value) => out.push_str("once"),
                (Datum::Real(value), Form::Times) => out.push_str(&format!("{value:.2} times")),
                (Datum::Real(value), Form::Plain) if value.fract() == 0.0 && value >= 0.0 => out.push_str(&number(value as u64)),
                (Datum::Real(value), Form::Plain) => out.push_str(&format!("{value:.2}")),
                _ => out.push('?'),
            }
        }
        out + rest
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    pub start_ns: i64,
    pub end_ns: i64,
}

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
    /// The state in which it happens.
    #[serde(skip)]
    pub state: Option<String>,
    /// What is so, for a sentence that has named the machine: that is "it" here, and the share has
    /// its error.
    #[serde(skip)]
    pub of_it: String,
    /// What is so, and what helps: the two parts of the advice.
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

/// Of all packets: with fewer a loss is one finding among others.
const FOREMOST_SHARE: f64 = 0.05;

impl Finding {
    /// Stands before all else, the verdict too: what was lost makes everything behind it wait in
    /// vain. A few packets that come to sockets which were just closed do not, nor do those whose
    /// sender is told.
    pub fn is_foremost(&self) -> bool {
        self.of == Scope::Loss && self.is_cause() && self.share >= FOREMOST_SHARE
    }

    /// Names a cause, as against what is only seen.
    pub fn is_cause(&self) -> bool {
        !self.describes
    }
}

#[derive(Clone, Debug)]
pub struct Rules {
    pub verdict: Thresholds,
    pub path: PathThresholds,
    findings: Vec<(Rule, Predicate)>,
}

/// Of the verdict from the critical path.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathThresholds {
    pub stands_out: Vec<Lead>,
    pub min_gain: f64,
    pub min_of_promise: f64,
    pub max_of_others: f64,
    pub max_unknown: f64,
}

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

/// A share of a stage's work, and by what factor it must be ahead of the next.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lead {
    pub share: f64,
    pub lead: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    verdict: Thresholds,
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
    /// What is so; with `remedy` behind it, the advice.
    advice: Spanned<String>,
    remedy: Spanned<String>,
    /// Repeats what is seen instead of naming a cause: stands behind the causes.
    #[serde(default)]
    describes: bool,
}

impl Rules {
    pub fn built_in() -> Result<Rules, RuleError> {
        Rules::parse("findings.toml", include_str!("../rules/findings.toml"))
    }

    pub fn parse(file: &str, text: &str) -> Result<Rules, RuleError> {
        let place = |offset: usize, message: String| RuleError::at(file, text, offset, message);
        let parsed: File = rules::parse(file, text)?;
        let mut findings = Vec::new();
        for rule in parsed.finding {
            let begin = rule.when.span().start;
            let when = Predicate::parse(rule.when.get_ref()).map_err(|error| place(begin, format!("`when`: {error}")))?;
            let known = rule.of.facts();
            let unknown = |name: &str| format!("unknown fact `{name}`: expected one of {}", known.join(", "));
            if let Some(name) = when.names().iter().find(|name| !known.contains(&name.as_str())) {
                return Err(place(begin, unknown(name)));
            }
            for template in [&rule.subject, &rule.advice, &rule.remedy] {
                for key in template.get_ref().split('{').skip(1).filter_map(|part| part.split_once('}')) {
                    let (name, _) = form_of(key.0);
                    if !known.contains(&name) {
                        return Err(place(template.span().start, unknown(name)));
                    }
                }
            }
            findings.push((rule, when));
        }
        Ok(Rules { verdict: parsed.verdict, path: parsed.path, findings })
    }

    /// What holds, the cause that explains most of its stage's time first.
    pub fn judge(&self, facts: &[Facts]) -> Vec<Finding> {
        let mut out: Vec<Finding> = Vec::new();
        for (rule, when) in &self.findings {
            for facts in facts.iter().filter(|facts| facts.scope == rule.of) {
                if !when.holds(|at| when.names().get(at).map_or(Datum::Unknown, |name| facts.datum(name))) {
                    continue;
                }
                let what = facts.fill(rule.advice.get_ref(), true);
                let remedy = facts.fill(rule.remedy.get_ref(), true);
                let share = facts.number("share").unwrap_or(0.0);
                let finding = Finding {
                    kind: rule.kind.clone(),
                    subject: facts.fill(rule.subject.get_ref(), true),
                    count: facts.number("count").unwrap_or(0.0) as u64,
                    share,
                    evidence: facts.evidence,
                    advice: format!("{what}: {remedy}."),
                    of_it: facts.of_it().fill(rule.advice.get_ref(), false),
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
                // One finding of a kind per subject: the heaviest.
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

    const THRESHOLDS: &str = "[verdict]\nmin_busy = 0\nmin_blame = 0\nmin_wait = 0\nmax_unknown = 1\nstands_out = []\nmin_enclosing_share = 0\nmin_service = 0\nmin_calls = 0\nmin_signalling = 0\nmin_stage_blame = 0\nmin_finding = 0\n[path]\nstands_out = []\nmin_gain = 0\nmin_of_promise = 0\nmax_of_others = 9\nmax_unknown = 1\n";

    fn refused(rule: &str) -> RuleError {
        Rules::parse("f.toml", &format!("{THRESHOLDS}{rule}")).unwrap_err()
    }

    #[test]
    fn the_built_in_findings_are_right() {
        assert_eq!(Rules::built_in().unwrap().findings.len(), 24);
    }

    #[test]
    fn a_wrong_finding_is_refused_with_its_line() {
        let before = THRESHOLDS.lines().count();
        let error =
            refused("[[finding]]\nkind = \"k\"\nof = \"call\"\nwhen = \"depth > 1\"\nsubject = \"s\"\nadvice = \"a\"\nremedy = \"r\"\n");
        assert_eq!(error.line, before + 4);
        assert!(error.message.contains("unknown fact `depth`: expected one of machine, call"), "{error}");
        let error = refused(
            "[[finding]]\nkind = \"k\"\nof = \"call\"\nwhen = \"share > 1\"\nsubject = \"{queue}\"\nadvice = \"a\"\nremedy = \"r\"\n",
        );
        assert_eq!(error.line, before + 5);
        let error = refused("[[finding]]\nkind = \"k\"\nof = \"moon\"\n");
        assert_eq!(error.line, before + 3);
        let error =
            refused("[[finding]]\nkind = \"k\"\nof = \"call\"\nwhen = \"share >\"\nsubject = \"s\"\nadvice = \"a\"\nremedy = \"r\"\n");
        assert!(error.message.contains("column 8"), "{error}");
    }

    #[test]
    fn causes_stand_before_descriptions_and_heavy_before_light() {
        let facts = |scope, machine: &str, share| Facts {
            scope,
            texts: vec![
                ("machine", machine.to_owned()),
                ("call", "c".to_owned()),
                ("items", "units".to_owned()),
                ("state", "s".to_owned()),
            ],
            numbers: vec![("share", share), ("blame", 1.0), ("calls_per_item", 1.0), ("stands_out", 1.0), ("count", 7.0)],
            error: None,
            process: None,
            evidence: Evidence::default(),
        };
        let found = Rules::built_in().unwrap().judge(&[
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
