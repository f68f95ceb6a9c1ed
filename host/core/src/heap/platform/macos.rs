//! macOS: nothing is dropped.

/// Does nothing: the system drops what is not used.
pub(super) fn let_go_of_code() {}
