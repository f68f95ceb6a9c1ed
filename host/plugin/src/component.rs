//! A component's file: its source, its sections, its compiled code and its tools. Code and tools are cached on
//! disk; the tools of a built-in component are recorded at build time.

pub(crate) mod adapt;
pub(crate) mod bounds;
pub(crate) mod cache;
pub(crate) mod compile;
pub(crate) mod discover;
pub mod inspect;
pub(crate) mod listing;
pub(crate) mod offered;
pub(crate) mod sections;
pub(crate) mod source;
