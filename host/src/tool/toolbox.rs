//! The box of tools.
