//! The size of a list of tools in a prompt, and the tools for a model if not all of them fit: the first ones that
//! fit, and two tools that find and call the others. Every tool of the box stays callable.

use std::sync::{Arc, LazyLock};

use super::toolbox::{Offered, Toolbox};
use super::{generic, search};
use crate::call::ToolDef;

/// Rough number of bytes of JSON per token, for every vendor's tokenizer.
const BYTES_PER_TOKEN: usize = 4;

/// Returns the number of bytes of JSON that a definition adds to a prompt.
pub fn bytes(def: &ToolDef) -> usize {
    serde_json::to_string(def).map_or(0, |text| text.len())
}

/// Returns the rough number of tokens in `bytes` bytes.
pub fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

impl Toolbox {
    /// Returns these tools with a list for models that fits `budget`, in rough tokens.
    ///
    /// If not all tools fit, models get the first ones in order, and two tools that reach the others: `find_tools`
    /// and `program`. These two are included even if the budget is too small for them.
    #[must_use]
    pub fn within(&self, budget: u32) -> Self {
        let room = usize::try_from(budget).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
        let costs: Vec<usize> = self.entries().map(|entry| bytes(entry.def())).collect();
        if costs.iter().sum::<usize>() <= room {
            return self.listing(None);
        }
        let search = search::entry(&self.entries);
        let mut taken = bytes(search.def()) + bytes(&generic::DEF);
        let fits = |cost: &&usize| {
            taken += **cost;
            taken <= room
        };
        let first = costs.iter().take_while(fits).count();
        self.listing(Some(Offered { first, search: Arc::new(search) }))
    }

    /// Returns these tools with a list for models of at most `most` tools: `find_tools` finds the others, as in
    /// [`within`](Self::within).
    #[must_use]
    pub fn at_most(self, most: usize) -> Self {
        if self.offered().len() <= most {
            return self;
        }
        let search = Arc::new(search::entry(&self.entries));
        self.listing(Some(Offered { first: most.saturating_sub(2), search }))
    }

    /// Returns these tools with the list `offered` for models; `None`: all tools.
    pub(super) fn listing(&self, offered: Option<Offered>) -> Self {
        let mut same = self.clone();
        same.offered = offered;
        same
    }

    /// Returns the tools that models are offered, in order, each with its origin.
    pub fn offered(&self) -> Vec<(&ToolDef, &str)> {
        let first = self.offered.as_ref().map_or(usize::MAX, |offered| offered.first);
        let mut shown: Vec<_> =
            self.entries().take(first).map(|entry| (entry.def(), entry.origin())).collect();
        if let Some(offered) = &self.offered {
            shown.push((offered.search.def(), offered.search.origin()));
            shown.push((LazyLock::force(&generic::DEF), generic::ORIGIN));
        }
        shown
    }

    /// Returns the number of tools that models are not offered.
    pub fn unlisted(&self) -> usize {
        self.offered.as_ref().map_or(0, |offered| self.entries.len() - offered.first)
    }
}

#[cfg(test)]
pub(super) mod tests;
