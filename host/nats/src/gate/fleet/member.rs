//! A worker as a gate knows it: its places and its tools.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_manifest::Label;
use tokio_util::sync::CancellationToken;

use super::{Wanted, token};
use crate::message::{Beat, Known};
use crate::subjects::definition;

/// The wait before a worker is asked for its tools again.
const ASKED_AGAIN: Duration = Duration::from_millis(400);

pub(super) struct Member {
    /// The labels that the server permits the worker, and `ANY` if it permits that.
    pub(super) labels: HashSet<String>,
    pub(super) places: u32,
    /// The number of places used by other gates, as the worker last reported.
    pub(super) others: u32,
    /// The number of this gate's calls at the worker.
    pub(super) own: u32,
    /// Whether the worker reported that it is full: it gets no call before its next message.
    pub(super) is_full: bool,
    pub(super) is_leaving: bool,
    pub(super) tools: Option<Arc<Offered>>,
    /// The worker's revision number of its tools.
    pub(super) revision: u64,
    pub(super) asked: Option<Instant>,
    pub(super) seen: Instant,
    pub(super) taken: u64,
    pub(super) gone: CancellationToken,
}

/// The tool list of one or several workers.
pub(super) struct Offered {
    /// The SHA-256 of the text.
    pub(super) digest: [u8; 32],
    /// The size of the text in bytes.
    pub(super) size: usize,
    /// The tools by name; the newest of a name first.
    pub(super) tools: HashMap<String, Vec<Known>>,
}

impl Offered {
    /// Parses `text`, whose digest is known. Skips a tool with a wrong digest: workers vote by digests.
    pub(super) fn read(text: &[u8], digest: [u8; 32]) -> Option<Self> {
        let mut tools: HashMap<String, Vec<Known>> = HashMap::new();
        for tool in serde_json::from_slice::<Vec<Known>>(text).ok()? {
            if tool.definition == definition(&tool.definition_of(), tool.component.as_deref()) {
                tools.entry(tool.def.name.clone()).or_default().push(tool);
            }
        }
        Some(Self { digest, size: text.len(), tools })
    }
}

impl Member {
    pub(super) fn new(beat: &Beat) -> Self {
        Self {
            labels: HashSet::new(),
            places: beat.places,
            others: 0,
            own: 0,
            is_full: false,
            is_leaving: false,
            tools: None,
            revision: 0,
            asked: None,
            seen: Instant::now(),
            taken: 0,
            gone: CancellationToken::new(),
        }
    }

    pub(super) fn heard(&mut self, beat: &Beat) {
        self.places = beat.places;
        self.others = beat.busy.saturating_sub(self.own);
        self.is_full = beat.busy >= beat.places;
        self.is_leaving = beat.leaving;
        self.seen = Instant::now();
    }

    pub(super) fn busy(&self) -> u32 {
        self.own.saturating_add(self.others)
    }

    pub(super) fn has_place(&self) -> bool {
        !self.is_full && self.busy() < self.places
    }

    /// Returns whether the worker must be asked for its tools of this `revision`; if so, records that it is asked.
    pub(super) fn is_to_be_asked(&mut self, revision: u64) -> bool {
        let is_known = self.tools.is_some() && self.revision == revision;
        let is_due = self.asked.is_none_or(|asked| asked.elapsed() > ASKED_AGAIN);
        if is_known || !is_due {
            return false;
        }
        self.asked = Some(Instant::now());
        true
    }

    /// Returns the index of the first of the labels `on` that the worker has.
    pub(super) fn label(&self, on: &[Label]) -> Option<usize> {
        on.iter().position(|label| self.labels.contains(token(label)))
    }

    /// Returns the index of the label under which the worker offers the wanted tool, and whether calls of it only
    /// read.
    pub(super) fn offers(&self, wanted: &Wanted) -> Option<(usize, bool)> {
        if self.is_leaving {
            return None;
        }
        let label = self.label(&wanted.on)?;
        let mut all = self.tools.as_ref()?.tools.get(&wanted.tool)?.iter();
        let known = all.find(|known| known.definition == wanted.definition)?;
        Some((label, known.reads))
    }
}
