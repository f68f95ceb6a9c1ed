//! Functions of every WIT type, which know nothing of tools.

#[allow(
    clippy::allow_attributes_without_reason,
    clippy::panic,
    clippy::pedantic,
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unused_qualifications,
    reason = "generated"
)]
mod bindings;
mod counters;
mod files;
mod values;

use bindings::exports::test::types::lands;

/// The component.
struct Types;

/// What the component exports.
#[allow(clippy::allow_attributes_without_reason, unsafe_code, reason = "generated")]
mod exported {
    use super::{Types, bindings};

    bindings::export!(Types with_types_in bindings);
}

impl bindings::Guest for Types {
    fn greet(name: String) -> String {
        format!("good day, {name}")
    }
}

impl lands::Guest for Types {
    fn area(country: String) -> Option<u32> {
        (country == "Iceland").then_some(103_000)
    }
}
