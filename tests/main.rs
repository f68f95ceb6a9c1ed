//! haft's integration tests: one binary, since every one of them links wasmtime.

mod common;
mod plugin;
