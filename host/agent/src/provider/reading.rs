//! Reads a streamed answer as it comes. Pure: it is handed bytes and told events, and does not know
//! where the ones come from and the others go.

use serde_json::Value;

use super::body;
use super::dialect::{Dialect, Fold, Piece};
use super::error::Failure;
use haft_core::event::{Event, Events};
use haft_core::json::PairJoiner;
use haft_core::net::{Frames, TooLong};
use haft_core::secret::Redactor;

/// 64 MiB: streamed, every few letters come in a frame of some hundred bytes. The longest turn of any
/// model is 40 MB like that.
const MAX_STREAM: usize = 64 << 20;
/// 8 MiB: some vendors send a picture, or a whole turn, as one frame.
const MAX_FRAME: usize = 8 << 20;
/// Bytes at the beginning that a message may show of a stream without a single frame.
const START: usize = 200;

/// What OpenAI ends its streams with, and many others after it.
const END: &[u8] = b"[DONE]";

/// A streamed answer so far.
pub(super) struct Reading<'a> {
    frames: Frames,
    pairs: PairJoiner,
    fold: Box<dyn Fold>,
    redactor: &'a Redactor,
    events: &'a Events,
    bytes: usize,
    start: Vec<u8>,
    has_frames: bool,
    is_over: bool,
}

impl<'a> Reading<'a> {
    pub(super) fn new(dialect: &dyn Dialect, redactor: &'a Redactor, events: &'a Events) -> Self {
        Self {
            frames: Frames::new(dialect.framing(), MAX_FRAME),
            pairs: PairJoiner::default(),
            fold: dialect.fold(),
            redactor,
            events,
            bytes: 0,
            start: Vec::new(),
            has_frames: false,
            is_over: false,
        }
    }

    /// Adds a piece of the body, and tells what it says.
    pub(super) fn take(&mut self, piece: &[u8]) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(piece.len());
        if self.bytes > MAX_STREAM {
            return Err(Failure::TooLarge(MAX_STREAM));
        }
        self.start.extend(piece.iter().take(START.saturating_sub(self.start.len())));
        let mut frames = Vec::new();
        let cut = self.frames.push(piece, &mut frames);
        self.fold(frames)?;
        cut.map_err(|TooLong| Failure::TooLarge(MAX_FRAME))
    }

    /// Whether there is nothing more to wait for.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether what is there is a whole answer, should nothing more come.
    pub(super) fn is_complete(&self) -> bool {
        self.is_over || self.fold.is_complete()
    }

    /// Takes note that the end of the body was reached.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        let mut frames = Vec::new();
        self.frames.finish(&mut frames);
        // The rest of a frame that was cut off is no reason to complain of its form.
        match self.fold(frames) {
            Err(Failure::Malformed(_)) if self.has_frames => {}
            folded => folded?,
        }
        if !self.has_frames {
            return Err(body::unreadable("no event in the stream", &self.clean_start()));
        }
        if !self.is_complete() {
            return Err(Failure::Interrupted("the stream ended in the middle of the answer".into()));
        }
        Ok(())
    }

    /// The body, or what there is of it.
    pub(super) fn into_body(self) -> Value {
        self.fold.body()
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
        let (frame, mut pieces) = (&*self.pairs.join(frame), Vec::new());
        let folded = body::parse(frame).and_then(|value| self.fold.take(value, &mut pieces));
        for piece in pieces {
            self.emit(piece);
        }
        folded.map_err(|failure| {
            // Complaints quote the beginning of something: what they leave of a key would no longer
            // be recognised, so they are made again about a frame without keys.
            let clean = self.redactor.redact(&String::from_utf8_lossy(frame)).into_owned();
            let again =
                body::parse(clean.as_bytes()).and_then(|value| self.fold.take(value, &mut Vec::new()));
            again.err().unwrap_or(failure)
        })
    }

    fn emit(&self, piece: Piece) {
        match piece {
            Piece::Text(text) | Piece::Thought(text) if text.is_empty() => {}
            Piece::Text(text) => self.events.emit(|| Event::Said(text)),
            Piece::Thought(text) => self.events.emit(|| Event::Thought(text)),
        }
    }

    fn clean_start(&self) -> Vec<u8> {
        self.redactor.redact(&String::from_utf8_lossy(&self.start)).into_owned().into_bytes()
    }
}
