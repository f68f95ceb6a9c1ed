//! The shares of the room for single messages.

/// The maximum sizes of one message in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// For its text, and for each text file.
    pub(super) text: usize,
    /// For each other file, which cannot be shortened.
    pub(super) file: usize,
}

/// The maximum sizes of single messages in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    /// For a prompt.
    pub(super) prompt: Share,
    /// For the first prompt, if the current task is another one.
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
