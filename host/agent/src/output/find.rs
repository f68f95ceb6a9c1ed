//! Finds JSON in what a model said: models put it in a fenced block, and words around it. Looks at a bounded number of
//! places, and mends nothing. Refuses to take a part of a value for the value.

use std::ops::Range;

use serde_json::{Deserializer, Error, Value};

/// Places of a text where a value may begin that are looked at, beside whole text and fenced blocks.
const MAX_PLACES: usize = 64;
/// Fenced blocks that are looked at, from the last one: the first ones are what it thought on the way.
const MAX_BLOCKS: usize = 16;
/// What some models think comes in the text, up to this.
const THOUGHT: &str = "</think>";
const FENCE: &str = "```";

/// The values that may be meant, the likeliest first: the whole text, where that is one; else those of fenced blocks,
/// the last first, and then those between words, the longest first.
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

/// Why there is no value in `text` at all.
pub(super) fn why_none(text: &str) -> String {
    match serde_json::from_str::<Value>(spoken(text)) {
        _ if spoken(text).is_empty() => "it is empty".into(),
        Err(error) => format!("it is not JSON: {error}"),
        Ok(_) => "it is not JSON".into(),
    }
}

/// What is said after all thinking.
fn spoken(text: &str) -> &str {
    text.rsplit_once(THOUGHT).map_or(text, |(_, said)| said).trim()
}

/// Where the fenced blocks are and their contents, the last first.
fn blocks(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let parts = text.split(FENCE).scan(0, |next, part| {
        let from = *next;
        *next += part.len() + FENCE.len();
        Some((from..from + part.len(), part))
    });
    let inside: Vec<_> = parts.skip(1).step_by(2).collect();
    // After the fence stands what language it is.
    let content = |block: &str| -> usize { block.find('\n').map_or(0, |end| end + 1) };
    inside
        .into_iter()
        .rev()
        .take(MAX_BLOCKS)
        .filter_map(move |(range, block)| Some((range, block.get(content(block)..)?.trim())))
}

/// The values between the words of `text`, outside of the `blocks` that were read, the longest first. What is a part of
/// another value is none of them.
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

/// The first place from `from` on where an object or a list may begin.
fn place(text: &str, from: usize) -> Option<usize> {
    let mut places = text.char_indices().skip_while(|(at, _)| *at < from);
    places.find(|(_, c)| matches!(c, '{' | '[')).map(|(at, _)| at)
}

/// The value that begins here, and how many bytes were read as one: also of what turned out to be none, or to be cut
/// off.
fn value_at(text: &str) -> (usize, Option<Value>) {
    let mut values = Deserializer::from_str(text).into_iter();
    match values.next() {
        Some(Ok(value)) => (values.byte_offset(), Some(value)),
        Some(Err(error)) if !error.is_eof() => (offset(text, &error), None),
        _ => (text.len(), None),
    }
}

/// The byte that is not as it would have to be.
fn offset(text: &str, error: &Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1)
}
