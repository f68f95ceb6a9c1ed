//! The sizes of files in a conversation: text files are sent, counted and shortened like text. Of other files,
//! which cannot be shortened, only the size is read; a file beyond its share is replaced by a note.

use super::share::{Share, cut};
use haft_core::call::Attachment;

/// The minimum size of an image or another file in bytes: a large image takes about 1,600 tokens at every vendor.
const FILE: usize = 1600 * super::BYTES_OF_100 / 100;
/// The number of bytes of a document per counted byte: a page has about 100 KiB and 1,600 tokens.
const BYTES_OF_DOCUMENT: usize = 16;

/// The counted size of a note about a file, in bytes.
const MENTION: usize = 200;

/// Returns the files within `share`: text files shortened, larger other files replaced by a note.
pub(super) fn cut_files(files: &[Attachment], share: Share, why: &str) -> Vec<Attachment> {
    let cut = |file: &Attachment| match file.text() {
        Some(text) if text.len() > share.text => {
            Attachment { data: cut(text, share.text, why).into_bytes(), ..file.clone() }
        }
        None if size(file) > share.file => mention(file, why),
        _ => file.clone(),
    };
    files.iter().map(cut).collect()
}

/// Returns the note in place of a file.
fn mention(file: &Attachment, why: &str) -> Attachment {
    let text = format!("[haft: the file ({}) {why}; it is not shown.]", file.described());
    Attachment::new("text/plain", text.into_bytes())
}

/// Returns the sizes of a text and of each text file, in bytes.
pub(super) fn texts(text: &str, files: &[Attachment]) -> impl Iterator<Item = usize> {
    std::iter::once(text.len()).chain(files.iter().filter_map(|file| file.text().map(str::len)))
}

/// Returns the counted sizes of the other files, in bytes.
pub(super) fn sizes(files: &[Attachment]) -> impl Iterator<Item = usize> {
    files.iter().filter(|file| file.text().is_none()).map(size)
}

fn size(file: &Attachment) -> usize {
    match file.media_type.split_once('/') {
        Some(("image" | "audio" | "video", _)) => FILE,
        _ => FILE.max(file.data.len() / BYTES_OF_DOCUMENT),
    }
}

/// Returns the counted size of files of these `sizes`, where those larger than `most` are replaced by a note.
pub(super) fn shown(sizes: &[usize], most: usize) -> usize {
    sizes.iter().map(|bytes| if *bytes > most { MENTION } else { *bytes }).sum()
}

/// Returns whether a file is larger than its share.
pub(super) fn is_larger(files: &[Attachment], share: Share) -> bool {
    sizes(files).any(|bytes| bytes > share.file)
}

#[cfg(test)]
mod tests {
    use haft_core::call::{ToolCall, ToolResult};
    use serde_json::json;

    use super::super::{Room, Shares, Size, Window};
    use super::*;
    use crate::provider::TooLong;
    use crate::provider::{Exchange, Message, Prompt, Reply, RequestedCall};

    /// Files of the task are kept after a cut; text files are shortened like text, and all files count.
    #[test]
    fn files_count_and_stay_with_what_was_asked() {
        let log = Attachment::new("text/plain", "line ".repeat(40_000).into_bytes());
        let attachments = vec![Attachment::new("image/png", vec![0]), log];
        let said = Prompt { text: "the task".into(), attachments };
        assert_eq!(Size::new(&Message::User(said.clone())).shown(Shares::WHOLE), 8 + FILE + 200_000);
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
        assert_eq!(said.attachments[0].media_type, "image/png");
        assert!(said.attachments[1].data.len() < 45_000);
        assert!(said.attachments[1].text().unwrap().starts_with("[haft: this text of 200000 bytes is more"));
    }

    fn answered(file: Attachment) -> Message {
        let call = ToolCall { id: "a".into(), tool: "t".into(), arguments: json!({}) };
        let reply = Reply { calls: vec![RequestedCall { call, problem: None }], ..Reply::default() };
        let result = ToolResult { attachments: vec![file], ..ToolResult::success("see") };
        Message::Turn(Exchange::new(reply, [result]))
    }

    fn binary(messages: &[Message]) -> usize {
        let files = |message: &Message| match message {
            Message::User(said) => said.attachments.clone(),
            Message::Turn(turn) => {
                turn.answered().flat_map(|(_, result)| result.attachments.clone()).collect()
            }
        };
        messages.iter().flat_map(files).filter(|file| file.text().is_none()).count()
    }

    /// A file that the model cannot read would fail the task and every continuation.
    #[test]
    fn a_file_that_does_not_fit_is_mentioned() {
        let large = || Attachment {
            name: Some("a.pdf".into()),
            ..Attachment::new("application/pdf", vec![0; 4 << 20])
        };
        let said = Prompt { text: "read it".into(), attachments: vec![large()] };
        for messages in [vec![Message::User(said)], vec![Message::User("go".into()), answered(large())]] {
            let mut window = Window::default();
            window.begin("m", Room { window: Some(32_768), ..Room::default() });
            window.fit(&messages);
            let shown = window.visible(&messages, &|_, _| None);
            assert_eq!(binary(&shown), 0);
            let file = match shown.last().unwrap() {
                Message::User(said) => said.attachments[0].clone(),
                Message::Turn(turn) => turn.answered().next().unwrap().1.attachments[0].clone(),
            };
            let told = file.text().unwrap();
            assert!(
                told.starts_with("[haft: the file (a.pdf: application/pdf, 4194304 bytes) is more"),
                "{told}"
            );
            let counted: usize =
                messages.iter().map(|message| Size::new(message).shown(window.shares())).sum();
            assert!((shown_bytes(&shown)..1000).contains(&counted), "{counted}");
        }
    }

    fn shown_bytes(messages: &[Message]) -> usize {
        messages.iter().map(|message| Size::new(message).shown(Shares::WHOLE)).sum()
    }

    /// A conversation that is too long is sent with fewer files, and finally with none.
    #[test]
    fn refusals_leave_out_files_too() {
        let picture = || Attachment::new("image/png", vec![0]);
        let one = [Message::User(Prompt { text: "see".into(), attachments: vec![picture()] })];
        let many = [Message::User(Prompt { text: "see".into(), attachments: vec![picture(); 30] })];
        for messages in [one.to_vec(), many.to_vec(), vec![Message::User("go".into()), answered(picture())]] {
            let mut window = Window::default();
            window.begin("m", Room::default());
            window.fit(&messages);
            assert!(binary(&window.visible(&messages, &|_, _| None)) > 0);
            assert!(window.shrink(TooLong::default()));
            window.fit(&messages);
            assert!(window.leave_out_files());
            window.fit(&messages);
            assert_eq!(binary(&window.visible(&messages, &|_, _| None)), 0);
            assert!(!window.leave_out_files(), "once");
        }
        let mut window = Window::default();
        window.begin("m", Room::default());
        window.fit(&one);
        while window.shrink(TooLong::default()) {
            window.fit(&one);
        }
        assert_eq!(binary(&window.visible(&one, &|_, _| None)), 0);
        let words = [Message::User("hi".into())];
        let mut window = Window::default();
        window.fit(&words);
        assert!(!window.leave_out_files(), "there are none");
    }
}
