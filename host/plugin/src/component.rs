//! A component's file: its source, its sections, its compiled code and its tools. Code and tools are cached on
//! disk; the tools of a built-in component are recorded at build time.

pub(crate) mod adapt;
pub(crate) mod bounds;
pub(crate) mod cache;
pub(crate) mod compile;
pub(crate) mod discover;
pub(crate) mod listing;
pub(crate) mod offered;
pub(crate) mod sections;
pub(crate) mod source;

use crate::contract::Contract;
use crate::contract::linked;
use crate::failure::LoadError;
use sections::{ExternKind, Sections};

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
        let kind = linked::kind(&exports.map(|one| one.name.as_str()).collect::<Vec<_>>())?;
        Ok(kind.contract)
    }
}
