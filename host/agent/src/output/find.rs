//! Finds JSON in what a model said: models put it in a fenced block, and words around it. Looks at a bounded number of
//! places, and mends nothing.

use serde_json::{Deserializer, Value};

/// Places of a text where a value may begin that are looked at, after whole text and fenced blocks.
const MAX_PLACES: usize = 64;
/// Fenced blocks that are looked at, from the last one: the first ones are what it thought on the way.
const MAX_BLOCKS: usize = 16;
/// What some models think comes in the text, up to this.
const THOUGHT: &str = "</think>";
const FENCE: &str = "```";

/// The values that may be meant, the likeliest first.
pub(super) fn candidates(text: &str) -> impl Iterator<Item = Value> {
    let text = spoken(text);
    let whole = std::iter::once(text).chain(blocks(text));
    let whole = whole.filter_map(|text| serde_json::from_str(text).ok());
    let places = text.char_indices().filter(|(_, c)| matches!(c, '{' | '[')).take(MAX_PLACES);
    whole.chain(places.filter_map(|(at, _)| value_at(text.get(at..)?)))
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

/// The contents of fenced blocks, the last first.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let inside: Vec<&str> = text.split(FENCE).skip(1).step_by(2).collect();
    // After the fence stands what language it is.
    let content = |block: &'_ str| -> usize { block.find('\n').map_or(0, |end| end + 1) };
    inside
        .into_iter()
        .rev()
        .take(MAX_BLOCKS)
        .filter_map(move |block| Some(block.get(content(block)..)?.trim()))
}

/// The value that begins here.
fn value_at(text: &str) -> Option<Value> {
    Deserializer::from_str(text).into_iter().next()?.ok()
}
