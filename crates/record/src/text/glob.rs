//! Patterns of labels and threads: `*` matches any text, `?` one character, every other character
//! itself.

/// Takes time proportional to the product of both lengths at most, for any pattern.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Position of the last star, and the current end of the text that it matches.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, end)) => {
                    p = at + 1;
                    t = end + 1;
                    star = Some((at, end + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_and_question_marks_match() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbbc", true),
            ("a*c", "abcd", false),
            ("*router*", "init -> nic_router -> ep", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("**a**b", "xxaxxb", true),
            ("eth0", "eth01", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
