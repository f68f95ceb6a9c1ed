//! The sizes of messages, of which only lengths are read, and their shares of the room. A text beyond its share is cut
//! in the middle, with a note of its full length. Text files are sent, counted and shortened like text; of another
//! file, which cannot be shortened, a note takes the place if it is beyond its share.

use crate::is_own_question;
use crate::provider::{Exchange, Message};
use haft_core::call::Attachment;
use haft_core::tool::{Keep, clip};

/// The minimum size of an image or another file in bytes: a large image takes about 1,600 tokens at every vendor.
const FILE: usize = 1600 * super::BYTES_OF_100 / 100;
/// The number of bytes of a document per counted byte: a page has about 100 KiB and 1,600 tokens.
const BYTES_OF_DOCUMENT: usize = 16;

/// The counted size of a note about a file, in bytes.
const MENTION: usize = 200;

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
    pub(super) prompt: Share,
    /// The share of the first prompt, if the current task is another one.
    pub(super) first: Share,
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

/// The sizes of texts, which may be shortened, and the counted sizes of other files, in bytes.
#[derive(Clone, Debug, Default)]
struct Parts {
    texts: Vec<usize>,
    files: Vec<usize>,
}

impl Parts {
    fn add(&mut self, text: &str, attachments: &[Attachment]) {
        self.texts.extend(texts(text, attachments));
        self.files.extend(sizes(attachments));
    }

    fn shown(&self, share: Share) -> usize {
        let texts: usize = self.texts.iter().map(|bytes| (*bytes).min(share.text)).sum();
        texts + shown(&self.files, share.file)
    }
}

/// The size of a message in bytes: prompts and answers, which may be shortened, and the rest.
#[derive(Clone, Debug, Default)]
pub(super) struct Size {
    prompt: Parts,
    answers: Parts,
    rest: usize,
    /// Whether a person gave the prompt.
    pub(super) is_asked: bool,
}

impl Size {
    pub(super) fn new(message: &Message) -> Self {
        let mut size = Self::default();
        match message {
            Message::User(prompt) => {
                size.prompt.add(&prompt.text, &prompt.attachments);
                // A question of haft is no request of the person.
                size.is_asked = !is_own_question(prompt);
            }
            Message::Turn(exchange) => {
                for (_, result) in exchange.answered() {
                    size.answers.add(&result.content, &result.attachments);
                }
                size.rest = own_bytes(exchange);
            }
        }
        size
    }

    /// Returns the size of a prompt without files in bytes; `None` with files.
    pub(super) fn words(&self) -> Option<usize> {
        match (self.prompt.texts.as_slice(), self.prompt.files.as_slice()) {
            ([words], []) => Some(*words),
            _ => None,
        }
    }

    /// Returns whether there are files other than text.
    pub(super) fn has_files(&self) -> bool {
        !self.prompt.files.is_empty() || !self.answers.files.is_empty()
    }

    pub(super) fn shown(&self, shares: Shares) -> usize {
        self.prompt.shown(shares.prompt) + self.answers.shown(shares.answer) + self.rest
    }

    /// Returns the size of a prompt of which at most `share` is sent, in bytes.
    pub(super) fn prompt(&self, share: Share) -> usize {
        self.prompt.shown(share) + self.rest
    }
}

/// Returns the size of a turn without its answers, in bytes.
fn own_bytes(exchange: &Exchange) -> usize {
    let reply = exchange.reply();
    let raw = if reply.raw.is_null() { 0 } else { reply.raw.to_string().len() };
    let calls = reply
        .calls
        .iter()
        .map(|requested| requested.call.tool.len() + requested.call.arguments.to_string().len());
    raw.max(reply.text.len() + calls.sum::<usize>())
}

/// Returns the files within `share`: text files shortened, larger other files replaced by a note.
pub(super) fn cut_files(files: &[Attachment], share: Share, why: &str) -> Vec<Attachment> {
    let cut_file = |file: &Attachment| match file.text() {
        Some(text) if text.len() > share.text => {
            Attachment { data: cut(text, share.text, why).into_bytes(), ..file.clone() }
        }
        None if size(file) > share.file => mention(file, why),
        _ => file.clone(),
    };
    files.iter().map(cut_file).collect()
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
fn sizes(files: &[Attachment]) -> impl Iterator<Item = usize> {
    files.iter().filter(|file| file.text().is_none()).map(size)
}

fn size(file: &Attachment) -> usize {
    match file.media_type.split_once('/') {
        Some(("image" | "audio" | "video", _)) => FILE,
        _ => FILE.max(file.data.len() / BYTES_OF_DOCUMENT),
    }
}

/// Returns the counted size of files of these `sizes`, where those larger than `most` are replaced by a note.
fn shown(sizes: &[usize], most: usize) -> usize {
    sizes.iter().map(|bytes| if *bytes > most { MENTION } else { *bytes }).sum()
}

/// Returns whether a file is larger than its share.
pub(super) fn has_larger_file(files: &[Attachment], share: Share) -> bool {
    sizes(files).any(|bytes| bytes > share.file)
}

#[cfg(test)]
mod tests {
    use haft_core::call::{ToolCall, ToolResult};
    use serde_json::json;

    use super::super::{Room, Window};
    use super::*;
    use crate::provider::{Prompt, Reply, RequestedCall, TooLong};

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
