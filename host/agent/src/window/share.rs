//! How much of the room single messages may take. Knows no message.

/// Bytes of one message that are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Of its text, and of each file that is one.
    pub(super) text: usize,
    /// The largest other file that is shown: there is no showing a part of it.
    pub(super) file: usize,
}

/// Bytes of single messages that are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    /// Of a prompt.
    pub(super) prompt: Share,
    /// Of the first prompt, where another is being worked on.
    pub(super) first: Share,
    /// Of an answer of a tool.
    pub(super) answer: Share,
    /// Of what stands for the beginning.
    pub(super) summary: usize,
}

#[cfg(test)]
impl Shares {
    const ALL: Share = Share { text: usize::MAX, file: usize::MAX };
    /// Of everything everything.
    pub(super) const WHOLE: Self =
        Self { prompt: Self::ALL, first: Self::ALL, answer: Self::ALL, summary: usize::MAX };
}
