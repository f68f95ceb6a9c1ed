//! Remembers, within this process, the files that a server rejected for a model, and does not send them to that model
//! again. A rejection seldom names one of several files. Because it costs nothing, the files are omitted one after the
//! other.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::super::Message;
use super::super::error::Failure;
use super::super::files::{Anchored, Takes, files};
use haft_core::sync::Lock;

/// The maximum number of files of a request that are omitted singly; beyond that, all new files are omitted.
const MAX_SINGLE: usize = 4;
/// The maximum number of remembered files: more than a session sends.
const MAX_KNOWN: usize = 10_000;

/// A hash of a model and of a file with its place in the conversation.
type Key = u64;

#[derive(Debug, Default)]
pub(super) struct RefusedFiles {
    known: Lock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    refused: BTreeSet<Key>,
    taken: BTreeSet<Key>,
    /// Models that accept no files.
    blind: BTreeSet<String>,
}

/// The search for the rejected file of one request.
#[derive(Debug, Default)]
pub(super) struct Search {
    model: String,
    /// Every file of the conversation, with its description.
    all: Vec<(Key, String)>,
    /// The files omitted from the current attempt.
    left_out: BTreeSet<Key>,
    /// The files omitted from the first attempt.
    before: BTreeSet<Key>,
    /// The sets of files to leave out next, last first.
    candidates: Vec<BTreeSet<Key>>,
    /// The first rejection.
    refusal: Option<Failure>,
    is_blind: bool,
}

impl RefusedFiles {
    /// Starts a request of `messages` to `model`; `takes`: the files that the vendor accepts.
    pub(super) fn search(&self, model: &str, messages: &[Message], takes: &Takes) -> Search {
        let known = self.known.lock();
        let key = |file: Anchored<'_>| (key(model, &file), file.file.described());
        let sent = messages.iter().flat_map(files).filter(|file| takes.sends(file.file));
        let all: Vec<_> = sent.map(key).collect();
        let is_blind = known.blind.contains(model);
        let is_left_out = |key: &Key| is_blind || known.refused.contains(key);
        let left_out: BTreeSet<_> = all.iter().map(|(key, _)| *key).filter(is_left_out).collect();
        let before = left_out.clone();
        Search { model: model.to_owned(), all, left_out, before, is_blind, ..Search::default() }
    }

    /// Handles `failure`; returns whether to try again with fewer files.
    pub(super) fn refuse(&self, search: &mut Search, failure: &Failure) -> bool {
        if !failure.may_be_about_files() {
            return false;
        }
        if search.refusal.is_none() {
            search.candidates = self.candidates(search, failure);
            search.refusal = Some(failure.clone());
            search.is_blind = failure.says_no_files();
        }
        let next = search.candidates.pop();
        let has_next = next.is_some();
        search.left_out = next.unwrap_or_else(|| search.before.clone());
        has_next
    }

    /// Returns the sets of files that may be omitted, last first.
    fn candidates(&self, search: &Search, failure: &Failure) -> Vec<BTreeSet<Key>> {
        let known = self.known.lock();
        let shown = || search.all.iter().map(|(key, _)| *key).filter(|key| !search.left_out.contains(key));
        let with = |keys: &mut dyn Iterator<Item = Key>| {
            search.left_out.iter().copied().chain(keys).collect::<BTreeSet<_>>()
        };
        let new: Vec<_> = shown().filter(|key| !known.taken.contains(key)).collect();
        let mut candidates = vec![with(&mut shown())];
        if !failure.says_no_files() {
            candidates.push(with(&mut new.iter().copied()));
            let one_by_one = failure.names_files() && new.len() > 1;
            let newest = new.len().saturating_sub(MAX_SINGLE);
            let single = new.iter().skip(newest).filter(|_| one_by_one);
            candidates.extend(single.map(|key| with(&mut std::iter::once(*key))));
        }
        candidates.dedup();
        candidates.retain(|left_out| left_out.len() > search.left_out.len());
        candidates
    }

    /// Learns from a successful request; returns a note for the user if further files were omitted, with the
    /// reason.
    pub(super) fn answered(&self, search: &Search) -> Option<String> {
        let mut known = self.known.lock();
        if known.refused.len() + known.taken.len() > MAX_KNOWN {
            *known = Known::default();
        }
        let (refused, taken): (Vec<_>, Vec<_>) =
            search.all.iter().partition(|(key, _)| search.left_out.contains(key));
        known.taken.extend(taken.into_iter().map(|(key, _)| *key));
        if search.is_blind && search.left_out != search.before {
            known.blind.insert(search.model.clone());
        }
        let new = refused.iter().filter(|(key, _)| known.refused.insert(*key));
        let names: Vec<_> = new.map(|(_, name)| name.as_str()).collect();
        let why = search.refusal.as_ref().map_or_else(|| "takes no files".into(), ToString::to_string);
        (!names.is_empty())
            .then(|| format!("not shown to the model: {} (its server {why})", names.join(", ")))
    }
}

impl Search {
    pub(super) fn leaves_out(&self, file: &Anchored<'_>) -> bool {
        !self.left_out.is_empty() && self.left_out.contains(&key(&self.model, file))
    }

    /// Returns the failure to report: the first rejection if `last` is about files too.
    pub(super) fn failure(&self, last: Failure) -> Failure {
        self.refusal.clone().filter(|_| last.may_be_about_files()).unwrap_or(last)
    }
}

fn key(model: &str, file: &Anchored<'_>) -> Key {
    let mut hasher = DefaultHasher::new();
    (model, file.anchor, &file.file.data).hash(&mut hasher);
    hasher.finish()
}
