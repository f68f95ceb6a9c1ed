//! The part of a toolbox that models are told of, where a budget leaves no room for all of it. Data only;
//! `budget` decides what it holds.

use std::sync::Arc;

use super::entry::Entry;
use crate::call::ToolDef;

/// What models are told of where not everything fits.
#[derive(Clone)]
pub(super) struct Offered {
    /// How many tools, from the first on.
    pub(super) first: usize,
    /// Finds the others.
    pub(super) search: Arc<Entry>,
    /// Calls them.
    pub(super) generic: ToolDef,
}
