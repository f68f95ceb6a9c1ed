//! Looking into a component's file without running any of it: what it exports and imports, what it
//! is made of and what it says of itself. Judges nothing.

use crate::contract::Contract;
use crate::contract::dispatch::detect_contract;
use crate::failure::LoadError;

pub use crate::component::sections::{
    Custom, Extern, Kind, Producer, Sections as Look, SectionsError as LookError,
};
pub use crate::contract::act::{ActMetadata, Asked};

impl Look {
    /// The contract that the component keeps, or why no tool can come of it.
    pub fn contract(&self) -> Result<Contract, LoadError> {
        let offered = self.exports.iter().filter(|one| matches!(one.kind, Kind::Interface | Kind::Function));
        detect_contract(&offered.map(|one| one.name.as_str()).collect::<Vec<_>>())
    }
}

/// Looks into the bytes of a component.
pub fn look(bytes: &[u8]) -> Result<Look, LookError> {
    crate::component::sections::read(bytes)
}
