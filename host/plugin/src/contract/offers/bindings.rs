//! Rust types of `wit/offers.wit`, made by wasmtime. Holds nothing written by hand.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "offering",
    exports: { default: async },
    ownership: Borrowing { duplicate_if_necessary: false },
});
