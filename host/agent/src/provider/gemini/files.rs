//! Files in requests for `generateContent`, and where they stand: beside an answer of a tool, or in it where the model
//! takes them there. Pure.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::provider::files::{DOCUMENTS, Kind, Takes};
use haft_core::call::Attachment;

const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];
const SOUNDS: &[&str] =
    &["audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"];
const FILMS: &[&str] = &[
    "video/mp4",
    "video/mpeg",
    "video/mov",
    "video/avi",
    "video/x-flv",
    "video/mpg",
    "video/webm",
    "video/wmv",
    "video/3gpp",
];
/// 20 MB and 3,600 pictures a request, as the vendor publishes them.
pub(super) const TAKES: Takes = Takes {
    kinds: &[
        Kind { media_types: PICTURES, most: usize::MAX },
        Kind { media_types: DOCUMENTS, most: usize::MAX },
        Kind { media_types: SOUNDS, most: usize::MAX },
        Kind { media_types: FILMS, most: usize::MAX },
    ],
    total: 18 << 20,
    count: 3600,
};
/// What an answer of a tool may hold itself, in the models that take that.
const IN_ANSWERS: &[&str] = &["image/png", "image/jpeg", "image/webp", "application/pdf"];

/// A part of a content, or of an answer.
pub(super) fn part(attachment: &Attachment) -> Value {
    let data = BASE64_STANDARD.encode(&attachment.data);
    json!({ "inlineData": { "mimeType": attachment.media_type, "data": data } })
}

/// Whether `model` takes this file within an answer: its third generation does, and those after it.
pub(super) fn is_in_answer(model: &str, attachment: &Attachment) -> bool {
    !["gemini-1", "gemini-2"].iter().any(|old| model.contains(old))
        && IN_ANSWERS.contains(&attachment.media_type.as_str())
}
