//! Selects the files that are sent to a vendor, and describes the others in the text. A dialect states which files
//! its vendor [`Takes`]; a conversation after [`fit`] is sent unmodified. Does not send a file that the vendor is
//! known to reject, because such a file would fail every later request of the conversation.

use std::borrow::Cow;

use haft_core::call::{Attachment, ToolResult, media_type_of};
use haft_core::report::enclosed;

use super::{Exchange, Message, Prompt};

/// The files that a vendor accepts, according to its documentation.
pub(super) struct Takes {
    pub(super) kinds: &'static [Kind],
    /// The maximum size of all files of a request in bytes of base64.
    pub(super) total: usize,
    /// The maximum number of files of a request.
    pub(super) count: usize,
}

pub(super) struct Kind {
    pub(super) media_types: &'static [&'static str],
    /// The maximum size of one file in bytes of base64.
    pub(super) most: usize,
}

/// The image types that most vendors accept.
pub(super) const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
pub(super) const DOCUMENTS: &[&str] = &["application/pdf"];
const ALIASES: &[(&str, &str)] =
    &[("image/jpg", "image/jpeg"), ("image/pjpeg", "image/jpeg"), ("image/x-png", "image/png")];

/// The reason for leaving out a file that the server rejected.
const REFUSED: &str = "the model's API refused it";

/// The way in which a file is sent.
enum Verdict<'a> {
    /// As a part of the text.
    Inline(&'a str),
    /// As a file of this media type.
    Sent(String),
    /// The file is not sent, for this reason.
    Not(String),
}

impl Takes {
    fn verdict<'a>(&self, file: &'a Attachment) -> Verdict<'a> {
        if let Some(text) = file.text() {
            return Verdict::Inline(text);
        }
        let claimed = file.essence();
        let claimed =
            ALIASES.iter().find(|(alias, _)| *alias == claimed).map_or(claimed, |(_, name)| (*name).into());
        let detected = media_type_of(&file.data);
        let knows_beginning = PICTURES.contains(&claimed.as_str()) || DOCUMENTS.contains(&claimed.as_str());
        let actual = match detected {
            Some(detected) if knows_beginning || self.kind(detected).is_some() => detected.to_owned(),
            None if knows_beginning => return Verdict::Not(format!("its bytes are not `{claimed}`")),
            _ => claimed,
        };
        match self.kind(&actual) {
            None => Verdict::Not(format!("the model's API does not accept `{actual}`")),
            Some(kind) if encoded(file) > kind.most.min(self.total) => Verdict::Not(format!(
                "the model's API accepts at most {} bytes",
                kind.most.min(self.total) / 4 * 3
            )),
            Some(_) => Verdict::Sent(actual),
        }
    }

    pub(super) fn sends(&self, file: &Attachment) -> bool {
        matches!(self.verdict(file), Verdict::Sent(_))
    }

    /// Returns the reason for not sending `file`, according to the vendor's documentation; `None` if it is sent.
    pub(super) fn refusal(&self, file: &Attachment) -> Option<String> {
        match self.verdict(file) {
            Verdict::Not(why) => Some(why),
            Verdict::Inline(_) | Verdict::Sent(_) => None,
        }
    }

    fn kind(&self, media_type: &str) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.media_types.contains(&media_type))
    }

    /// Returns the index of the first file, by these sizes, that is sent. The oldest files are omitted in strides
    /// of a quarter of the limit: a provider's prompt cache ends at the first change.
    fn first_sent(&self, sizes: &[usize]) -> usize {
        let by_bytes = first_within(self.total, sizes.iter().copied());
        let by_count = first_within(self.count, sizes.iter().map(|_| 1));
        by_bytes.max(by_count)
    }
}

/// Returns the first index from which on `sizes` sum up to at most `most`. The index moves only after the sizes
/// have grown by a quarter of `most`.
fn first_within(most: usize, sizes: impl Iterator<Item = usize> + Clone) -> usize {
    let (total, number) = (sizes.clone().sum::<usize>(), sizes.clone().count());
    if total <= most {
        return 0;
    }
    let stride = (most / 4).max(1);
    let over = (total - most).div_ceil(stride) * stride;
    let mut before = 0;
    let left_out = sizes.take_while(|size| {
        let is_left_out = before < over;
        before += size;
        is_left_out
    });
    // The last file is within `most` by itself.
    left_out.count().min(number.saturating_sub(1))
}

/// Returns the size of a file in bytes of base64.
fn encoded(file: &Attachment) -> usize {
    file.data.len().div_ceil(3) * 4
}

/// A file with its place in the conversation.
#[derive(Clone, Copy)]
pub(super) struct Anchored<'m> {
    /// The id of the call, or the text of the prompt, that the file belongs to.
    pub(super) anchor: &'m str,
    pub(super) file: &'m Attachment,
}

/// Returns the conversation with only the accepted files; text files move into the text, and each other file
/// becomes a line. `is_refused`: the server is known to reject the file.
pub(super) fn fit<'m>(
    messages: &'m [Message],
    takes: &Takes,
    is_refused: &dyn Fn(&Anchored<'_>) -> bool,
) -> Cow<'m, [Message]> {
    let verdict = |file: &Anchored<'m>| match takes.verdict(file.file) {
        Verdict::Sent(_) if is_refused(file) => Verdict::Not(REFUSED.into()),
        verdict => verdict,
    };
    let mut all = messages.iter().flat_map(files).peekable();
    if all.peek().is_none() {
        return Cow::Borrowed(messages);
    }
    let sent = all.filter(|file| matches!(verdict(file), Verdict::Sent(_)));
    let sizes: Vec<usize> = sent.map(|file| encoded(file.file)).collect();
    let mut fitting = Fitting { verdict: &verdict, left_out: takes.first_sent(&sizes) };
    Cow::Owned(messages.iter().map(|message| fitting.message(message)).collect())
}

pub(super) fn files(message: &Message) -> Box<dyn Iterator<Item = Anchored<'_>> + '_> {
    match message {
        Message::User(prompt) => {
            Box::new(prompt.attachments.iter().map(|file| Anchored { anchor: &prompt.text, file }))
        }
        Message::Turn(exchange) => Box::new(exchange.answered().flat_map(|(requested, result)| {
            result.attachments.iter().map(|file| Anchored { anchor: &requested.call.id, file })
        })),
    }
}

/// Walks the files of a conversation, oldest first.
struct Fitting<'v, 'm> {
    verdict: &'v dyn Fn(&Anchored<'m>) -> Verdict<'m>,
    /// The number of acceptable files that are still to be omitted.
    left_out: usize,
}

impl<'m> Fitting<'_, 'm> {
    fn message(&mut self, message: &'m Message) -> Message {
        match message {
            Message::User(prompt) => {
                let (text, attachments) = self.files(prompt.text.clone(), files(message), true);
                Message::User(Prompt { text, attachments })
            }
            Message::Turn(exchange) => {
                let answers: Vec<_> = exchange
                    .answered()
                    .map(|(requested, result)| self.answer(&requested.call.id, result))
                    .collect();
                Message::Turn(Exchange::new(exchange.reply().clone(), answers))
            }
        }
    }

    fn answer(&mut self, anchor: &'m str, result: &'m ToolResult) -> ToolResult {
        let files = result.attachments.iter().map(|file| Anchored { anchor, file });
        // The text of the answer mentions the files already.
        let (content, attachments) = self.files(result.content.clone(), files, false);
        ToolResult {
            content,
            attachments,
            is_error: result.is_error,
            structured: result.structured.clone(),
            mcp: None,
        }
    }

    /// Returns the text and the files that are sent with it. `mentions`: add a line for each file sent.
    fn files(
        &mut self,
        mut text: String,
        files: impl Iterator<Item = Anchored<'m>>,
        mentions: bool,
    ) -> (String, Vec<Attachment>) {
        let mut sent = Vec::new();
        for anchored in files {
            let file = anchored.file;
            match (self.verdict)(&anchored) {
                Verdict::Inline(content) => push_line(&mut text, &inline(file, content)),
                Verdict::Sent(_) if self.left_out > 0 => {
                    self.left_out -= 1;
                    push_line(&mut text, &not_shown(file, "later files take the available space"));
                }
                Verdict::Sent(media_type) => {
                    if mentions {
                        push_line(&mut text, &file.mention());
                    }
                    sent.push(Attachment { media_type, ..file.clone() });
                }
                Verdict::Not(why) => push_line(&mut text, &not_shown(file, &why)),
            }
        }
        (text, sent)
    }
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

fn not_shown(file: &Attachment, why: &str) -> String {
    format!("[not shown: {}: {why}]", file.described())
}

/// Returns the text of a file, enclosed in a tag.
fn inline(file: &Attachment, text: &str) -> String {
    let is_plain = |c: &char| !c.is_control() && !matches!(c, '"' | '<' | '>');
    let clean = |text: &str| text.chars().filter(is_plain).collect::<String>();
    let attribute = match &file.name {
        Some(name) => format!("name=\"{}\"", clean(name)),
        None => format!("type=\"{}\"", clean(&file.media_type)),
    };
    format!("<file {attribute}>\n{}\n</file>", enclosed(text.trim_end_matches('\n'), "file"))
}

#[cfg(test)]
mod tests;
