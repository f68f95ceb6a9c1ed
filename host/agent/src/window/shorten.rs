//! Shortens texts beyond their share in the middle, and states where the full text is. Names a file only if the
//! model has a tool that opens it.

use super::files::{self, cut_files, texts};
use super::share::{Share, Shares, cut};
use crate::provider::{Exchange, Message, Prompt, RequestedCall};
use crate::session::{Kept, Place};
use haft_core::call::{Attachment, ToolResult};

/// Stores the full text of a shortened answer, if possible.
pub(crate) type Keeper<'a> = &'a (dyn Fn(Place, &str) -> Option<Kept> + Sync);

/// The tool that opens stored answers: haft's built-in one.
pub(crate) const READER: &str = "read";

/// The note in a shortened answer that is not stored.
const ANSWER_CUT: &str = "is more than fits into this conversation; ask for a part of it to see the rest";
/// The note in a shortened prompt.
pub(super) const PROMPT_CUT: &str = "is more than fits into this conversation";

/// Returns the location of a full text, for a model.
pub(crate) fn told(kept: &Kept) -> String {
    format!(
        "all of it, {} bytes in {} lines, is in `{}`: `{READER}` shows a part of it, from line `offset` on, `limit` \
         lines at a time, in a long line from character `column` on",
        kept.bytes,
        kept.lines,
        kept.path.display()
    )
}

/// Whether a part of `message` exceeds its share.
pub(super) fn is_larger(message: &Message, shares: Shares) -> bool {
    let is_over = |text: &str, attachments: &[Attachment], share: Share| {
        texts(text, attachments).any(|bytes| bytes > share.text) || files::is_larger(attachments, share)
    };
    match message {
        Message::User(prompt) => is_over(&prompt.text, &prompt.attachments, shares.prompt),
        Message::Turn(exchange) => exchange
            .answered()
            .any(|(_, result)| is_over(&result.content, &result.attachments, shares.answer)),
    }
}

/// Returns the message at `index` of the conversation, with every text and file within its share.
pub(super) fn shorten(index: usize, message: &Message, shares: Shares, keeper: Keeper<'_>) -> Message {
    match message {
        Message::User(said) => Message::User(prompt(said, shares.prompt)),
        Message::Turn(exchange) if is_larger(message, shares) => {
            let answers = exchange.answered().enumerate().map(|(call, (requested, result))| {
                answer(Place { message: index, call }, requested, result, shares, keeper)
            });
            Message::Turn(Exchange::new(exchange.reply().clone(), answers))
        }
        Message::Turn(_) => message.clone(),
    }
}

/// Returns a prompt with every text and file within `share`.
pub(super) fn prompt(said: &Prompt, share: Share) -> Prompt {
    Prompt {
        text: cut(&said.text, share.text, PROMPT_CUT),
        attachments: cut_files(&said.attachments, share, PROMPT_CUT),
    }
}

fn answer(
    place: Place,
    requested: &RequestedCall,
    result: &ToolResult,
    shares: Shares,
    keeper: Keeper<'_>,
) -> ToolResult {
    // An answer of the reader is in a file already.
    let is_kept = result.content.len() > shares.answer.text && requested.call.tool != READER;
    let kept = is_kept.then(|| keeper(place, &result.content)).flatten();
    let why = kept.map(|kept| format!("is more than fits into this conversation; {}", told(&kept)));
    let content = cut(&result.content, shares.answer.text, why.as_deref().unwrap_or(ANSWER_CUT));
    let attachments = cut_files(&result.attachments, shares.answer, ANSWER_CUT);
    ToolResult { content, attachments, ..result.clone() }
}
