//! How much of the room files take: those that are text are shown, counted and cut like text. Reads nothing of the
//! others but their size.

use haft_core::call::Attachment;

use super::cut::cut;

/// Bytes that an image or another file counts for, at least: a large image is some 1,600 tokens with every vendor.
const FILE: usize = 1600 * super::BYTES_OF_100 / 100;
/// Bytes of a document for one that is counted: a page is some 100 KiB of it, and some 1,600 tokens.
const BYTES_OF_DOCUMENT: usize = 16;

/// The files, of which those that are text are shown as text.
pub(super) fn cut_files(files: &[Attachment], share: usize, why: &str) -> Vec<Attachment> {
    let cut = |file: &Attachment| match file.text() {
        Some(text) if text.len() > share => {
            Attachment { data: cut(text, share, why).into_bytes(), ..file.clone() }
        }
        _ => file.clone(),
    };
    files.iter().map(cut).collect()
}

/// Bytes of a text and of each file that is one.
pub(super) fn texts(text: &str, files: &[Attachment]) -> impl Iterator<Item = usize> {
    std::iter::once(text.len()).chain(files.iter().filter_map(|file| file.text().map(str::len)))
}

/// Bytes that the other files count for.
pub(super) fn files(files: &[Attachment]) -> usize {
    let others = files.iter().filter(|file| file.text().is_none());
    others
        .map(|file| match file.media_type.split_once('/') {
            Some(("image" | "audio" | "video", _)) => FILE,
            _ => FILE.max(file.data.len() / BYTES_OF_DOCUMENT),
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use haft_core::call::{ToolCall, ToolResult};
    use serde_json::json;

    use super::super::{Room, Shares, Size, Window};
    use super::*;
    use crate::provider::{Exchange, Message, Prompt, Reply, RequestedCall};

    const WHOLE: Shares =
        Shares { prompt: usize::MAX, first: usize::MAX, answer: usize::MAX, summary: usize::MAX };

    /// Files of the task stay with it after a cut; what is text is cut like text, and all of them count.
    #[test]
    fn files_count_and_stay_with_what_was_asked() {
        let log = Attachment::new("text/plain", "line ".repeat(40_000).into_bytes());
        let attachments = vec![Attachment::new("image/png", vec![0]), log];
        let said = Prompt { text: "the task".into(), attachments };
        assert_eq!(Size::new(&Message::User(said.clone())).shown(WHOLE), 8 + FILE + 200_000);
        let mut messages = vec![Message::User(said)];
        let answer = |_| {
            let call = ToolCall { id: "a".into(), tool: "t".into(), arguments: json!({}) };
            let reply = Reply { calls: vec![RequestedCall { call, problem: None }], ..Reply::default() };
            let attachments = vec![Attachment::new("application/json", b"1".repeat(500))];
            Message::Turn(Exchange::new(reply, [ToolResult { attachments, ..ToolResult::success("x") }]))
        };
        messages.extend((0..40).map(answer));
        let mut window = Window::default();
        window.begin("m", Room { window: Some(16_384), ..Room::default() });
        assert!(window.fit(&messages).is_some());
        let shown = window.visible(&messages, &|_, _| None);
        let Message::User(said) = &shown[0] else { panic!() };
        assert_eq!(said.attachments.len(), 2);
        assert!(said.attachments[1].data.len() < 45_000);
        assert!(said.attachments[1].text().unwrap().starts_with("[haft: this text of 200000 bytes is more"));
    }
}
