//! A set of secrets, and their redaction in texts. Never shows the secrets, and withholds a text that it could not
//! search.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, packed};
use secrecy::{ExposeSecret, SecretString};

use super::{MIN_SECRET, REDACTED, encodings_of};
use crate::sync::Lock;

/// Redacts the known secrets in texts. Clones share the secrets.
///
/// A secret that was cut off is recognised too, by its first or last sixteen bytes (fewer if it is shorter than
/// 32): many texts were shortened before they reach haft.
#[derive(Clone, Default)]
pub struct Redactor(Arc<Lock<Arc<Known>>>);

#[derive(Default)]
pub(super) struct Known {
    /// Every encoding of every secret.
    encodings: Vec<String>,
    /// The beginnings and ends of the encodings, two for each; `None` if they could not be compiled.
    edges: Option<AhoCorasick>,
    /// Finds the first of the edges with vector instructions; `None` if they are too many, or the processor has none.
    first_edge: Option<packed::Searcher>,
    /// The first bytes of the encodings, in order.
    firsts: Vec<u8>,
    /// The length of the longest encoding, in bytes.
    longest: usize,
}

/// The number of bytes at either end that identify a long secret. A shorter part of a cut secret may remain.
const EDGE: usize = 16;

/// The number of bytes for a shorter secret: many secrets begin with a word (`password-…`), which should stay
/// readable.
const MIN_EDGE: usize = 12;

impl Redactor {
    /// Redacts `secrets` from now on.
    pub fn add<'a>(&self, secrets: impl IntoIterator<Item = &'a SecretString>) {
        let new: BTreeSet<String> = secrets
            .into_iter()
            .map(ExposeSecret::expose_secret)
            .filter(|text| text.trim().len() >= MIN_SECRET)
            .flat_map(encodings_of)
            .collect();
        let mut known = self.0.lock();
        if !new.iter().all(|form| known.encodings.contains(form)) {
            *known = Arc::new(Known::new(new.into_iter().chain(known.encodings.iter().cloned()).collect()));
        }
    }

    /// Returns whether there are no secrets.
    pub(crate) fn is_empty(&self) -> bool {
        self.known().encodings.is_empty()
    }

    /// Replaces every secret in `text` by `***`.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let known = self.known();
        let secrets = known.secrets(text.as_bytes());
        if secrets.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(known.without(text, &secrets)) }
    }

    /// Redacts an owned text, and returns it unmodified if it holds no secret.
    pub fn redact_owned(&self, text: String) -> String {
        match self.redact(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => clean,
        }
    }

    /// Replaces every secret in `bytes` by `***`.
    pub fn redact_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        let secrets = self.known().secrets(&bytes);
        if secrets.is_empty() { bytes } else { replaced(&bytes, 0, &secrets, false) }
    }

    pub(super) fn known(&self) -> Arc<Known> {
        self.0.lock().clone()
    }
}

impl Known {
    fn new(encodings: BTreeSet<String>) -> Self {
        let encodings: Vec<String> = encodings.into_iter().collect();
        let edges = encodings.iter().flat_map(|form| {
            let length = edge(form);
            let (head, tail) = (form.as_bytes().get(..length), form.as_bytes().get(form.len() - length..));
            [head.unwrap_or_default(), tail.unwrap_or_default()]
        });
        let different: BTreeSet<&[u8]> = edges.clone().collect();
        let first_edge = packed::Searcher::new(different);
        let edges = AhoCorasick::new(edges).ok();
        let firsts: BTreeSet<u8> = encodings.iter().filter_map(|form| form.bytes().next()).collect();
        let longest = encodings.iter().map(String::len).max().unwrap_or(0);
        Self { edges, first_edge, firsts: firsts.into_iter().collect(), longest, encodings }
    }

    /// Returns the ranges of secrets in `text`, in order and without overlaps.
    pub(super) fn secrets(&self, text: &[u8]) -> Vec<Range<usize>> {
        if self.encodings.is_empty() || text.len() < MIN_SECRET {
            return Vec::new();
        }
        let Some(edges) = &self.edges else { return std::iter::once(0..text.len()).collect() };
        if self.first_edge.as_ref().is_some_and(|searcher| searcher.find(text).is_none()) {
            return Vec::new();
        }
        let mut found = Vec::new();
        // The compared length for each encoding, so that a repetitive text is not compared again from every
        // repetition.
        let mut followed = vec![0; edges.patterns_len()];
        for edge in edges.find_overlapping_iter(text) {
            let pattern = edge.pattern().as_usize();
            let (Some(form), Some(followed)) = (self.encodings.get(pattern / 2), followed.get_mut(pattern))
            else {
                continue;
            };
            let range = if pattern.is_multiple_of(2) {
                if edge.start() < *followed {
                    continue;
                }
                edge.start()..edge.start() + alike(text.iter().skip(edge.start()), form.as_bytes().iter())
            } else {
                let before = text.get(*followed..edge.end()).unwrap_or_default();
                edge.end() - alike(before.iter().rev(), form.as_bytes().iter().rev())..edge.end()
            };
            *followed = range.end;
            found.push(range);
        }
        joined(found)
    }

    /// Returns the offset where a secret may begin that the end of `text` cuts off.
    pub(super) fn beginning(&self, text: &[u8]) -> usize {
        let from = text.len().saturating_sub(self.longest.saturating_sub(1));
        let begins = |at: &usize| {
            let rest = text.get(*at..).unwrap_or_default();
            rest.first().is_some_and(|first| self.firsts.contains(first))
                && self.encodings.iter().any(|form| form.as_bytes().starts_with(rest))
        };
        (from..text.len()).find(begins).unwrap_or(text.len())
    }

    /// Returns `text` with the ranges `secrets` replaced.
    pub(super) fn without(&self, text: &str, secrets: &[Range<usize>]) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut from = 0;
        for secret in secrets {
            // A piece of a secret may end within a character.
            let (start, end) = (text.floor_char_boundary(secret.start), text.ceil_char_boundary(secret.end));
            clean.push_str(text.get(from..start.max(from)).unwrap_or_default());
            clean.push_str(REDACTED);
            from = end;
        }
        clean.push_str(text.get(from..).unwrap_or_default());
        clean
    }
}

/// Returns the number of bytes at either end that identify an encoding.
fn edge(form: &str) -> usize {
    match form.len() {
        length if length < EDGE => length,
        length => (length / 2).clamp(MIN_EDGE, EDGE),
    }
}

/// Returns the length of the common prefix.
fn alike<'a>(first: impl Iterator<Item = &'a u8>, second: impl Iterator<Item = &'a u8>) -> usize {
    first.zip(second).take_while(|(first, second)| first == second).count()
}

/// Returns `bytes` from `from` on with `***` in place of the ranges `secrets`, or with `*` in place of each of their bytes.
fn replaced(bytes: &[u8], mut from: usize, secrets: &[Range<usize>], keeps_length: bool) -> Vec<u8> {
    let mut clean = Vec::with_capacity(bytes.len());
    for secret in secrets {
        if secret.end <= from {
            continue;
        }
        clean.extend_from_slice(bytes.get(from..secret.start).unwrap_or_default());
        let stars = if keeps_length { secret.end - secret.start.max(from) } else { REDACTED.len() };
        clean.resize(clean.len() + stars, b'*');
        from = secret.end;
    }
    clean.extend_from_slice(bytes.get(from..).unwrap_or_default());
    clean
}

/// Sorts ranges, and merges those that touch.
fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

// Redacts a text that arrives in pieces. Delays the end of a piece that may be the beginning of a secret.

/// Redacts a text that arrives in pieces, including secrets that are split between them.
#[derive(Debug)]
pub struct Stream {
    redactor: Redactor,
    /// The possible beginning of a secret; at most twice the length of the longest.
    held: String,
}

impl Stream {
    /// Redacts the secrets of `redactor`.
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, held: String::new() }
    }

    /// Returns the text up to the possible beginning of an incomplete secret.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let known = self.redactor.known();
        let mut cut = known.beginning(self.held.as_bytes());
        let mut secrets = known.secrets(self.held.as_bytes());
        // A secret across the cut is withheld completely.
        while let Some(last) = secrets.pop_if(|last| last.end > cut) {
            cut = cut.min(self.held.floor_char_boundary(last.start));
        }
        let rest = self.held.split_off(cut);
        known.without(&std::mem::replace(&mut self.held, rest), &secrets)
    }

    /// Returns the withheld text, at the end.
    pub fn finish(&mut self) -> String {
        self.redactor.redact_owned(std::mem::take(&mut self.held))
    }
}

/// Redacts bytes that come in pieces, including secrets that are split between them.
#[derive(Debug)]
pub struct ByteStream {
    redactor: Redactor,
    /// Whether the bytes keep their number.
    keeps_length: bool,
    /// The possible beginning of a secret; at most twice the length of the longest.
    held: Vec<u8>,
    /// The number of held bytes that were released. The rest of their secret is replaced nevertheless.
    released: usize,
}

impl ByteStream {
    /// Replaces the secrets of `redactor` by `***`, or each of their bytes by `*` if the bytes keep their number.
    pub fn new(redactor: Redactor, keeps_length: bool) -> Self {
        Self { redactor, keeps_length, held: Vec::new(), released: 0 }
    }

    /// Returns the bytes up to the possible beginning of an incomplete secret: those of `piece` itself if they are
    /// unchanged.
    pub fn push<'p>(&mut self, piece: &'p [u8]) -> Cow<'p, [u8]> {
        let bytes = if self.held.is_empty() {
            Cow::Borrowed(piece)
        } else {
            self.held.extend_from_slice(piece);
            Cow::Owned(std::mem::take(&mut self.held))
        };
        let known = self.redactor.known();
        let mut cut = known.beginning(&bytes);
        let mut secrets = known.secrets(&bytes);
        // A secret across the cut is withheld completely.
        while let Some(last) = secrets.pop_if(|last| last.end > cut) {
            cut = cut.min(last.start);
        }
        self.held = bytes.get(cut..).unwrap_or_default().to_vec();
        let from = self.released.min(cut);
        self.released -= from;
        match bytes {
            _ if !secrets.is_empty() => {
                replaced(bytes.get(..cut).unwrap_or_default(), from, &secrets, self.keeps_length).into()
            }
            Cow::Borrowed(piece) => piece.get(..cut).unwrap_or_default().into(),
            Cow::Owned(mut bytes) => {
                bytes.truncate(cut);
                bytes.drain(..from);
                bytes.into()
            }
        }
    }

    /// Returns whether the bytes keep their number.
    pub fn keeps_length(&self) -> bool {
        self.keeps_length
    }

    /// Returns whether so few bytes are withheld that they may be an ordinary word.
    pub fn withholds_word(&self) -> bool {
        self.released < self.held.len() && self.held.len() < MIN_EDGE
    }

    /// Returns the withheld bytes before the end.
    pub fn release(&mut self) -> Vec<u8> {
        let secrets = self.redactor.known().secrets(&self.held);
        let clean = replaced(&self.held, self.released, &secrets, self.keeps_length);
        self.released = self.held.len();
        clean
    }

    /// Returns the withheld bytes, at the end.
    pub fn finish(&mut self) -> Vec<u8> {
        let rest = self.release();
        self.held.clear();
        self.released = 0;
        rest
    }
}

#[cfg(test)]
mod tests;
