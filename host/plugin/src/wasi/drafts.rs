//! Rust types of the drafts of WASI that plugins may import, made by wasmtime of `host/plugin/wit`. Holds nothing written
//! by hand. `--trace` shows no call for the configuration: its answers may be secrets of any length.

wasmtime::component::bindgen!({
    path: "wit",
    world: "kept",
    imports: {
        "wasi:config/store.get": async | trappable,
        "wasi:config/store.get-all": async | trappable,
        default: async | trappable | tracing,
    },
    with: { "wasi:keyvalue/store.bucket": crate::wasi::keyvalue::bucket::Bucket },
});
