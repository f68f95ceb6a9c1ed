//! macOS: Seatbelt, which is always there.

use crate::confine::layers::Layers;

/// Seatbelt alone.
pub(super) fn offered() -> Layers {
    Layers { seatbelt: true, ..Layers::NONE }
}
