//! Rust types of `wit/`, made by wasmtime. Holds nothing written by hand.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "plugin",
    exports: { default: async },
    ownership: Borrowing { duplicate_if_necessary: false },
});
