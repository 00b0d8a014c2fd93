//! The parameters of a request. Clients differ in what they send, so all of them are optional where
//! a whole is a sensible answer, and older names are understood.

use super::reply::Refused;
use serde_json::{json, Map, Value};

/// Number of samples if a request does not name it, and the most that are returned.
const DEFAULT_SAMPLES: u64 = 1000;
const MAX_SAMPLES: u64 = 65_536;

/// The object `parameters` of a request.
#[derive(Clone, Debug)]
pub(crate) struct Parameters(Value);

/// A range in ns on the trace's clock, with the number of samples that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub begin: u64,
    pub end: u64,
    pub samples: u64,
}

impl Parameters {
    /// Reads the body of a request. A body without `parameters` has none.
    pub fn read(body: &[u8]) -> Result<Parameters, Refused> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Parameters(json!({})));
        }
        let whole: Value = serde_json::from_slice(body).map_err(|error| Refused::bad(format!("the request is no JSON: {error}")))?;
        match whole.get("parameters") {
            None | Some(Value::Null) => Ok(Parameters(json!({}))),
            Some(parameters) if parameters.is_object() => Ok(Parameters(parameters.clone())),
            Some(_) => Err(Refused::bad("`parameters` is not an object")),
        }
    }

    /// Returns a text, which must be there.
    pub fn text(&self, name: &str) -> Result<&str, Refused> {
        self.optional_text(name).ok_or_else(|| Refused::bad(format!("`parameters` has no text `{name}`")))
    }

    pub fn optional_text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Returns the texts of a list; `None` without the list.
    pub fn texts(&self, name: &str) -> Option<Vec<&str>> {
        Some(self.0.get(name)?.as_array()?.iter().filter_map(Value::as_str).collect())
    }

    pub fn number(&self, name: &str) -> Option<i64> {
        number(self.0.get(name)?)
    }

    /// Returns the numbers of a list that are not negative; `None` without the list.
    pub fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        let list = self.0.get(name)?.as_array()?;
        Some(list.iter().filter_map(number).filter_map(|number| u64::try_from(number).ok()).collect())
    }

    pub fn object(&self, name: &str) -> Option<&Map<String, Value>> {
        self.0.get(name)?.as_object()
    }

    /// Returns the entries that are requested; `None` if all are.
    pub fn items(&self) -> Option<Vec<u64>> {
        self.numbers("requested_items")
    }

    /// Returns the requested range, which older clients name by a list of times; `whole` without
    /// either.
    pub fn range(&self, whole: (u64, u64)) -> Result<TimeRange, Refused> {
        let (begin, end, samples) = match (self.object("requested_timerange"), self.numbers("requested_times").as_deref()) {
            (Some(range), _) => {
                let of = |name: &str| range.get(name).and_then(number);
                let (Some(begin), Some(end)) = (of("start"), of("end")) else {
                    return Err(Refused::bad("`requested_timerange` needs the whole numbers `start` and `end`"));
                };
                (begin.max(0) as u64, end.max(0) as u64, of("nbTimes").or(of("nbSamples")))
            }
            (None, Some([first, .., last])) => {
                let times = self.numbers("requested_times").map_or(0, |times| times.len());
                (*first, *last, i64::try_from(times).ok())
            }
            _ => (whole.0, whole.1, None),
        };
        let samples = samples.and_then(|samples| u64::try_from(samples).ok()).filter(|&samples| samples > 0);
        let samples = samples.unwrap_or(DEFAULT_SAMPLES).min(MAX_SAMPLES);
        Ok(TimeRange { begin: begin.min(end), end: begin.max(end), samples })
    }

    /// Returns the one time that is requested.
    pub fn time(&self) -> Option<u64> {
        self.numbers("requested_times")?.first().copied()
    }
}

/// Returns a whole number. JavaScript sends large ones as texts or with a fraction of zero.
fn number(value: &Value) -> Option<i64> {
    let whole = || value.as_u64().map(|_| i64::MAX);
    let real = || value.as_f64().filter(|number| number.is_finite()).map(|number| number as i64);
    value.as_i64().or_else(whole).or_else(real).or_else(|| value.as_str()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(body: &str) -> Result<(u64, u64, u64), u16> {
        let range = Parameters::read(body.as_bytes()).and_then(|parameters| parameters.range((10, 20)));
        range.map(|it| (it.begin, it.end, it.samples)).map_err(|refused| refused.status.as_u16())
    }

    #[test]
    fn ranges_of_old_and_new_clients_are_understood() {
        for (body, expected) in [
            ("", Ok((10, 20, 1000))),
            ("{}", Ok((10, 20, 1000))),
            (r#"{"parameters":{}}"#, Ok((10, 20, 1000))),
            (r#"{"parameters":{"requested_timerange":{"start":1,"end":5,"nbTimes":3}}}"#, Ok((1, 5, 3))),
            (r#"{"parameters":{"requested_timerange":{"start":1,"end":5,"nbSamples":4}}}"#, Ok((1, 5, 4))),
            (
                r#"{"parameters":{"requested_timerange":{"start":"1764000000000000001","end":1764000000000000002}}}"#,
                Ok((1_764_000_000_000_000_001, 1_764_000_000_000_000_002, 1000)),
            ),
            (r#"{"parameters":{"requested_timerange":{"start":5,"end":-1,"nbTimes":1000000}}}"#, Ok((0, 5, 65_536))),
            (r#"{"parameters":{"requested_times":[2,4,8]}}"#, Ok((2, 8, 3))),
            (r#"{"parameters":{"requested_timerange":{"start":1}}}"#, Err(400)),
            ("[", Err(400)),
            (r#"{"parameters":7}"#, Err(400)),
        ] {
            assert_eq!(range(body), expected, "{body}");
        }
    }
}
