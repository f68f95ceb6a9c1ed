//! Reads a component's file without running it: its exports, imports, sections and metadata.

use crate::contract::Contract;
use crate::contract::linked::detect_contract;
use crate::failure::LoadError;

pub use crate::component::sections::{Custom, Extern, ExternKind, Producer, Sections, SectionsError};
pub use crate::contract::act::metadata::{ActMetadata, Asked};

impl Sections {
    /// Returns the contract of the component.
    ///
    /// # Errors
    /// The component exports nothing that could be a tool, or an unsupported version of a contract.
    pub fn contract(&self) -> Result<Contract, LoadError> {
        let exports = self
            .exports
            .iter()
            .filter(|one| matches!(one.kind, ExternKind::Interface | ExternKind::Function));
        detect_contract(&exports.map(|one| one.name.as_str()).collect::<Vec<_>>())
    }
}

/// Reads the sections of a component.
///
/// # Errors
/// `bytes` are malformed, a core module, or too many sections.
pub fn read_sections(bytes: &[u8]) -> Result<Sections, SectionsError> {
    crate::component::sections::read(bytes)
}
