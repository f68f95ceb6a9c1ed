//! Encodings of bytes as text: hexadecimal and percent-encoding.

/// Returns `bytes` in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).flatten().collect()
}

/// Percent-encodes the bytes of `text` except the unreserved ones of RFC 3986 (section 2.3) and those in
/// `also`.
pub fn percent_encoded(text: &str, also: &[u8]) -> String {
    escaped(text, also, |byte| format!("%{byte:02X}"))
}

/// Percent-encodes like [`percent_encoded`], with the digits `a` to `f` in lower case.
pub(crate) fn percent_encoded_in_lower_case(text: &str) -> String {
    escaped(text, b"", |byte| format!("%{byte:02x}"))
}

fn escaped(text: &str, also: &[u8], escape: impl Fn(u8) -> String) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte);
    let byte = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { escape(byte) };
    text.bytes().map(byte).collect()
}

/// Decodes the percent-encoded bytes in `text`, such as `%61`.
pub fn percent_decoded(text: &str) -> String {
    String::from_utf8_lossy(&decoded(text).0).into_owned()
}

/// Decodes percent-encoding; `None` if it is invalid, or not UTF-8: programs read such a text in different ways.
pub fn strictly_decoded(text: &str) -> Option<String> {
    let (bytes, is_valid) = decoded(text);
    String::from_utf8(bytes).ok().filter(|_| is_valid)
}

/// Returns the decoded bytes, and whether every `%` begins an escape. Others stay.
fn decoded(text: &str) -> (Vec<u8>, bool) {
    let (mut bytes, mut rest, mut is_valid) = (Vec::with_capacity(text.len()), text.as_bytes(), true);
    while let Some((first, after)) = rest.split_first() {
        let digits = after.split_at_checked(2).filter(|_| *first == b'%');
        let escaped = digits.and_then(|(digits, after)| Some((byte(digits)?, after)));
        is_valid &= *first != b'%' || escaped.is_some();
        let (byte, left) = escaped.unwrap_or((*first, after));
        bytes.push(byte);
        rest = left;
    }
    (bytes, is_valid)
}

/// Decodes two hexadecimal digits.
fn byte(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_two_digits_each() {
        assert_eq!((hex(&[0, 10, 255]).as_str(), hex(&[]).as_str()), ("000aff", ""));
    }

    #[test]
    fn what_is_no_escape_stays() {
        for (text, expected) in
            [("a%20b%2f", Some("a b/")), ("%zz", None), ("%+1", None), ("%4", None), ("%ff", None)]
        {
            assert_eq!(strictly_decoded(text).as_deref(), expected, "{text}");
        }
        assert_eq!(percent_decoded("a%20b%2F%zz%+1%4"), "a b/%zz%+1%4");
        assert_eq!(
            (percent_encoded("a /é", b"/"), percent_encoded("/", b"")),
            ("a%20/%C3%A9".into(), "%2F".into())
        );
    }
}
