//! Looking into a component's file without running any of it: what it exports and imports, what it
//! is made of and what it says of itself. Judges nothing.

use crate::contract::Contract;
use crate::contract::dispatch::detect_contract;
use crate::failure::LoadError;

pub use crate::component::sections::{Custom, Extern, ExternKind, Producer, Sections, SectionsError};
pub use crate::contract::act::{ActMetadata, Asked};

impl Sections {
    /// The contract that the component keeps, or why no tool can come of it.
    pub fn contract(&self) -> Result<Contract, LoadError> {
        let offered = self
            .exports
            .iter()
            .filter(|one| matches!(one.kind, ExternKind::Interface | ExternKind::Function));
        detect_contract(&offered.map(|one| one.name.as_str()).collect::<Vec<_>>())
    }
}

/// Looks into the bytes of a component.
pub fn read_sections(bytes: &[u8]) -> Result<Sections, SectionsError> {
    crate::component::sections::read(bytes)
}
