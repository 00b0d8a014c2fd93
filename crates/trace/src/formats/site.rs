//! The source location of an event, which Longpole's recorder stores as attributes of its class.

/// Parses `longpole:site?file=router.cpp&line=120` to pairs of key and value. Other URIs have no
/// attributes.
pub(crate) fn attributes(uri: &str) -> Vec<(String, String)> {
    let Some(query) = uri.strip_prefix("longpole:site?") else { return Vec::new() };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(key, value)| (decoded(key), decoded(value))).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|&byte| char::from(byte).to_digit(16));
        match (first, digit(0).zip(digit(1))) {
            (b'%', Some((high, low))) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn site_attributes_are_decoded() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            attributes("longpole:site?file=a%20b%2Fc.cpp&line=12&capacity=1023"),
            [pair("file", "a b/c.cpp"), pair("line", "12"), pair("capacity", "1023")]
        );
        assert_eq!(attributes("longpole:site?x%2&%zz=%41"), [pair("x%2", ""), pair("%zz", "A")]);
        assert_eq!(attributes("http://example.org/?file=x"), []);
    }
}
