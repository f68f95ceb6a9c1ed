//! HTTP for tools: sequential requests over `wasi:http`, each with a time limit, and its response as a
//! stream. The component's host checks every request, also of each redirect, against the rights of the
//! tool.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use haft_plugin::http::{self, Request};
//!
//! fn status() -> Result<String, haft_plugin::Error> {
//!     let request = Request::get("https://api.example.com/status")?
//!         .with_header("accept", "application/json")
//!         .within(Duration::from_secs(10));
//!     let response = http::follow(request, 5)?;
//!     let answer = response.read(64 << 10);
//!     Ok(String::from_utf8_lossy(&answer.bytes).into_owned())
//! }
//! ```
//!
//! Outside a component there is no network: [`send`] fails, and [`Response::for_tests`] makes a response
//! for tests.

mod body;
mod error;
mod redirect;
mod request;
#[cfg(target_family = "wasm")]
mod wire;

pub use self::body::{Bytes, Response};
pub use self::error::{Error, ErrorKind};
pub use self::redirect::follow;
pub use self::request::{Request, Timeouts, parse_url};
pub use url::Url;

/// Sends a request and waits for the head of its answer, whatever its status: redirects are not
/// followed, and a status of 404 is no error.
pub fn send(request: &Request) -> Result<Response, Error> {
    exchange(request, request.deadline())
}

#[cfg(target_family = "wasm")]
use self::wire::exchange;

#[cfg(not(target_family = "wasm"))]
fn exchange(_request: &Request, _deadline: std::time::Instant) -> Result<Response, Error> {
    Err(Error::new(ErrorKind::Other, "there is no network outside a component"))
}

#[cfg(test)]
mod tests;
