//! What language runtimes need in their environment so that the functions that they generate or
//! interpret have names in stacks (`--runtimes`).

use std::ffi::{OsStr, OsString};

/// A variable, and the words that it needs. A word is not added if the variable has one that
/// begins with the same `key`.
struct Setting {
    name: &'static str,
    words: &'static [Word],
}

struct Word {
    key: &'static str,
    value: &'static str,
}

/// An option that is a switch.
const fn switch(option: &'static str) -> Word {
    Word { key: option, value: option }
}

const SETTINGS: [Setting; 3] = [
    // Python 3.12 and later; earlier versions ignore it.
    Setting { name: "PYTHONPERFSUPPORT", words: &[Word { key: "", value: "1" }] },
    // The second option lets functions that are interpreted have frames.
    Setting { name: "NODE_OPTIONS", words: &[switch("--perf-basic-prof"), switch("--interpreted-frames-native-stack")] },
    // Before version 17, Java has no list of functions, and ignores the option for it only if told
    // to. Only compiled functions have names, so the last options let Java compile all that are
    // called a second time.
    Setting {
        name: "JAVA_TOOL_OPTIONS",
        words: &[
            switch("-XX:+IgnoreUnrecognizedVMOptions"),
            switch("-XX:+UnlockDiagnosticVMOptions"),
            switch("-XX:+PreserveFramePointer"),
            switch("-XX:+DumpPerfMapAtExit"),
            Word { key: "-XX:Tier0InvokeNotifyFreqLog=", value: "-XX:Tier0InvokeNotifyFreqLog=0" },
            Word { key: "-XX:Tier3InvocationThreshold=", value: "-XX:Tier3InvocationThreshold=1" },
            Word { key: "-XX:Tier3MinInvocationThreshold=", value: "-XX:Tier3MinInvocationThreshold=1" },
            Word { key: "-XX:Tier3CompileThreshold=", value: "-XX:Tier3CompileThreshold=1" },
        ],
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
    /// Returns the new value; `None` if the old one has all words already.
    fn value(&self, old: Option<&OsStr>) -> Option<OsString> {
        let old = old.filter(|old| !old.is_empty());
        let words = old.map(OsStr::to_string_lossy).unwrap_or_default();
        let has = |word: &Word| words.split_whitespace().any(|of_user| of_user.starts_with(word.key));
        let missing = self.words.iter().filter(|word| !has(word)).map(|word| OsStr::new(word.value));
        let missing: Vec<&OsStr> = missing.collect();
        let all: Vec<&OsStr> = old.into_iter().chain(missing.iter().copied()).collect();
        (!missing.is_empty()).then(|| all.join(OsStr::new(" ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_has_set_is_kept() {
        let java = "-Xmx1g -XX:+PreserveFramePointer -XX:Tier3CompileThreshold=2000";
        let user = |name: &str| match name {
            "NODE_OPTIONS" => Some(OsString::from("--perf-basic-prof-only-functions --max-old-space-size=100")),
            "JAVA_TOOL_OPTIONS" => Some(OsString::from(java)),
            _ => None,
        };
        let found = settings(user);
        let of = |wanted: &str| found.iter().find(|(name, _)| *name == wanted).unwrap().1.to_str().unwrap().to_owned();
        assert_eq!(of("PYTHONPERFSUPPORT"), "1");
        assert_eq!(of("NODE_OPTIONS"), "--perf-basic-prof-only-functions --max-old-space-size=100 --interpreted-frames-native-stack");
        let of_java = of("JAVA_TOOL_OPTIONS");
        assert!(of_java.starts_with(&format!("{java} -XX:+")) && of_java.contains("-XX:+DumpPerfMapAtExit"), "{of_java}");
        assert_eq!(of_java.matches("PreserveFramePointer").count() + of_java.matches("Tier3CompileThreshold").count(), 2);
        assert!(shown(&found).contains("PYTHONPERFSUPPORT='1'"));
        // With these values, nothing is missing.
        let all = settings(|_| None);
        assert_eq!(settings(|name| all.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())), []);
        assert_eq!(settings(|name| (name == "PYTHONPERFSUPPORT").then(|| "0".into())).len(), 2);
    }
}
