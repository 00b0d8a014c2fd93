//! Filters of time graphs: what a user types to find states, as `futex` or `duration > 10ms`.
//!
//! As in Trace Compass, a state that does not match is dimmed or left out. A client may send
//! several expressions; a state matches if one of them does.

use serde_json::{Map, Value};

/// Bit of the tags of a state that is dimmed.
const DIMMED: u32 = 1;

/// Keys of the expressions: the effect on states that match none of them.
const DIM: &str = "1";
const EXCLUDE: &str = "4";

#[derive(Debug, Default)]
pub(crate) struct Filter {
    dim: Vec<Expression>,
    exclude: Vec<Expression>,
}

#[derive(Debug, PartialEq)]
enum Expression {
    /// Part of a name, in lower case.
    Text(String),
    Longer(f64),
    Shorter(f64),
}

impl Filter {
    /// Reads `filter_query_parameters` of a request.
    pub fn read(parameters: Option<&Map<String, Value>>) -> Filter {
        let expressions = |key: &str| -> Vec<Expression> {
            let list = parameters.and_then(|parameters| parameters.get("filter_expressions_map")?.get(key)?.as_array());
            list.into_iter().flatten().filter_map(Value::as_str).filter_map(Expression::read).collect()
        };
        Filter { dim: expressions(DIM), exclude: expressions(EXCLUDE) }
    }

    /// Returns the tags of a state; `None` if it is left out.
    pub fn tags(&self, names: &[&str], duration_ns: u64) -> Option<u32> {
        let matches = |all: &[Expression]| all.is_empty() || all.iter().any(|one| one.matches(names, duration_ns));
        matches(&self.exclude).then(|| if matches(&self.dim) { 0 } else { DIMMED })
    }
}

impl Expression {
    fn read(text: &str) -> Option<Expression> {
        let text = text.trim();
        let compared = text.strip_prefix("duration").map(str::trim_start);
        if let Some((is_longer, number)) = compared.and_then(|rest| Some((rest.starts_with('>'), rest.strip_prefix(['>', '<'])?))) {
            let ns = duration(number.trim_start_matches('='))?;
            return Some(if is_longer { Expression::Longer(ns) } else { Expression::Shorter(ns) });
        }
        (!text.is_empty()).then(|| Expression::Text(text.to_lowercase()))
    }

    fn matches(&self, names: &[&str], duration_ns: u64) -> bool {
        match self {
            Expression::Text(text) => names.iter().any(|name| name.to_lowercase().contains(text)),
            Expression::Longer(ns) => duration_ns as f64 >= *ns,
            Expression::Shorter(ns) => duration_ns as f64 <= *ns,
        }
    }
}

/// Returns a duration such as `10ms` in ns; without a unit it is in ns.
fn duration(text: &str) -> Option<f64> {
    let text = text.trim();
    let at = text.find(|letter: char| letter.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let factor = match unit.trim() {
        "" | "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    number.trim().parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tags(map: Value, names: &[&str], ns: u64) -> Option<u32> {
        let parameters = json!({"filter_expressions_map": map});
        Filter::read(parameters.as_object()).tags(names, ns)
    }

    #[test]
    fn states_that_do_not_match_are_dimmed_or_left_out() {
        assert_eq!(tags(json!({}), &["futex"], 5), Some(0));
        assert_eq!(tags(json!({"1": ["FUT"]}), &["futex"], 5), Some(0));
        assert_eq!(tags(json!({"1": ["read", "write"]}), &["futex"], 5), Some(1));
        assert_eq!(tags(json!({"4": ["read"]}), &["futex"], 5), None);
        assert_eq!(tags(json!({"4": ["worker"], "1": ["read"]}), &["futex", "worker"], 5), Some(1));
    }

    #[test]
    fn durations_have_units() {
        let longer = |text: &str, ns: u64| tags(json!({"4": [text]}), &["futex"], ns).is_some();
        assert!(longer("duration>10us", 10_001) && !longer("duration > 10us", 9_999));
        assert!(longer("duration<=1.5ms", 1_500_000) && !longer("duration < 1s", 2_000_000_000));
        // What is no comparison is a text.
        assert!(!longer("durations", 1));
    }
}
