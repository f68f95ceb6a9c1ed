//! Responds to the requests of a case's tool: each request of the case must be made exactly once, in any order,
//! and no other request.

use std::io::{self, Read};
use std::path::Path;

use anyhow::Context;
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::case::{Case, Http};
use haft_core::sync::Lock;
use haft_plugin_host::{CannedResponse, OutgoingRequest, Responder};

/// Limit on the reported unexpected requests.
const MAX_UNEXPECTED: usize = 10;

/// Limit on the bytes of a body in a file: the limit of guests.
const MAX_BODY: u64 = 256 << 20;

/// The responses of a case.
pub(super) struct Replies(Lock<State>);

struct State {
    /// The responses that were not requested yet.
    waiting: Vec<(Http, Vec<u8>)>,
    unexpected: Vec<String>,
}

impl Replies {
    /// Reads the responses of `case`; bodies in files are below `tests`.
    pub(super) fn new(case: &Case, tests: &Path) -> anyhow::Result<Self> {
        let of_http = |http: &Http| match &http.body_file {
            None => Ok(http.body.clone().into_bytes()),
            Some(file) => {
                body(tests, file).with_context(|| format!("cannot read `{}` below `tests`", file.display()))
            }
        };
        let waiting = case.http.iter().map(|http| Ok((http.clone(), of_http(http)?)));
        let waiting = waiting.collect::<anyhow::Result<_>>()?;
        Ok(Self(Lock::new(State { waiting, unexpected: Vec::new() })))
    }

    /// Returns the differences from the expected requests.
    pub(super) fn complaints(&self) -> Vec<String> {
        let state = self.0.lock();
        let unexpected = state
            .unexpected
            .iter()
            .map(|asked| format!("it asked for `{asked}`, which the test does not answer"));
        let waiting = state.waiting.iter().map(|(http, _)| format!("it did not ask for `{}`", http.request));
        unexpected.chain(waiting).collect()
    }
}

/// Reads a body from a file, which must be inside `tests`.
fn body(tests: &Path, file: &Path) -> io::Result<Vec<u8>> {
    let opened = Dir::open_ambient_dir(tests, ambient_authority())?.open(file)?;
    if opened.metadata()?.len() > MAX_BODY {
        return Err(io::Error::other(format!("it has more than {} MiB", MAX_BODY >> 20)));
    }
    let mut bytes = Vec::new();
    opened.take(MAX_BODY).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Responder for Replies {
    fn respond(&self, asked: OutgoingRequest) -> Option<CannedResponse> {
        let mut state = self.0.lock();
        let request = format!("{} {}", asked.method, asked.url);
        let sent = |part: &String| String::from_utf8_lossy(&asked.body).contains(part.as_str());
        let is_meant = |http: &Http| http.request == request && http.sent.as_ref().is_none_or(sent);
        let Some(index) = state.waiting.iter().position(|(http, _)| is_meant(http)) else {
            if state.unexpected.len() < MAX_UNEXPECTED {
                state.unexpected.push(request);
            }
            return None;
        };
        let (http, body) = state.waiting.remove(index);
        Some(CannedResponse { status: http.status, headers: http.headers.into_iter().collect(), body })
    }
}
