//! The sizes of messages. Reads only lengths.

use super::files::{self, texts};
use super::share::{Share, Shares};
use crate::is_own_question;
use crate::provider::{Exchange, Message};
use haft_core::call::Attachment;

/// The sizes of texts, which may be shortened, and the counted sizes of other files, in bytes.
#[derive(Clone, Debug, Default)]
struct Parts {
    texts: Vec<usize>,
    files: Vec<usize>,
}

impl Parts {
    fn add(&mut self, text: &str, attachments: &[Attachment]) {
        self.texts.extend(texts(text, attachments));
        self.files.extend(files::sizes(attachments));
    }

    fn shown(&self, share: Share) -> usize {
        let texts: usize = self.texts.iter().map(|bytes| (*bytes).min(share.text)).sum();
        texts + files::shown(&self.files, share.file)
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
