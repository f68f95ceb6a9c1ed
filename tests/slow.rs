//! Tests about time itself: guests that spin, timeouts of silent peers, released memory, latency, fair shares of
//! the processor. They run in `.ci/nightly`, one at a time:
//! `cargo test --locked --test haft-tests slow:: -- --ignored --test-threads=1`.
//!
//! No result is an absolute time: each is a ratio within one run, or the best of three.

mod backends;
mod calls;
mod exec;
mod fetch;
mod hanging_up;
mod mcp;
mod memory;
mod nats;
mod parsing;
mod pieces;
mod providers;
mod reading;
mod shares;
mod spinning;
