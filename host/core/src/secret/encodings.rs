//! The encodings in which a secret can turn up in a text: as it is, and in those that programs use without being
//! asked (JSON, percent, base64, hex). It searches no text.

use std::collections::BTreeSet;
use std::fmt::Write;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};

use super::MIN_SECRET;
use crate::encoding::hex;

/// Bytes of the shortest line of a secret that is one by itself. A key file's lines have 64, and
/// turn up one by one where something numbers or indents them.
const MIN_LINE: usize = 16;

/// Every form of `secret`; none if it is too short to be told from ordinary words.
pub(super) fn encodings_of(secret: &str) -> BTreeSet<String> {
    let mut encodings = BTreeSet::new();
    let secret = secret.trim();
    if secret.len() < MIN_SECRET {
        return encodings;
    }
    encodings.insert(in_json(secret));
    encodings.insert(percent_encoded(secret, "0123456789ABCDEF"));
    encodings.insert(percent_encoded(secret, "0123456789abcdef"));
    encodings.extend((0..3).flat_map(|offset| in_base64(secret.as_bytes(), offset)));
    let hex = hex(secret.as_bytes());
    encodings.extend([hex.to_ascii_uppercase(), hex]);
    encodings.extend(lines(secret).map(str::to_owned));
    encodings.insert(secret.to_owned());
    encodings
}

/// As a JSON text has it between its quotes.
fn in_json(secret: &str) -> String {
    let quoted = serde_json::Value::from(secret).to_string();
    quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned()
}

/// As a URL has it (RFC 3986, section 2.1), with these hexadecimal digits.
fn percent_encoded(secret: &str, digits: &str) -> String {
    let digit = |nibble: u8| digits.chars().nth(nibble.into()).unwrap_or_default();
    let mut encoded = String::with_capacity(secret.len());
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(encoded, "%{}{}", digit(byte >> 4), digit(byte & 15));
        }
    }
    encoded
}

/// As base64 has it where `offset` bytes stand before it, as in `user:password`: the characters
/// that depend on nothing but the secret, in both alphabets.
fn in_base64(secret: &[u8], offset: usize) -> [String; 2] {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(secret);
    let (first, end) = ((offset * 8).div_ceil(6), bytes.len() * 8 / 6);
    let own = |text: String| text.get(first..end).unwrap_or_default().to_owned();
    [own(BASE64_STANDARD.encode(&bytes)), own(BASE64_URL_SAFE.encode(&bytes))]
}

/// The lines of a secret that has several, without those that say only what kind it is of.
fn lines(secret: &str) -> impl Iterator<Item = &str> {
    let has_several = secret.contains('\n');
    let is_own = |line: &&str| line.len() >= MIN_LINE && !line.starts_with("-----");
    secret.lines().filter(move |_| has_several).map(str::trim).filter(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_what_other_programs_make_of_a_secret() {
        let encodings = encodings_of("p\"ss/wörd+1 2");
        for form in
            ["p\"ss/wörd+1 2", "p\\\"ss/wörd+1 2", "p%22ss%2Fw%C3%B6rd%2B1%202", "p%22ss%2fw%c3%b6rd%2b1%202"]
        {
            assert!(encodings.contains(form), "{form}: {encodings:?}");
        }
        assert!(encodings_of("seven77").is_empty());
    }

    /// S18: in both cases, whatever stands around it.
    #[test]
    fn s18_hex_is_recognised_in_both_cases() {
        let secret = "sk-4711/ÿ";
        for hex in ["736b2d343731312fc3bf", "736B2D343731312FC3BF"] {
            assert!(encodings_of(secret).contains(hex), "{hex}");
        }
    }

    /// Wherever it begins in what is encoded, one of the encodings is in the encoding.
    #[test]
    fn base64_is_recognised_at_every_offset() {
        let secret = "sk-4711-0815?>~~ÿ";
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "\n", "xy"] {
                let text = format!("{before}{secret}{after}");
                for encoded in [BASE64_STANDARD.encode(&text), BASE64_URL_SAFE.encode(&text)] {
                    assert!(encodings_of(secret).iter().any(|form| encoded.contains(form)), "{text}");
                }
            }
        }
    }

    #[test]
    fn every_line_of_a_key_is_a_secret() {
        let encodings = encodings_of(
            "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n  short\n-----END KEY-----\n",
        );
        assert!(encodings.contains("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"));
        assert!(!encodings.iter().any(|form| form.as_str() == "short" || form.starts_with("-----END")));
    }
}
