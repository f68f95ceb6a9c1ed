//! Rust types of `wit/`, made by wasmtime. Holds nothing written by hand.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "plugin",
    imports: { default: tracing },
    exports: { default: async },
    ownership: Borrowing { duplicate_if_necessary: false },
});
