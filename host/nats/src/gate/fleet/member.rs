//! One worker, as a gate knows it: its places, and what it says of its tools.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_manifest::Label;
use tokio_util::sync::CancellationToken;

use super::{Wanted, token};
use crate::identity::definition;
use crate::message::{Beat, Known};

/// How soon a worker is asked again what it has.
const ASKED_AGAIN: Duration = Duration::from_millis(400);

pub(super) struct Member {
    /// Those that the server lets it have, and `ANY` where it lets it be any worker.
    pub(super) labels: HashSet<String>,
    pub(super) places: u32,
    /// Places that others use, as the worker told last.
    pub(super) others: u32,
    /// Calls that this gate has there.
    pub(super) own: u32,
    /// It said that it is full: no call goes there before it says something else.
    pub(super) is_full: bool,
    pub(super) is_leaving: bool,
    pub(super) tools: Option<Arc<Offered>>,
    /// Which of its tools these are, as it counts them.
    pub(super) revision: u64,
    pub(super) asked: Option<Instant>,
    pub(super) seen: Instant,
    pub(super) taken: u64,
    pub(super) gone: CancellationToken,
}

/// What one or several workers have.
pub(super) struct Offered {
    /// SHA-256 of the text.
    pub(super) digest: [u8; 32],
    /// Bytes of the text.
    pub(super) size: usize,
    /// By name; the newest of a name first.
    pub(super) tools: HashMap<String, Vec<Known>>,
}

impl Offered {
    /// What `text` says, whose digest is known. A tool under the digest of another one is none: workers vote by digests.
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

    /// Whether it is to be asked what it has: it counts its tools as `revision`. Then it is.
    pub(super) fn is_to_be_asked(&mut self, revision: u64) -> bool {
        let is_known = self.tools.is_some() && self.revision == revision;
        let is_due = self.asked.is_none_or(|asked| asked.elapsed() > ASKED_AGAIN);
        if is_known || !is_due {
            return false;
        }
        self.asked = Some(Instant::now());
        true
    }

    /// Which of the labels `on` is the first that it has.
    pub(super) fn label(&self, on: &[Label]) -> Option<usize> {
        on.iter().position(|label| self.labels.contains(token(label)))
    }

    /// Whether it has what is wanted: by which label, and whether that only reads.
    pub(super) fn offers(&self, wanted: &Wanted) -> Option<(usize, bool)> {
        if self.is_leaving {
            return None;
        }
        let label = self.label(&wanted.on)?;
        let mut all = self.tools.as_ref()?.tools.get(&wanted.tool)?.iter();
        let own = all.find(|own| own.definition == wanted.definition)?;
        Some((label, own.reads))
    }
}
