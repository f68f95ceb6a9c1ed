//! WASI for a guest, restricted to its grant: files, network, HTTP, environment, standard streams.

pub(crate) mod capability;
pub(crate) mod config;
pub(crate) mod disk_budget;
pub(crate) mod environment;
pub(crate) mod files;
pub(crate) mod http;
pub(crate) mod keyvalue;
pub(crate) mod network;
pub(crate) mod stdio;

/// Rust types of the drafts of WASI that plugins may import, made by wasmtime of `host/plugin/wit`. `--trace` shows no
/// call for the configuration: its answers may be secrets of any length.
pub(crate) mod drafts {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "kept",
        imports: {
            "wasi:config/store.get": async | trappable,
            "wasi:config/store.get-all": async | trappable,
            default: async | trappable | tracing,
        },
        with: { "wasi:keyvalue/store.bucket": crate::wasi::keyvalue::Bucket },
    });
}
