//! What language runtimes need in their environment so that the functions that they generate or
//! interpret have names in stacks (`--runtimes`).

use std::ffi::{OsStr, OsString};

/// A variable, and what is added to the words that it contains. A word is not added if the variable
/// has a word that begins with `unless`.
struct Setting {
    name: &'static str,
    words: &'static [&'static str],
    unless: &'static str,
}

const SETTINGS: [Setting; 3] = [
    // Python 3.12 and later; earlier versions ignore it.
    Setting { name: "PYTHONPERFSUPPORT", words: &["1"], unless: "" },
    Setting { name: "NODE_OPTIONS", words: &["--perf-basic-prof"], unless: "--perf-basic-prof" },
    // Before version 17, Java has no list of functions, and ignores the option for it only if told
    // to.
    Setting {
        name: "JAVA_TOOL_OPTIONS",
        words: &[
            "-XX:+IgnoreUnrecognizedVMOptions",
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:+PreserveFramePointer",
            "-XX:+DumpPerfMapAtExit",
        ],
        unless: "-XX:+DumpPerfMapAtExit",
    },
];

/// Returns the variables to set, with what the user has set in them.
pub fn settings(of_user: impl Fn(&str) -> Option<OsString>) -> Vec<(&'static str, OsString)> {
    SETTINGS.iter().filter_map(|setting| Some((setting.name, setting.value(of_user(setting.name).as_deref())?))).collect()
}

/// Returns a line for the user.
pub fn shown(settings: &[(&'static str, OsString)]) -> String {
    let each: Vec<String> = settings.iter().map(|(name, value)| format!("{name}='{}'", value.to_string_lossy())).collect();
    match each.is_empty() {
        true => "the environment already makes runtimes name their functions".to_owned(),
        false => format!("set for runtimes: {}", each.join(" ")),
    }
}

impl Setting {
    /// Returns the new value; `None` if the old one has it already.
    fn value(&self, old: Option<&OsStr>) -> Option<OsString> {
        let old = old.filter(|old| !old.is_empty());
        let words = old.map(OsStr::to_string_lossy).unwrap_or_default();
        if words.split_whitespace().any(|word| word.starts_with(self.unless)) {
            return None;
        }
        let mut value = old.map(OsStr::to_owned).unwrap_or_default();
        for word in self.words {
            if !value.is_empty() {
                value.push(" ");
            }
            value.push(word);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_has_set_is_kept() {
        let user = |name: &str| match name {
            "NODE_OPTIONS" => Some(OsString::from("--max-old-space-size=100")),
            "JAVA_TOOL_OPTIONS" => Some(OsString::from("-Xmx1g -XX:+DumpPerfMapAtExit")),
            _ => None,
        };
        let expected = [("PYTHONPERFSUPPORT", "1".into()), ("NODE_OPTIONS", "--max-old-space-size=100 --perf-basic-prof".into())];
        assert_eq!(settings(user), expected);
        assert_eq!(settings(|name| (name == "PYTHONPERFSUPPORT").then(|| "0".into())).len(), 2);
        assert!(shown(&expected).contains("PYTHONPERFSUPPORT='1'"));
    }
}
