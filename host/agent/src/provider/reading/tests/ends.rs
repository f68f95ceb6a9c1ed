//! Tests of the stop reasons of each vendor, in streamed and in complete responses, for text and for tool calls.

use super::*;

/// Formats, the stop reason, and the results of a text and of a call with it: `Err` names the failure's kind.
type Row =
    (&'static [&'static str], Option<&'static str>, Result<Stop, &'static str>, Result<Stop, &'static str>);

const CHAT: &[&str] = &["chat", "openrouter"];
const ANTHROPIC: &[&str] = &["anthropic"];
const GEMINI: &[&str] = &["gemini"];
const OLLAMA: &[&str] = &["ollama"];
const RESPONSES: &[&str] = &["responses"];
const ALL: &[&str] = &["chat", "openrouter", "responses", "anthropic", "gemini", "ollama"];
const DONE: Result<Stop, &str> = Ok(Stop::Done);
const BAD: Result<Stop, &str> = Err("unusable_answer");

/// (A01): stop reasons as the vendors publish them, and as servers send them.
const ENDS: &[Row] = &[
    (CHAT, Some("stop"), DONE, DONE),
    (CHAT, Some("STOP"), DONE, DONE),
    (CHAT, Some("eos"), DONE, DONE),
    (CHAT, Some("tool_calls"), BAD, DONE),
    (CHAT, Some("function_call"), BAD, DONE),
    (CHAT, Some("length"), Ok(Stop::Length), Ok(Stop::Length)),
    (CHAT, Some("model_length"), Ok(Stop::Length), Ok(Stop::Length)),
    (CHAT, Some("content_filter"), Ok(Stop::Filtered), Ok(Stop::Filtered)),
    (CHAT, Some("error"), BAD, BAD),
    (CHAT, Some("insufficient_system_resource"), BAD, BAD),
    (CHAT, Some("network_error"), BAD, BAD),
    (ANTHROPIC, Some("end_turn"), DONE, DONE),
    (ANTHROPIC, Some("stop_sequence"), DONE, DONE),
    (ANTHROPIC, Some("tool_use"), BAD, DONE),
    (ANTHROPIC, Some("max_tokens"), Ok(Stop::Length), Ok(Stop::Length)),
    (ANTHROPIC, Some("refusal"), Ok(Stop::Refused), Ok(Stop::Refused)),
    (ANTHROPIC, Some("pause_turn"), Ok(Stop::Paused), Ok(Stop::Paused)),
    (
        ANTHROPIC,
        Some("model_context_window_exceeded"),
        Err("context_length_exceeded"),
        Err("context_length_exceeded"),
    ),
    (GEMINI, Some("STOP"), DONE, DONE),
    (GEMINI, Some("MAX_TOKENS"), Ok(Stop::Length), Ok(Stop::Length)),
    (GEMINI, Some("SAFETY"), Ok(Stop::Filtered), Ok(Stop::Filtered)),
    (GEMINI, Some("RECITATION"), Ok(Stop::Filtered), Ok(Stop::Filtered)),
    (GEMINI, Some("MALFORMED_FUNCTION_CALL"), BAD, DONE),
    (GEMINI, Some("OTHER"), BAD, DONE),
    (GEMINI, Some("FINISH_REASON_UNSPECIFIED"), BAD, DONE),
    (OLLAMA, Some("stop"), DONE, DONE),
    (OLLAMA, Some("length"), Ok(Stop::Length), Ok(Stop::Length)),
    (RESPONSES, Some("completed"), DONE, DONE),
    (RESPONSES, Some("max_output_tokens"), Ok(Stop::Length), Ok(Stop::Length)),
    (RESPONSES, Some("content_filter"), Ok(Stop::Filtered), Ok(Stop::Filtered)),
    (RESPONSES, Some("failed"), BAD, BAD),
    (RESPONSES, Some("cancelled"), BAD, BAD),
    (ALL, Some("something_new"), BAD, DONE),
];

/// The stop reasons that are a status, not a reason for incompleteness.
const STATUSES: &[&str] = &["completed", "failed", "cancelled"];

/// Replaces the stop reason of `value`, a body or frames, by `word`.
fn end(value: &mut Value, word: Option<&str>) {
    let word_of = |word: Option<&str>| word.map_or(Value::Null, Value::from);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| end(item, word)),
        Value::Object(object) => {
            if object.get("status") == Some(&"completed".into()) && object.contains_key("output") {
                let is_status = word.is_none_or(|word| STATUSES.contains(&word));
                object.insert("status".into(), if is_status { word_of(word) } else { "incomplete".into() });
                object.insert("incomplete_details".into(), serde_json::json!({ "reason": word_of(word) }));
            }
            for (key, value) in object.iter_mut() {
                let is_end =
                    ["finish_reason", "stop_reason", "finishReason", "done_reason"].contains(&key.as_str());
                if is_end && value.is_string() {
                    *value = word_of(word);
                } else {
                    end(value, word);
                }
            }
        }
        _ => {}
    }
}

/// Returns the results of text, or of a call, with the stop reason `word`: streamed, and complete.
fn ended(format: &Format, parts: &[Part], word: Option<&str>) -> [Result<Stop, &'static str>; 2] {
    let mut frames = Value::from((format.write)(parts));
    end(&mut frames, word);
    let streamed = stream(format, frames.as_array().unwrap(), "data: [DONE]\n\n");
    let mut whole = (format.whole)();
    end(&mut whole, word);
    if !parts.iter().any(|part| matches!(part, Part::Call(_))) {
        without_calls(&mut whole);
    }
    [streamed, whole.to_string().into_bytes()].map(|bytes| {
        read(format, &bytes, usize::MAX).map(|(turn, _)| turn.stop).map_err(|failure| failure.kind())
    })
}

fn without_calls(value: &mut Value) {
    match value {
        Value::Array(items) => {
            let is_call = |item: &Value| {
                item.get("functionCall").is_some()
                    || ["tool_use", "function_call"]
                        .iter()
                        .any(|kind| item.get("type") == Some(&(*kind).into()))
            };
            items.retain(|item| !is_call(item));
            items.iter_mut().for_each(without_calls);
        }
        Value::Object(object) => {
            object.shift_remove("tool_calls");
            object.values_mut().for_each(without_calls);
        }
        _ => {}
    }
}

#[test]
fn every_end_of_every_vendor_is_what_it_is_streamed_and_whole() {
    let a_text = [text(is("Half an answ"))];
    let a_call = [call(I0, is("c1"), is("read"), is(A))];
    for (formats, word, of_text, of_call) in ENDS {
        for format in FORMATS.iter().filter(|format| formats.contains(&format.name)) {
            let told = format!("{}: {word:?}", format.name);
            assert_eq!(ended(format, &a_text, *word), [*of_text; 2], "{told} of text");
            assert_eq!(ended(format, &a_call, *word), [*of_call; 2], "{told} of a call");
        }
    }
}

/// An answer without a sign of its completeness is an error. Early versions of Ollama report only that they are done.
#[test]
fn text_that_ends_without_a_word_is_no_answer() {
    for format in FORMATS.iter().filter(|format| format.name != "ollama") {
        let [streamed, whole] = ended(format, &[text(is("Half an answ"))], None);
        // The last event contains a complete response.
        let is_told = format.name == "responses";
        assert!(is_told || streamed.is_err(), "{}: {streamed:?}", format.name);
        assert_eq!(whole, BAD, "{}", format.name);
    }
    let ollama = FORMATS.iter().find(|format| format.name == "ollama").unwrap();
    assert_eq!(ended(ollama, &[text(is("all"))], None), [DONE; 2]);
}

/// (A07): a turn of blanks is an empty response.
#[test]
fn a_turn_of_blanks_is_empty() {
    for format in FORMATS {
        for blank in ["\n\n", " ", "<think>hm</think>\n"] {
            let bytes = stream(format, &(format.write)(&[text(is(blank))]), "");
            let failure = read(format, &bytes, usize::MAX).unwrap_err();
            assert_eq!(failure.kind(), "empty_answer", "{}: {failure}", format.name);
        }
    }
}

/// PL07: a body with too many values or too deep nesting is refused before it is parsed.
#[test]
fn a_body_of_nothing_but_brackets_is_refused_before_it_is_read() {
    use serde_json::json;
    let text = format!("[{}1]", "[],".repeat(MAX_VALUES));
    assert!(matches!(parse(text.as_bytes()), Err(Failure::Malformed(why)) if why.starts_with("more than")));
    let words = json!({ "text": ",[{\\\"".repeat(MAX_VALUES) }).to_string();
    assert!(parse(words.as_bytes()).is_ok());
    let deep = "[".repeat(100_000);
    assert!(matches!(parse(deep.as_bytes()), Err(Failure::Malformed(_))));
}
