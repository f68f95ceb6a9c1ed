//! The shares of the room for single messages, and the cut of a longer text in the middle, with a note of its
//! full length.

use haft_core::tool::{Keep, clip};

/// The maximum sizes of one message in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The size of the text, and of each text file.
    pub(super) text: usize,
    /// For each other file, which cannot be shortened.
    pub(super) file: usize,
}

/// The maximum sizes of single messages in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    /// For a prompt.
    pub(super) prompt: Share,
    /// The share of the first prompt, if the current task is another one.
    pub(super) first: Share,
    /// For the answer of a tool.
    pub(super) answer: Share,
    /// For the summary of the beginning.
    pub(super) summary: usize,
}

#[cfg(test)]
impl Shares {
    const ALL: Share = Share { text: usize::MAX, file: usize::MAX };
    /// No limits.
    pub(super) const WHOLE: Self =
        Self { prompt: Self::ALL, first: Self::ALL, answer: Self::ALL, summary: usize::MAX };
}

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
