//! Patterns as in shells and in the kernel's filters: `*` matches any text, `?` any one character,
//! `[a-z]` one of these characters, `[!a-z]` one of all others.

/// Returns true if the pattern matches the whole text. The time is bounded by the product of the
/// lengths, because only the last `*` is ever tried again.
pub fn matches(pattern: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> bool {
    let (pattern, text) = (pattern.as_ref(), text.as_ref());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            None if t == text.len() => return true,
            Some(_) if t < text.len() => one(&pattern[p..], &text[t..]),
            _ => None,
        };
        match (step, star) {
            (Some((pattern, text)), _) => {
                p += pattern;
                t += text;
            }
            (None, Some((after, from))) if from < text.len() => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// Matches one element of the pattern with one character. Returns the lengths of both; `None` if
/// they do not match.
fn one(pattern: &[u8], text: &[u8]) -> Option<(usize, usize)> {
    match pattern[0] {
        b'?' => Some((1, character(text))),
        b'[' => match class(pattern, text[0]) {
            Some((length, holds)) => holds.then_some((length, 1)),
            None => (text[0] == b'[').then_some((1, 1)),
        },
        b'\\' if pattern.len() > 1 => (pattern[1] == text[0]).then_some((2, 1)),
        byte => (byte == text[0]).then_some((1, 1)),
    }
}

/// Returns the length in bytes of the first character. Bytes that are not UTF-8 count as one
/// character each.
fn character(text: &[u8]) -> usize {
    let length = match text[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    match text.get(1..length) {
        Some(rest) if rest.iter().all(|byte| byte & 0xc0 == 0x80) => length,
        _ => 1,
    }
}

/// Returns the length of `[…]`, and true if it contains the byte. `None` if the bracket is not
/// closed.
fn class(pattern: &[u8], byte: u8) -> Option<(usize, bool)> {
    let mut at = 1;
    let inverted = matches!(pattern.get(at), Some(b'!' | b'^'));
    at += usize::from(inverted);
    let first = at;
    let mut found = false;
    loop {
        match (*pattern.get(at)?, pattern.get(at + 1), pattern.get(at + 2)) {
            (b']', ..) if at > first => return Some((at + 1, found != inverted)),
            (low, Some(b'-'), Some(&high)) if high != b']' => {
                found |= (low..=high).contains(&byte);
                at += 3;
            }
            (own, ..) => {
                found |= own == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_shells() {
        let yes = [
            ("", ""),
            ("*", ""),
            ("a*c", "abbc"),
            ("a*c", "acbc"),
            ("?", "ä"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]]", "]"),
            ("[", "["),
            ("\\*", "*"),
            ("*sched*_*", "x:sched_switch"),
        ];
        let no = [("", "a"), ("a*c", "abcd"), ("?", ""), ("[a-c]x", "dx"), ("[!a-c]", "b"), ("\\*", "x"), ("a", "ab")];
        yes.iter().for_each(|(pattern, text)| assert!(matches(pattern, text), "{pattern} {text}"));
        no.iter().for_each(|(pattern, text)| assert!(!matches(pattern, text), "{pattern} {text}"));
    }

    #[test]
    fn a_pattern_of_many_stars_is_not_slow() {
        assert!(!matches("*a".repeat(1_000), "a".repeat(900)));
        assert!(!matches("a*".repeat(500), "a".repeat(499) + &"b".repeat(20_000)));
    }
}
