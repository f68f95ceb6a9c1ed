//! haft's integration tests: one binary, since every one of them links wasmtime; one module a topic.

#![allow(
    clippy::expect_used,
    clippy::format_collect,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a helper of tests may fail a test; `clippy.toml` says so only of the tests themselves"
)]

mod agent;
mod bash;
mod cache;
mod cli;
mod command;
mod common;
mod components;
mod confine;
mod doctor;
mod escape;
mod fetch;
mod files;
mod guest;
mod hostile;
mod http;
mod journal;
mod manifest;
mod plugin;
mod rights;
mod search;
mod secrets;
mod serve;
mod tidy;
mod time;
mod tiny;
mod web;
mod workspace;
