//! Answers that are valid against a JSON Schema: the instructions to the model, the check of its answer, and the
//! prompt for a correction. The number of corrections is limited: a model that cannot answer in this form fails the
//! task.

use std::ops::Range;

use serde_json::{Deserializer, Error, Value};

use crate::End;
use crate::provider::OutputSchema;

/// The maximum number of corrections: an answer that is not valid after three corrections with the errors shown is
/// not valid after ten.
pub(super) const MAX_REPAIRS: u32 = 3;

/// The beginning and the end of the prompt for a correction.
const AGAIN: &str = "[Your answer cannot be used: ";
const AGAIN_END: &str = "with nothing else.]";

/// Returns whether `text` is exactly a prompt for a correction.
pub(super) fn is_question(text: &str) -> bool {
    text.starts_with(AGAIN) && text.ends_with(AGAIN_END)
}

/// The maximum size, in bytes, of a schema that is repeated with the errors: small models no longer consider it by
/// then, and its repetition costs less than one more attempt.
const MAX_RETOLD: usize = 2 << 10;

/// Appends the instructions for the form of the answer to the system prompt. The text is constant for the complete
/// task, for the prompt caches of vendors.
pub(super) fn instructed(mut system: String, schema: &OutputSchema) -> String {
    if !system.is_empty() {
        system.push_str("\n\n");
    }
    system.push_str(
        "When the task is done, your final answer must be one JSON value that is valid against the JSON Schema below: \
         no other text before or after it, no code fence. Fill it from what you found.\n\n",
    );
    system.push_str(&schema.written().to_string());
    system
}

pub(super) struct Answers<'a> {
    pub(super) schema: Option<&'a OutputSchema>,
    repairs: u32,
    /// Whether the server needs the tools in every request of this run.
    pub(super) keeps_tools: bool,
}

/// The next step of a run whose model has given its last turn.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// The run ends as the model ended it, with the value if a schema was set.
    Ended(Option<Value>),
    /// The model gets this prompt.
    Again(String),
    /// The run ends without a valid answer. `prompt` is added to the conversation, for a later continuation.
    Without {
        prompt: String,
        /// The errors in the last answer.
        errors: String,
    },
}

impl<'a> Answers<'a> {
    pub(super) fn new(schema: Option<&'a OutputSchema>) -> Self {
        Self { schema, repairs: 0, keeps_tools: false }
    }

    /// Returns whether the model has answered and should correct its answer without tools, if that helps.
    pub(super) fn is_without_tools(&self) -> bool {
        self.repairs > 0 && !self.keeps_tools
    }

    /// Checks `text`, the final text of a run that ended with `end`.
    pub(super) fn judge(&mut self, end: End, text: &str) -> Verdict {
        let Some(schema) = self.schema.filter(|_| end == End::Final) else { return Verdict::Ended(None) };
        let errors = match read(schema, text) {
            Ok(value) => return Verdict::Ended(Some(value)),
            Err(errors) => errors,
        };
        let prompt = question(schema, &errors);
        if self.repairs == MAX_REPAIRS {
            return Verdict::Without { prompt, errors };
        }
        self.repairs += 1;
        Verdict::Again(prompt)
    }
}

fn question(schema: &OutputSchema, errors: &str) -> String {
    let written = schema.written().to_string();
    let again = if written.len() <= MAX_RETOLD { format!(" {written}") } else { String::new() };
    format!(
        "{AGAIN}{errors}. Answer again with one JSON value that is valid against the JSON Schema{again}, and {AGAIN_END}"
    )
}

/// Reads the valid value in the text of a model; of several values, the [most likely](candidates). Returns the
/// error of the first value if none is valid.
fn read(schema: &OutputSchema, text: &str) -> Result<Value, String> {
    let mut first = None;
    for value in candidates(text) {
        match schema.accept(value) {
            Ok(value) => return Ok(value),
            Err(error) => drop(first.get_or_insert(error)),
        }
    }
    Err(first.unwrap_or_else(|| why_none(text)))
}

// Finds JSON in the text of a model: models put it in fenced blocks and between words. Tries a bounded number of
// positions, repairs nothing, and never takes a part of a value for the value.

/// The maximum number of positions where a value may begin, besides the complete text and fenced blocks.
const MAX_PLACES: usize = 64;
/// The maximum number of fenced blocks, counted from the last: the first ones are intermediate results.
const MAX_BLOCKS: usize = 16;
/// The tag that ends the thinking that some models write into their text.
const THOUGHT: &str = "</think>";
const FENCE: &str = "```";

/// Returns the candidate values, most likely first: the complete text if it is JSON; otherwise those of fenced
/// blocks, last first, then those between words, longest first.
fn candidates(text: &str) -> Vec<Value> {
    let text = spoken(text);
    if let Ok(whole) = serde_json::from_str(text) {
        return vec![whole];
    }
    let read = |(range, block): (Range<usize>, &str)| Some((range, serde_json::from_str(block).ok()?));
    let (ranges, mut values): (Vec<_>, Vec<Value>) = blocks(text).filter_map(read).unzip();
    values.extend(between(text, &ranges));
    values
}

fn why_none(text: &str) -> String {
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
/// value are omitted.
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

/// Returns the value at the beginning of `text`, and the number of read bytes, also for an invalid or incomplete
/// value.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> OutputSchema {
        let schema = json!({
            "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false,
        });
        OutputSchema::new(&schema).unwrap()
    }

    #[test]
    fn json_is_found_wherever_a_model_puts_it() {
        for text in [
            r#"{"n":1}"#,
            "\n {\"n\": 1}\n",
            "```json\n{\"n\": 1}\n```",
            "Here you are:\n\n```\n{ \"n\": 1 }\n```\nAnything else?",
            "At first ```json\n{\"n\": \"x\"}\n``` and then\n```json\n{\"n\": 1}\n```",
            "The answer is {\"n\": 1}.",
            "[note] it is {\"n\": 1}, of {a set}",
            "<think>{\"n\": 7}</think>{\"n\": 1}",
            "Not {\"n\":2}, but { \"n\": 1 }",
            "In braces: {{\"n\": 1}}",
            "It is {\"n\": 1}, as ```json\n{\"n\": \"x\"}\n``` has it.",
        ] {
            assert_eq!(read(&schema(), text), Ok(json!({ "n": 1 })), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_and_not_mended() {
        let error = |text: &str| read(&schema(), text).unwrap_err();
        assert_eq!(error(""), "it is empty");
        assert!(error("I do not know").starts_with("it is not JSON: expected"));
        assert_eq!(error("{}"), "`n` is required");
        assert_eq!(error(r#"{"n":"1"}"#), r#"at `/n`: "1" is not of type "integer""#);
        assert!(error(r#"{"n":1"#).starts_with("it is not JSON: EOF"));
        assert!(error(&"[".repeat(100_000)).starts_with("it is not JSON"));
    }

    /// A part of an invalid answer may be valid by itself, but is not the answer.
    #[test]
    fn a_part_of_an_invalid_answer_is_no_answer() {
        let tree = json!({
            "type": "object", "additionalProperties": false,
            "properties": { "n": { "type": "integer" }, "of": { "type": "array", "items": { "$ref": "#" } } },
        });
        let tree = OutputSchema::new(&tree).unwrap();
        let wrong = r#"{"n":"one","of":[{"n":2,"of":[{}]},{"n":3}]}"#;
        let cut = r#"{"n":1,"of":[{"n":2},{"n":3}"#;
        let broken = r#"{"n":1,"of":[{"n":2},"#.to_owned() + "oops]}";
        for text in [
            wrong.to_owned(),
            format!("<think>{{}}</think>{wrong}"),
            format!("```json\n{wrong}\n```"),
            format!("It is {wrong}, I think."),
            cut.to_owned(),
            format!("It is {cut}"),
            broken,
        ] {
            assert!(read(&tree, &text).is_err(), "{text}: {:?}", read(&tree, &text));
        }
        let right = r#"{"n":1,"of":[{"n":2},{"n":3}]}"#;
        for text in [right.to_owned(), format!("Of [1] and {{}} it is {right}.")] {
            assert_eq!(read(&tree, &text).unwrap().to_string(), right);
        }
    }

    #[test]
    fn a_model_is_asked_again_a_bounded_number_of_times() {
        let schema = schema();
        let mut answers = Answers::new(Some(&schema));
        for _ in 0..MAX_REPAIRS {
            let Verdict::Again(prompt) = answers.judge(End::Final, "{}") else { panic!("not asked again") };
            assert!(prompt.contains("`n` is required") && answers.is_without_tools());
            assert!(prompt.contains("Schema {\"type\":") && is_question(&prompt), "{prompt}");
        }
        let last = answers.judge(End::Final, "nothing");
        assert!(matches!(&last, Verdict::Without { errors, .. } if errors.contains("not JSON")), "{last:?}");
        // An answer that was cut off, filtered or declined is not corrected.
        assert_eq!(answers.judge(End::Length, "{"), Verdict::Ended(None));
        assert_eq!(Answers::new(None).judge(End::Final, "words"), Verdict::Ended(None));
    }

    #[test]
    fn a_long_schema_is_not_told_again() {
        let long =
            OutputSchema::new(&json!({ "description": "x".repeat(MAX_RETOLD), "type": "integer" })).unwrap();
        let prompt = question(&long, "it is empty");
        assert!(prompt.len() < 200 && is_question(&prompt), "{prompt}");
    }

    #[test]
    fn the_model_is_told_the_schema_after_everything_else() {
        let told = instructed("Be good.".into(), &schema());
        assert!(
            told.starts_with("Be good.\n\nWhen the task is done")
                && told.ends_with("\"additionalProperties\":false}")
        );
        assert!(instructed(String::new(), &schema()).starts_with("When"));
    }
}
