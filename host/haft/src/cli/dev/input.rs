//! The lines that a person types while a plugin is developed: the name of a tool, then its arguments
//! as JSON or as words. A line is never run as anything else.

use std::io::{BufRead, BufReader, Read};

use anyhow::Context;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{Receiver, channel};

/// Bytes of one line; arguments that are larger come from a file, to `haft call`.
const MAX_LINE: u64 = 1 << 20;

/// Lines that are queued during a build; more block the writer.
const MAX_WAITING: usize = 64;

/// The lines of standard input, until it ends.
pub(super) fn lines() -> Receiver<String> {
    let (sender, receiver) = channel(MAX_WAITING);
    // A thread, since nothing ends a read of standard input; it ends with the process.
    std::thread::spawn(move || {
        let mut input = BufReader::new(std::io::stdin());
        loop {
            let mut line = Vec::new();
            match input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if sender.blocking_send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The tool's name, and what follows it.
pub(super) fn split(line: &str) -> (&str, &str) {
    let line = line.trim();
    line.split_once(char::is_whitespace).map_or((line, ""), |(name, rest)| (name, rest.trim()))
}

/// The arguments: a JSON object goes into `object`; of `name=value` words, split as a shell splits
/// them, each value is text.
pub(super) fn arguments(
    text: &str,
    object: &mut Map<String, Value>,
) -> anyhow::Result<Vec<(String, String)>> {
    if text.starts_with('{') {
        *object = serde_json::from_str(text).context("the arguments are not a JSON object")?;
        return Ok(Vec::new());
    }
    let words = shell_words::split(text).context("a quotation mark has no other")?;
    let pair = |word: &str| {
        let pair = word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.with_context(|| format!("expected `{{…}}` or `name=value`, found `{word}`"))
    };
    words.iter().map(|word| pair(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_and_json_or_words() {
        assert_eq!(split("  top-words {\"a\": 1} \n"), ("top-words", "{\"a\": 1}"));
        assert_eq!(split("now\n"), ("now", ""));
        let mut object = Map::new();
        assert!(arguments("{\"a\": 1}", &mut object).unwrap().is_empty());
        assert_eq!(Value::Object(object), serde_json::json!({ "a": 1 }));
        let words = arguments("text='a b' limit=2 rest=x=y", &mut Map::new()).unwrap();
        let expected = [("text", "a b"), ("limit", "2"), ("rest", "x=y")];
        assert_eq!(words, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in ["{\"a\"", "word", "a='b"] {
            assert!(arguments(text, &mut Map::new()).is_err(), "{text}");
        }
    }
}
