//! What a guest was refused: recorded as it happens, then shown as hints that name the line of program.toml to change,
//! and written to the journal.

pub(crate) mod access;
pub(crate) mod denied_access;
pub(crate) mod grant_place;
pub(crate) mod hints;
pub(crate) mod journal_notes;
pub(crate) mod network_decisions;
