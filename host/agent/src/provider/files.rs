//! Which files a vendor is shown, and what stands for the others. A vendor says what it [`Takes`]; what is left of a
//! conversation after [`fit`] goes out as it is. Refuses to send what is known to be refused: one such file in a
//! conversation would fail every request from then on.

use std::borrow::Cow;

use haft_core::call::{Attachment, ToolResult, media_type_of};
use haft_core::report::enclosed;

use super::{Exchange, Message, Prompt};

/// The files that a vendor takes, by what it publishes.
pub(super) struct Takes {
    pub(super) kinds: &'static [Kind],
    /// Bytes of all files of a request at most, as they are sent: in base64.
    pub(super) total: usize,
    /// Files of a request at most.
    pub(super) count: usize,
}

/// Files of one kind.
pub(super) struct Kind {
    pub(super) media_types: &'static [&'static str],
    /// Bytes of one at most, in base64.
    pub(super) most: usize,
}

/// The pictures that most vendors take.
pub(super) const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Documents.
pub(super) const DOCUMENTS: &[&str] = &["application/pdf"];
/// Other names of media types.
const ALIASES: &[(&str, &str)] =
    &[("image/jpg", "image/jpeg"), ("image/pjpeg", "image/jpeg"), ("image/x-png", "image/png")];

/// Why a file is not shown that its server refused.
const REFUSED: &str = "the model's API refused it";

/// What becomes of a file.
enum Verdict<'a> {
    /// Its text is a part of the text.
    Inline(&'a str),
    /// It is sent as what it is.
    Sent(String),
    /// It is not, and why.
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
        let told = media_type_of(&file.data);
        let knows_beginning = PICTURES.contains(&claimed.as_str()) || DOCUMENTS.contains(&claimed.as_str());
        let actual = match told {
            Some(told) if knows_beginning || self.kind(told).is_some() => told.to_owned(),
            None if knows_beginning => return Verdict::Not(format!("its bytes are no `{claimed}`")),
            _ => claimed,
        };
        match self.kind(&actual) {
            None => Verdict::Not(format!("the model's API takes no `{actual}`")),
            Some(kind) if encoded(file) > kind.most.min(self.total) => Verdict::Not(format!(
                "the model's API takes {} bytes at most",
                kind.most.min(self.total) / 4 * 3
            )),
            Some(_) => Verdict::Sent(actual),
        }
    }

    /// Whether `file` is sent as what it is.
    pub(super) fn sends(&self, file: &Attachment) -> bool {
        matches!(self.verdict(file), Verdict::Sent(_))
    }

    /// Why `file` is not sent, by what the vendor publishes; `None` where it is.
    pub(super) fn refusal(&self, file: &Attachment) -> Option<String> {
        match self.verdict(file) {
            Verdict::Not(why) => Some(why),
            Verdict::Inline(_) | Verdict::Sent(_) => None,
        }
    }

    fn kind(&self, media_type: &str) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.media_types.contains(&media_type))
    }

    /// The first of files of these sizes that is sent. The oldest are left out, in strides of a quarter of what is
    /// taken: what providers have cached ends where they are.
    fn first_sent(&self, sizes: &[usize]) -> usize {
        let by_bytes = first_within(self.total, sizes.iter().copied());
        let by_count = first_within(self.count, sizes.iter().map(|_| 1));
        by_bytes.max(by_count)
    }
}

/// The first of some `sizes` from which on they are within `most`, such that it stays where it is while they grow by
/// a quarter of that.
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
    // The last is within `most` by itself.
    left_out.count().min(number.saturating_sub(1))
}

/// Bytes of a file in base64.
fn encoded(file: &Attachment) -> usize {
    file.data.len().div_ceil(3) * 4
}

/// A file in its place in a conversation.
#[derive(Clone, Copy)]
pub(super) struct Anchored<'m> {
    /// The id of the call that it answers, or the prompt that it came with.
    pub(super) anchor: &'m str,
    pub(super) file: &'m Attachment,
}

/// The conversation with only the files that are taken, and a line for each of the others; what is text is in the text.
/// `is_refused`: the server is known to refuse a file.
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

/// The files of a message.
pub(super) fn files(message: &Message) -> Box<dyn Iterator<Item = Anchored<'_>> + '_> {
    match message {
        Message::User(said) => {
            Box::new(said.attachments.iter().map(|file| Anchored { anchor: &said.text, file }))
        }
        Message::Turn(exchange) => Box::new(exchange.answered().flat_map(|(requested, result)| {
            result.attachments.iter().map(|file| Anchored { anchor: &requested.call.id, file })
        })),
    }
}

/// The files of a conversation, from the oldest on.
struct Fitting<'v, 'm> {
    verdict: &'v dyn Fn(&Anchored<'m>) -> Verdict<'m>,
    /// How many of those that could be sent are still to be left out.
    left_out: usize,
}

impl<'m> Fitting<'_, 'm> {
    fn message(&mut self, message: &'m Message) -> Message {
        match message {
            Message::User(said) => {
                let (text, attachments) = self.files(said.text.clone(), files(message), true);
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
        // Its text mentions the files already.
        let (content, attachments) = self.files(result.content.clone(), files, false);
        ToolResult { content, attachments, is_error: result.is_error, structured: result.structured.clone() }
    }

    /// The text and the files that are sent with it. `mentions`: with a line for each that is.
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
                    push_line(&mut text, &not_shown(file, "later files take the room that there is"));
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

/// A file that is text, told from what is around it.
fn inline(file: &Attachment, text: &str) -> String {
    let is_plain = |c: &char| !c.is_control() && !matches!(c, '"' | '<' | '>');
    let clean = |text: &str| text.chars().filter(is_plain).collect::<String>();
    let what = match &file.name {
        Some(name) => format!("name=\"{}\"", clean(name)),
        None => format!("type=\"{}\"", clean(&file.media_type)),
    };
    format!("<file {what}>\n{}\n</file>", enclosed(text.trim_end_matches('\n'), "file"))
}

#[cfg(test)]
mod tests;
