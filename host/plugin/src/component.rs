//! A component's file: its source, its sections, its compiled code and the tools it lists, both cached on disk; the
//! tools of a built-in one are recorded when it is built.

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
