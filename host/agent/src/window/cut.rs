//! The two ends of a text that is too long, and a word of how long it is. Refuses to cut without saying so.

use haft_core::tool::{Keep, clip};

/// The beginning and the end of a text that is longer than `share`, and that this is not all.
pub(super) fn cut(text: &str, share: usize, why: &str) -> String {
    if text.len() <= share {
        return text.to_owned();
    }
    let characters = text.chars().count();
    // As many characters as have that many bytes.
    let room = share.saturating_mul(characters) / text.len();
    format!("[haft: this text of {} bytes {why}.]\n{}", text.len(), clip(text, room, Keep::Ends))
}
