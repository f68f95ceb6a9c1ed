//! What a guest was refused: noted as it happens, told as a hint that names the line of program.toml, and in the journal.

pub(crate) mod denied_access;
pub(crate) mod grant_place;
pub(crate) mod hints;
pub(crate) mod journal_notes;
pub(crate) mod network_decisions;
