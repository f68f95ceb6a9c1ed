//! Parses JSON from models, servers, clients and people. Invalid Unicode is replaced, because half a character is
//! not worth the loss of an answer. Errors have haft's wording.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::error::Category;

/// The length of an escape in bytes: a backslash, `u` and four hexadecimal digits.
const ESCAPE: usize = 6;

/// The escape of U+FFFD, which replaces invalid characters.
const REPLACEMENT: &[u8; ESCAPE] = br"\ufffd";

/// The reason why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoJson {
    /// The text is empty or white space.
    #[error("it is empty")]
    Empty,
    /// The end of the text is missing.
    #[error("it ends in the middle of a value")]
    Cut,
    /// The text is malformed.
    #[error("it is not JSON at line {line}, column {column}")]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// The column in bytes, from 1.
        column: usize,
    },
}

/// Parses `bytes`. Skips a byte order mark; replaces unpaired surrogates and invalid UTF-8 by U+FFFD.
///
/// # Errors
/// `bytes` are not JSON (RFC 8259), or nest deeper than 128 levels.
pub fn read(bytes: &[u8]) -> Result<Value, NoJson> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes)
        .or_else(|_| serde_json::from_slice(whole_characters(bytes).as_ref()))
        .map_err(|error| reason(&error, bytes))
}

fn reason(error: &serde_json::Error, bytes: &[u8]) -> NoJson {
    match error.classify() {
        _ if bytes.trim_ascii().is_empty() => NoJson::Empty,
        Category::Eof => NoJson::Cut,
        Category::Io | Category::Syntax | Category::Data => {
            NoJson::Malformed { line: error.line(), column: error.column() }
        }
    }
}

/// Replaces unpaired surrogates and invalid UTF-8 by U+FFFD.
pub fn whole_characters(bytes: &[u8]) -> Cow<'_, [u8]> {
    let text = match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(_) => Cow::Borrowed(bytes),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    };
    let alone = halves(&text);
    if alone.is_empty() {
        return text;
    }
    let mut text = text.into_owned();
    for half in alone {
        if let Some(escape) = text.get_mut(half.at..half.at + ESCAPE) {
            escape.copy_from_slice(REPLACEMENT);
        }
    }
    Cow::Owned(text)
}

/// The escape of an unpaired surrogate.
#[derive(Clone, Copy)]
struct Half {
    at: usize,
    is_first: bool,
}

/// Returns all unpaired surrogates, in order.
fn halves(text: &[u8]) -> Vec<Half> {
    let (mut halves, mut at) = (Vec::new(), 0);
    while let Some(found) = memchr::memchr(b'\\', text.get(at..).unwrap_or_default()) {
        at += found;
        match unit(text, at) {
            None => at += 2,
            Some(0xd800..=0xdbff) if matches!(unit(text, at + ESCAPE), Some(0xdc00..=0xdfff)) => {
                at += 2 * ESCAPE;
            }
            Some(unit) => {
                if (0xd800..=0xdfff).contains(&unit) {
                    halves.push(Half { at, is_first: unit < 0xdc00 });
                }
                at += ESCAPE;
            }
        }
    }
    halves
}

/// Returns the UTF-16 code unit escaped at `at`.
fn unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + ESCAPE)?.strip_prefix(br"\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Joins surrogate pairs that are split between the frames of a stream: a first half at the end of a string is kept
/// for the next frame, where a string begins with the second half.
#[derive(Debug, Default)]
pub struct PairJoiner {
    /// The escape of the first half.
    first: Option<Vec<u8>>,
}

impl PairJoiner {
    /// Returns the next frame, a JSON text, with split pairs joined.
    pub fn join<'f>(&mut self, frame: &'f [u8]) -> Cow<'f, [u8]> {
        let halves = halves(frame);
        if halves.is_empty() {
            return Cow::Borrowed(frame);
        }
        let (mut joined, mut copied) = (Vec::with_capacity(frame.len() + ESCAPE), 0);
        for Half { at, is_first } in halves {
            let end = at + ESCAPE;
            joined.extend_from_slice(frame.get(copied..at).unwrap_or_default());
            let escape = frame.get(at..end).unwrap_or_default();
            match (is_first, joined.last(), frame.get(end)) {
                (true, _, Some(b'"')) => self.first = Some(escape.to_vec()),
                (false, Some(b'"'), _) if self.first.is_some() => {
                    joined.extend(self.first.take().into_iter().flatten());
                    joined.extend_from_slice(escape);
                }
                _ => joined.extend_from_slice(escape),
            }
            copied = end;
        }
        joined.extend_from_slice(frame.get(copied..).unwrap_or_default());
        Cow::Owned(joined)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// (B07): an invalid byte or half a surrogate pair becomes U+FFFD, and the rest is read.
    #[test]
    fn what_is_no_character_is_replaced_and_the_rest_is_read() {
        for (text, value) in [
            (&br#""a \ud83d b""#[..], json!("a \u{fffd} b")),
            (br#""\ude00""#, json!("\u{fffd}")),
            (br#""\ud83d\ud83d\ude00""#, json!("\u{fffd}\u{1f600}")),
            (br#""\uD83D\uDE00""#, json!("\u{1f600}")),
            (br#""\\ud83d""#, json!("\\ud83d")),
            (br#"{"\ud83d": [1, "\udc00\n"]}"#, json!({ "\u{fffd}": [1, "\u{fffd}\n"] })),
            (b"\"\xff\"", json!("\u{fffd}")),
            (b"\xef\xbb\xbf1", json!(1)),
            (b"18446744073709551615", json!(u64::MAX)),
        ] {
            assert_eq!(read(text), Ok(value), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn errors_are_in_words_of_haft() {
        for (text, words) in [
            ("", "it is empty"),
            ("{\"a\": [1", "it ends in the middle of a value"),
            ("{\"a\": 1,}", "it is not JSON at line 1, column 9"),
            ("<html>", "it is not JSON at line 1, column 1"),
            (r#""\ud8g0""#, "it is not JSON at line 1, column 7"),
        ] {
            assert_eq!(read(text.as_bytes()).unwrap_err().to_string(), words, "{text}");
        }
    }

    /// (B07): a surrogate pair that is split between two frames becomes one character.
    #[test]
    fn a_pair_that_frames_part_is_one_character() {
        let joined = |frames: &[&str]| {
            let mut joiner = PairJoiner::default();
            let texts = frames.iter().map(|frame| read(&joiner.join(frame.as_bytes())).unwrap());
            texts.map(|text| text.as_str().unwrap().to_owned()).collect::<String>()
        };
        assert_eq!(joined(&[r#""a \ud83d""#, r#""\ude00 b""#]), "a \u{1f600} b");
        assert_eq!(joined(&[r#""\ud83d""#, r#""x""#, r#""\ude00""#]), "x\u{1f600}");
        assert_eq!(joined(&[r#""a \ud83d b""#, r#""\ude00""#]), "a \u{fffd} b\u{fffd}");
        assert_eq!(joined(&[r#""a""#, r#""b""#]), "ab");
    }
}
