//! A component's file: where its bytes come from, what is in it, its compiled code and the tools it lists, with what
//! was found out kept on disk. Runs no call.

pub(crate) mod cache;
pub(crate) mod compile;
pub(crate) mod discover;
pub mod inspect;
pub(crate) mod listing;
pub(crate) mod nesting;
pub(crate) mod sections;
pub(crate) mod source;
