//! The MCP server: a program's tools for other people's clients, on standard input and output or
//! over HTTP.
//!
//! - [`Offer`] and [`Publisher`]: what is served, and what comes in its place.
//! - [`stdio::serve`]: one client. [`http::Server`]: any number.
//!
//! Both protocol eras are spoken: sessions opened by `initialize` (2024-11-05 to 2025-11-25) and
//! requests that bring everything along (2026-07-28). It refuses to be a second door: calls go
//! through the toolbox and nowhere else.

mod answer;
mod bounds;
mod calls;
mod handler;
pub mod http;
mod lines;
mod listing;
mod offer;
mod person;
mod questions;
mod random;
pub mod stdio;
mod telling;

pub use self::offer::{About, Offer, Offers, PATIENCE, Publisher};
pub use self::questions::Questions;
