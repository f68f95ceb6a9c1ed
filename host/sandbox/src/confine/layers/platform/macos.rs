//! macOS: Seatbelt, which is always available.

use crate::confine::layers::Layers;

/// Returns Seatbelt alone.
pub(super) fn offered() -> Layers {
    Layers { seatbelt: true, ..Layers::NONE }
}
