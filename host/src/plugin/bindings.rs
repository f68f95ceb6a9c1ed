//! Rust types of `wit/`, made by wasmtime. Holds nothing written by hand.

#![expect(missing_docs, reason = "generated; `wit/plugin.wit` documents every item")]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "plugin",
    exports: { default: async },
});
