//! Reads a response incrementally, as frames or as one body, regardless of its content type. Pure: takes bytes and
//! emits events, without access to the connection. Refuses JSON that would need far more memory than its size.

use std::io::{self, Write};

use serde_json::{Deserializer, Value};

use super::dialect::{Dialect, Fold, Piece};
use super::error::{Failure, excerpt};
use super::thoughts::Thoughts;
use flate2::write::MultiGzDecoder;
use haft_core::event::{Event, Events};
use haft_core::json::{PairJoiner, read, whole_characters};
use haft_core::net::{Frames, Framing, TooLong};
use haft_core::scan::Scan;
use haft_core::secret::Redactor;

/// 64 MiB: a streamed response has a frame of some hundred bytes for every few letters. The longest turn of any
/// model has 40 MB in this form.
const MAX_STREAM: usize = 64 << 20;
/// 16 MiB: ten times a turn of the longest output of any model.
const MAX_BODY: usize = 16 << 20;
/// 8 MiB: some vendors send a picture, or a complete turn, in one frame.
const MAX_FRAME: usize = 8 << 20;
/// The number of bytes at the start of a stream without frames that a message may show.
const START: usize = 200;

/// The maximum number of values in a body. A parsed value takes up to 100 bytes, even for a short text: a body of
/// brackets alone would take thirty times its size. The longest turns have some thousand values.
const MAX_VALUES: usize = 1 << 20;

/// The end marker of streams by OpenAI and many other servers.
const END: &[u8] = b"[DONE]";

pub(super) struct Reading<'a> {
    inflate: Inflate,
    framing: Framing,
    form: Form,
    pairs: PairJoiner,
    fold: Box<dyn Fold>,
    /// The body, if it was not streamed.
    whole: Option<Value>,
    redactor: &'a Redactor,
    events: &'a Events,
    thoughts: Thoughts,
    bytes: usize,
    start: Vec<u8>,
    has_frames: bool,
    is_over: bool,
}

/// The form of a response, detected from its start.
enum Form {
    /// Too few bytes have arrived.
    Unknown(Vec<u8>),
    Frames(Frames),
    /// JSON up to the end of the body.
    Body(Vec<u8>),
}

impl Form {
    /// Detects the form of a response that begins with `start`. `framing` is the framing of a streamed response.
    /// With `is_all` the response ends here.
    fn of(start: &[u8], framing: Framing, is_all: bool) -> Option<Self> {
        let text = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start).trim_ascii_start();
        let of_frames = |framing| Some(Self::Frames(Frames::new(framing, MAX_FRAME)));
        match text.first() {
            None if is_all => of_frames(Framing::Events),
            None => None,
            // A partial byte order mark.
            Some(0xEF) if start.len() < 3 && !is_all => None,
            Some(b'{' | b'[') if framing == Framing::Lines && !is_all => {
                // JSON that continues on the next line is a body.
                let end = text.iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
                let line = text.get(..end).unwrap_or_default();
                let is_line = serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
                if is_line { of_frames(framing) } else { Some(Self::Body(Vec::new())) }
            }
            Some(b'{' | b'[' | b'<') => Some(Self::Body(Vec::new())),
            Some(_) => of_frames(Framing::Events),
        }
    }
}

impl<'a> Reading<'a> {
    pub(super) fn new(dialect: &dyn Dialect, redactor: &'a Redactor, events: &'a Events) -> Self {
        Self {
            inflate: Inflate::default(),
            framing: dialect.api().framing,
            form: Form::Unknown(Vec::new()),
            pairs: PairJoiner::default(),
            fold: dialect.fold(),
            whole: None,
            redactor,
            events,
            thoughts: Thoughts::default(),
            bytes: 0,
            start: Vec::new(),
            has_frames: false,
            is_over: false,
        }
    }

    /// Adds a piece of the body, and emits its events.
    pub(super) fn take(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let taken = self.inflate.take(piece, MAX_STREAM.saturating_sub(self.bytes));
        let taken = taken.map_err(|failure| match failure {
            Failure::TooLarge(_) => Failure::TooLarge(MAX_STREAM),
            failure => failure,
        });
        let taken = taken.and_then(|piece| self.text(&piece));
        self.tolerate(taken)
    }

    fn text(&mut self, piece: &[u8]) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(piece.len());
        if self.bytes > MAX_STREAM {
            return Err(Failure::TooLarge(MAX_STREAM));
        }
        self.start.extend(piece.iter().take(START.saturating_sub(self.start.len())));
        self.piece(piece, false)
    }

    fn piece(&mut self, piece: &[u8], is_all: bool) -> Result<(), Failure> {
        match &mut self.form {
            Form::Unknown(start) => {
                // White space in front of a response, endless perhaps, is not looked at again with each piece.
                start.extend_from_slice(if start.is_empty() { piece.trim_ascii_start() } else { piece });
                let is_body = start.len() > MAX_BODY;
                let Some(form) = Form::of(start, self.framing, is_all || is_body) else { return Ok(()) };
                let start = std::mem::take(start);
                self.form = form;
                self.piece(&start, is_all)
            }
            Form::Body(body) if body.len() + piece.len() > MAX_BODY => Err(Failure::TooLarge(MAX_BODY)),
            Form::Body(body) => {
                body.extend_from_slice(piece);
                Ok(())
            }
            Form::Frames(cutter) => {
                let mut frames = Vec::new();
                let cut = cutter.push(piece, &mut frames);
                self.fold(frames)?;
                cut.map_err(|TooLong| Failure::TooLarge(MAX_FRAME))
            }
        }
    }

    /// Ignores a failure after a complete answer.
    fn tolerate(&mut self, taken: Result<(), Failure>) -> Result<(), Failure> {
        if taken.is_err() && self.fold.is_complete() {
            self.is_over = true;
            return Ok(());
        }
        taken
    }

    /// Returns whether no further piece is needed.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns whether the answer is complete if the response ends here.
    pub(super) fn is_complete(&self) -> bool {
        self.is_over || self.fold.is_complete()
    }

    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        if matches!(self.form, Form::Unknown(_)) {
            self.piece(b"", true)?;
        }
        let finished = match &mut self.form {
            Form::Body(body) => {
                let body = std::mem::take(body);
                return self.body(&body);
            }
            Form::Frames(cutter) => {
                let mut frames = Vec::new();
                cutter.finish(&mut frames);
                self.fold(frames)
            }
            Form::Unknown(_) => Ok(()),
        };
        // The rest of a frame that was cut off needs no message about its format.
        match self.tolerate(finished) {
            Err(Failure::Malformed(_)) if self.has_frames => {}
            folded => folded?,
        }
        if !self.has_frames {
            let start = self.redactor.redact(&String::from_utf8_lossy(&self.start)).into_owned();
            return Err(unreadable("no event in the stream", start.as_bytes()));
        }
        self.emit_rest();
        if !self.is_complete() {
            return Err(Failure::Interrupted("the stream ended in the middle of the answer".into()));
        }
        Ok(())
    }

    /// Reads a JSON body: the answer, or its frames in sequence.
    fn body(&mut self, body: &[u8]) -> Result<(), Failure> {
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
        // Error messages quote the start of the body: they are made from a redacted body.
        let clean = || parse_all(self.redactor.redact(&String::from_utf8_lossy(body)).as_bytes());
        let mut values = parse_all(body).or_else(|_| clean())?;
        if values.len() <= 1 && !values.iter().any(Value::is_array) {
            self.whole = values.pop();
            return Ok(());
        }
        for value in clean()? {
            let taken = self.value(value);
            self.tolerate(taken)?;
        }
        self.emit_rest();
        Ok(())
    }

    /// Returns the body received so far, and whether it was unstreamed.
    pub(super) fn into_body(self) -> (Value, bool) {
        match self.whole {
            Some(body) => (body, true),
            None => (self.fold.body(), false),
        }
    }

    fn fold(&mut self, frames: Vec<Vec<u8>>) -> Result<(), Failure> {
        for frame in frames {
            if self.is_over || frame.trim_ascii().is_empty() {
                continue;
            }
            self.is_over = frame.trim_ascii() == END;
            if !self.is_over {
                self.frame(&frame)?;
            }
            self.has_frames = true;
        }
        Ok(())
    }

    fn frame(&mut self, frame: &[u8]) -> Result<(), Failure> {
        let frame = &*self.pairs.join(frame);
        parse(frame).and_then(|value| self.value(value)).map_err(|failure| {
            // Error messages quote the start of the frame: a part of a key would no longer be recognised, so the
            // message is made again from a redacted frame.
            let clean = self.redactor.redact(&String::from_utf8_lossy(frame)).into_owned();
            let again = parse(clean.as_bytes()).and_then(|value| self.fold.take(value, &mut Vec::new()));
            again.err().unwrap_or(failure)
        })
    }

    fn value(&mut self, value: Value) -> Result<(), Failure> {
        let mut pieces = Vec::new();
        let folded = self.fold.take(value, &mut pieces);
        for piece in pieces {
            self.emit(piece);
        }
        self.is_over |= folded.is_ok() && self.fold.is_over();
        folded
    }

    fn emit(&mut self, piece: Piece) {
        let mut pieces = Vec::new();
        match piece {
            Piece::Text(text) => self.thoughts.take(&text, &mut pieces),
            thought @ Piece::Thought(_) => pieces.push(thought),
        }
        for piece in pieces {
            self.tell(piece);
        }
    }

    fn emit_rest(&mut self) {
        let rest = self.thoughts.finish();
        self.tell(rest);
    }

    fn tell(&self, piece: Piece) {
        match piece {
            Piece::Text(text) | Piece::Thought(text) if text.is_empty() => {}
            Piece::Text(text) => self.events.emit(|| Event::Said(text)),
            Piece::Thought(text) => self.events.emit(|| Event::Thought(text)),
        }
    }
}

pub(super) fn parse(bytes: &[u8]) -> Result<Value, Failure> {
    bound(bytes)?;
    read(bytes).map_err(|error| unreadable(&error.to_string(), bytes))
}

/// Parses all consecutive values in `bytes`: a body, or a stream without separators between its frames.
fn parse_all(bytes: &[u8]) -> Result<Vec<Value>, Failure> {
    bound(bytes)?;
    let all: Result<Vec<_>, _> = Deserializer::from_slice(&whole_characters(bytes)).into_iter().collect();
    // Reports the error of parsing a single value, in haft's wording.
    all.or_else(|_| read(bytes).map(|value| vec![value]))
        .map_err(|error| unreadable(&error.to_string(), bytes))
}

fn bound(bytes: &[u8]) -> Result<(), Failure> {
    let is_within = Scan::from_message(bytes).values <= MAX_VALUES;
    is_within.then_some(()).ok_or_else(|| Failure::Malformed(format!("more than {MAX_VALUES} values")))
}

/// Returns the failure for a body that is empty or no JSON.
fn unreadable(why: &str, bytes: &[u8]) -> Failure {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Failure::Empty("the body has no content".into());
    }
    let start = String::from_utf8_lossy(bytes.get(..200).unwrap_or(bytes));
    Failure::Malformed(format!("{why}; it begins with `{}`", excerpt(&start)))
}

const GZIP: &[u8] = &[0x1f, 0x8b];

/// A response that a server may have compressed without a request, as its first bytes show and its headers do not.
#[derive(Default)]
pub(super) enum Inflate {
    /// No byte has arrived.
    #[default]
    Unknown,
    /// Only the first byte of a possible gzip header has arrived.
    First,
    Plain,
    Packed(Box<MultiGzDecoder<Bounded>>),
}

/// A buffer with a size limit in bytes.
pub(super) struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Inflate {
    /// Decompresses the next piece to at most `most` bytes.
    pub(super) fn take(&mut self, piece: &[u8], most: usize) -> Result<Vec<u8>, Failure> {
        let mut piece = piece.to_vec();
        if matches!(self, Self::First) {
            piece.splice(0..0, GZIP.iter().take(1).copied());
            *self = Self::Unknown;
        }
        if matches!(self, Self::Unknown) {
            *self = match piece.as_slice() {
                [] => Self::Unknown,
                [first] if GZIP.first() == Some(first) => Self::First,
                start if start.starts_with(GZIP) => {
                    Self::Packed(Box::new(MultiGzDecoder::new(Bounded { bytes: Vec::new(), most })))
                }
                _ => Self::Plain,
            };
        }
        match self {
            Self::Plain => Ok(piece),
            Self::Unknown | Self::First => Ok(Vec::new()),
            Self::Packed(decoder) => {
                decoder.get_mut().most = most;
                let unpacked = decoder.write_all(&piece).and_then(|()| decoder.flush());
                let bytes = std::mem::take(&mut decoder.get_mut().bytes);
                match unpacked {
                    Ok(()) => Ok(bytes),
                    Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(Failure::TooLarge(most)),
                    Err(error) => {
                        Err(Failure::Malformed(format!("the compressed answer is damaged: {error}")))
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
