//! Finds JSON in the text of a model: models put it in fenced blocks and between words. Tries a bounded number of
//! positions, repairs nothing, and never takes a part of a value for the value.

use std::ops::Range;

use serde_json::{Deserializer, Error, Value};

/// The maximum number of positions where a value may begin, beside the whole text and fenced blocks.
const MAX_PLACES: usize = 64;
/// The maximum number of fenced blocks, counted from the last: the first ones are intermediate results.
const MAX_BLOCKS: usize = 16;
/// The tag that ends the thinking that some models write into their text.
const THOUGHT: &str = "</think>";
const FENCE: &str = "```";

/// Returns the candidate values, most likely first: the whole text if it is JSON; otherwise those of fenced blocks,
/// last first, then those between words, longest first.
pub(super) fn candidates(text: &str) -> Vec<Value> {
    let text = spoken(text);
    if let Ok(whole) = serde_json::from_str(text) {
        return vec![whole];
    }
    let read = |(range, block): (Range<usize>, &str)| Some((range, serde_json::from_str(block).ok()?));
    let (ranges, mut values): (Vec<_>, Vec<Value>) = blocks(text).filter_map(read).unzip();
    values.extend(between(text, &ranges));
    values
}

/// Returns the reason why `text` holds no value.
pub(super) fn why_none(text: &str) -> String {
    match serde_json::from_str::<Value>(spoken(text)) {
        _ if spoken(text).is_empty() => "it is empty".into(),
        Err(error) => format!("it is not JSON: {error}"),
        Ok(_) => "it is not JSON".into(),
    }
}

/// Returns the text after all thinking.
fn spoken(text: &str) -> &str {
    text.rsplit_once(THOUGHT).map_or(text, |(_, spoken)| spoken).trim()
}

/// Returns the ranges and contents of the fenced blocks, last first.
fn blocks(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let parts = text.split(FENCE).scan(0, |next, part| {
        let from = *next;
        *next += part.len() + FENCE.len();
        Some((from..from + part.len(), part))
    });
    let inside: Vec<_> = parts.skip(1).step_by(2).collect();
    // The opening fence line names the language.
    let content = |block: &str| -> usize { block.find('\n').map_or(0, |end| end + 1) };
    inside
        .into_iter()
        .rev()
        .take(MAX_BLOCKS)
        .filter_map(move |(range, block)| Some((range, block.get(content(block)..)?.trim())))
}

/// Returns the values between the words of `text`, outside the parsed `blocks`, longest first. Parts of another
/// value are left out.
fn between(text: &str, blocks: &[Range<usize>]) -> impl Iterator<Item = Value> {
    let mut found = Vec::new();
    let mut next = 0;
    for _ in 0..MAX_PLACES {
        let Some(place) = place(text, next) else { break };
        if let Some(block) = blocks.iter().find(|block| block.contains(&place)) {
            next = block.end;
            continue;
        }
        let (length, value) = value_at(text.get(place..).unwrap_or_default());
        next = place + length.max(1);
        found.extend(value.map(|value| (length, value)));
    }
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    found.into_iter().map(|(_, value)| value)
}

/// Returns the first position from `from` on where an object or an array may begin.
fn place(text: &str, from: usize) -> Option<usize> {
    let mut places = text.char_indices().skip_while(|(at, _)| *at < from);
    places.find(|(_, c)| matches!(c, '{' | '[')).map(|(at, _)| at)
}

/// Returns the value that begins here, and how many bytes were read, also if they are no value or a cut-off one.
fn value_at(text: &str) -> (usize, Option<Value>) {
    let mut values = Deserializer::from_str(text).into_iter();
    match values.next() {
        Some(Ok(value)) => (values.byte_offset(), Some(value)),
        Some(Err(error)) if !error.is_eof() => (offset(text, &error), None),
        _ => (text.len(), None),
    }
}

/// Returns the offset of the first invalid byte.
fn offset(text: &str, error: &Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1)
}
