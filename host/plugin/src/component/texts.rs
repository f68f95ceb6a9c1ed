//! The bounds of what a plugin says of anything that it lists.

/// Characters of a description; the longest in use are some thousands.
pub(crate) const MAX_DESCRIPTION: usize = 16_000;

/// Characters of a title, which stands in a list.
pub(crate) const MAX_TITLE: usize = 200;
