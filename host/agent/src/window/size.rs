//! How much of the room a message takes. Reads nothing but lengths.

use super::files::{files, texts};
use crate::is_own_question;
use crate::provider::{Exchange, Message};

/// Bytes of single texts that are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    /// Of a prompt.
    pub(super) prompt: usize,
    /// Of the first prompt, where another is being worked on.
    pub(super) first: usize,
    /// Of an answer of a tool.
    pub(super) answer: usize,
    /// Of what stands for the beginning.
    pub(super) summary: usize,
}

/// Bytes of a message: of the texts of a prompt and of answers, each of which may be cut, and of everything else.
#[derive(Clone, Debug)]
pub(super) struct Size {
    pub(super) prompt: Vec<usize>,
    answers: Vec<usize>,
    rest: usize,
    /// Whether a person said it.
    pub(super) is_asked: bool,
}

impl Size {
    pub(super) fn new(message: &Message) -> Self {
        match message {
            Message::User(said) => Self {
                prompt: texts(&said.text, &said.attachments).collect(),
                answers: Vec::new(),
                rest: files(&said.attachments),
                // What haft asked is not what the person asked.
                is_asked: !is_own_question(&said.text),
            },
            Message::Turn(exchange) => {
                let results = || exchange.answered().map(|(_, result)| result);
                let files: usize = results().map(|result| files(&result.attachments)).sum();
                Self {
                    prompt: Vec::new(),
                    answers: results()
                        .flat_map(|result| texts(&result.content, &result.attachments))
                        .collect(),
                    rest: own_bytes(exchange) + files,
                    is_asked: false,
                }
            }
        }
    }

    /// Bytes of a prompt that is words alone; `None` where files come with it.
    pub(super) fn words(&self) -> Option<usize> {
        match self.prompt.as_slice() {
            [words] if self.rest == 0 => Some(*words),
            _ => None,
        }
    }

    pub(super) fn shown(&self, shares: Shares) -> usize {
        cut(&self.prompt, shares.prompt) + cut(&self.answers, shares.answer) + self.rest
    }

    /// Bytes of a prompt of whose texts no more than `share` is shown.
    pub(super) fn prompt(&self, share: usize) -> usize {
        cut(&self.prompt, share) + self.rest
    }
}

fn cut(texts: &[usize], share: usize) -> usize {
    texts.iter().map(|bytes| (*bytes).min(share)).sum()
}

/// Bytes of a turn beside its answers.
fn own_bytes(exchange: &Exchange) -> usize {
    let reply = exchange.reply();
    let own = if reply.raw.is_null() { 0 } else { reply.raw.to_string().len() };
    let calls = reply
        .calls
        .iter()
        .map(|requested| requested.call.tool.len() + requested.call.arguments.to_string().len());
    own.max(reply.text.len() + calls.sum::<usize>())
}
