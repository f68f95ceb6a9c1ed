//! Functions of every WIT type, which do not know tools.

#[allow(clippy::pedantic, unsafe_code, reason = "generated")]
mod bindings {
    use super::Types;

    wit_bindgen::generate!({ path: "src/types.wit" });
    export!(Types with_types_in self);
}
mod counters;
mod files;
mod values;

use bindings::exports::test::types::lands;

/// The component.
struct Types;

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
