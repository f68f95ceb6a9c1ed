//! What a denied path was to be used for, and what keeps it closed.

/// What a refused path was to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AccessKind {
    Read,
    Write,
}

/// The level of protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protection {
    /// It may be read, not written.
    ReadOnly,
    /// It may be neither read nor written.
    Hidden,
}
