//! Files in requests for `generateContent`: beside the answer of a tool, or inside it if the model accepts them
//! there. Pure.

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
/// The published limits: 20 MB and 3,600 pictures a request.
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
/// The media types that the answer of a tool may contain, for models that accept files there.
const IN_ANSWERS: &[&str] = &["image/png", "image/jpeg", "image/webp", "application/pdf"];

/// Returns the part of a content, or of an answer.
pub(super) fn part(attachment: &Attachment) -> Value {
    let data = BASE64_STANDARD.encode(&attachment.data);
    json!({ "inlineData": { "mimeType": attachment.media_type, "data": data } })
}

/// Whether `model` accepts this file inside an answer: true from the third generation on.
pub(super) fn is_in_answer(model: &str, attachment: &Attachment) -> bool {
    !["gemini-1", "gemini-2"].iter().any(|old| model.contains(old))
        && IN_ANSWERS.contains(&attachment.media_type.as_str())
}
