//! Shortens a text that is too long in the middle, and states its full length. Never shortens without a note.

use haft_core::tool::{Keep, clip};

/// Returns the beginning and the end of a text longer than `share` bytes, with a note.
pub(super) fn cut(text: &str, share: usize, why: &str) -> String {
    if text.len() <= share {
        return text.to_owned();
    }
    let characters = text.chars().count();
    // The number of characters that have that many bytes.
    let room = share.saturating_mul(characters) / text.len();
    format!("[haft: this text of {} bytes {why}.]\n{}", text.len(), clip(text, room, Keep::Ends))
}
