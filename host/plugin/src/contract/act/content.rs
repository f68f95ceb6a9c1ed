//! The parts of an answer by media type: text, data and files. A failure ends the answer; the text before it is part of
//! the error message.

use super::shapes::{Event, Failure, Part};
use super::{cbor, shapes};
use crate::contract::guest::{Output, Piece, Structured};
use haft_core::call::Attachment;
use haft_core::tool::ToolError;

/// Added to the error of a component that needs a session.
const NO_SESSION: &str = "it works inside a session; a plugin has no sessions, because nothing outlives a \
    call";

/// Added to the error of a call whose session could not be opened.
const SESSION_REFUSED: &str =
    "cannot open a session for the call (its arguments come from `[plugins.config]`)";

/// Returns the answer in a sequence of events. `no_session`: why the call had none, if its component has sessions.
pub(super) fn answer(events: Vec<Event>, no_session: Option<&str>) -> Result<Output, ToolError> {
    let mut output = Output { pieces: Vec::new(), structured: None };
    for event in events {
        match event {
            Event::Content(part) => add(&mut output, part),
            Event::Error(failure) => return Err(failed(&failure, &output, no_session)),
        }
    }
    Ok(output)
}

/// Returns the error of a failure; the parts before it are part of its text.
fn failed(failure: &Failure, output: &Output, no_session: Option<&str>) -> ToolError {
    let message = match no_session {
        Some(why) => format!("{}\n{SESSION_REFUSED}: {why}", text_of(failure)),
        None => message(failure),
    };
    if failure.kind == "std:invalid-args" {
        return ToolError::InvalidArguments(message);
    }
    let lines: Vec<&str> = output.texts().chain([message.as_str()]).collect();
    ToolError::ExecutionFailed(lines.join("\n"))
}

pub(super) fn message(failure: &Failure) -> String {
    let text = text_of(failure);
    match failure.kind.as_str() {
        "std:session-not-found" => format!("{text}: {NO_SESSION}"),
        _ => text.to_owned(),
    }
}

fn text_of(failure: &Failure) -> &str {
    let text = shapes::localized_text(&failure.message).trim();
    if text.is_empty() { &failure.kind } else { text }
}

fn add(output: &mut Output, part: Part) {
    let Part { data, mime_type, metadata: _ } = part;
    let kind = mime_type.as_deref().map(essence);
    match kind.as_deref() {
        Some("application/cbor") => return structured(output, data, mime_type),
        Some("application/json") => {}
        // A map or list in CBOR begins with no byte that text begins with.
        None if matches!(data.first(), Some(0x80..=0xbf)) => return structured(output, data, mime_type),
        Some(kind) if !is_text(kind) => return binary(output, data, mime_type),
        _ => {}
    }
    match String::from_utf8(data) {
        Ok(text) => output.pieces.push(Piece::Text(text)),
        Err(error) => binary(output, error.into_bytes(), mime_type),
    }
}

/// Returns a media type without its parameters, in lower case.
fn essence(mime_type: &str) -> String {
    mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_text(kind: &str) -> bool {
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || kind == "application/xml"
}

fn binary(output: &mut Output, data: Vec<u8>, mime_type: Option<String>) {
    let media_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
    output.pieces.push(Piece::Binary(Attachment::new(media_type, data)));
}

/// Adds data: as JSON for a model, and as structured data if it is an object and the first.
fn structured(output: &mut Output, data: Vec<u8>, mime_type: Option<String>) {
    let Some(value) = cbor::read(&data).map(|value| cbor::json(&value)) else {
        return binary(output, data, mime_type);
    };
    output.pieces.push(Piece::Text(value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    if value.is_object() && output.structured.is_none() {
        output.structured = Some(Structured::Value(value));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::shapes::Localized;
    use super::*;

    fn part(data: &[u8], mime_type: Option<&str>) -> Event {
        let mime_type = mime_type.map(str::to_owned);
        Event::Content(Part { data: data.to_vec(), mime_type, metadata: Vec::new() })
    }

    fn shown(events: Vec<Event>) -> Vec<String> {
        let shown = |piece| match piece {
            Piece::Text(text) => text,
            Piece::Binary(attachment) => format!("{} {:?}", attachment.media_type, attachment.data),
        };
        answer(events, None).unwrap_or_else(|error| panic!("{error}")).pieces.into_iter().map(shown).collect()
    }

    fn failure(kind: &str, message: &str) -> Event {
        let message = Localized::Plain(message.into());
        Event::Error(Failure { kind: kind.into(), message, metadata: Vec::new() })
    }

    #[test]
    fn parts_are_taken_for_what_they_are() {
        let map = cbor::encode(&json!({ "a": 1 }));
        let events = vec![
            part(b"plain", Some("text/plain; charset=utf-8")),
            part(b"{}", Some("application/json")),
            part(&map, Some("application/cbor")),
            part(&map, None),
            part(b"ab", None),
            part(b"\x61b", Some("Application/CBOR")),
            part(&[0xff], None),
            part(b"<svg/>", Some("image/svg+xml")),
            part(&[1, 2], Some("image/png")),
            part(&[0xff], Some("application/cbor")),
        ];
        assert_eq!(
            shown(events),
            [
                "plain",
                "{}",
                "{\"a\":1}",
                "{\"a\":1}",
                "ab",
                "b",
                "application/octet-stream [255]",
                "<svg/>",
                "image/png [1, 2]",
                "application/cbor [255]",
            ]
        );
        let first = answer(vec![part(&map, None), part(&cbor::encode(&json!({})), None)], None);
        let structured = first.ok().and_then(|output| output.structured);
        assert!(matches!(structured, Some(Structured::Value(value)) if value == json!({ "a": 1 })));
    }

    #[test]
    fn a_failure_is_the_end_and_what_was_said_before_counts() {
        let error = |events| answer(events, None).err();
        assert_eq!(
            error(vec![
                part(b"half", Some("text/plain")),
                failure("std:timeout", "too slow"),
                part(b"x", None)
            ]),
            Some(ToolError::ExecutionFailed("half\ntoo slow".into()))
        );
        assert_eq!(
            error(vec![failure("std:invalid-args", "no `id`")]),
            Some(ToolError::InvalidArguments("no `id`".into()))
        );
        assert_eq!(
            error(vec![failure("acme:rate-limited", "")]),
            Some(ToolError::ExecutionFailed("acme:rate-limited".into()))
        );
        let no_session = format!("no session: {NO_SESSION}");
        assert_eq!(
            error(vec![failure("std:session-not-found", "no session")]),
            Some(ToolError::ExecutionFailed(no_session))
        );
    }
}
