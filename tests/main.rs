//! haft's integration tests: one binary, because each test binary links wasmtime; one module for each topic.

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

mod acp;
mod act;
mod agent;
mod agents;
mod ahead;
mod attach;
mod authoring;
mod backends;
mod bash;
mod cache;
mod child_secrets;
mod cli;
mod closed;
mod command;
mod command_later;
mod command_plugin;
mod common;
mod completions;
mod components;
mod confine;
mod consent;
mod debugging;
mod disk;
mod doctor;
mod egress;
mod escape;
mod examples;
mod fetch;
mod files;
mod folder;
mod guest;
mod guidance;
mod hint_keys;
mod hints;
mod hooks;
mod hostile;
mod http;
mod import;
mod inline;
mod inspect;
mod journal;
mod kept;
mod learn;
mod library;
mod manifest;
mod many;
mod mcp;
mod mcp_component;
mod mcp_real;
mod nats;
mod offers;
mod packages;
mod page;
mod paths;
mod patterns;
mod pins;
mod plugin;
mod process_grants;
mod promises;
mod providers;
mod proxy;
mod readme;
mod reference;
mod refused;
mod registry;
mod reuse;
mod rights;
mod rules;

mod sealed;
mod search;
mod secrets;
mod serve;
mod services;
mod sessions;
mod skill_servers;
mod slow;
mod streaming;
mod style;
mod telemetry;
mod terminal;
mod tidy;
mod time;
mod tiny;
mod trace;
mod trust;
mod typed;
mod verbs;
mod wassette;
mod web;
mod words;
mod workspace;
mod wrap;
