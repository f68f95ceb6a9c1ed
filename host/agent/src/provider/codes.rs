//! Classifies the errors of servers, by one table for statuses, bodies and streams: whether a retry may succeed,
//! after which wait, or whether the conversation is too long. Error codes take precedence over message texts.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::error::{Failure, Passing, excerpt};
use haft_core::net::retry_after;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// Equivalent to this HTTP status.
    Status(u16),
    /// The conversation is longer than the model's context window.
    TooLong,
}

use Code::{Status, TooLong};

/// The error codes of vendors and gateways. Gateways forward the codes of their upstream, so that one table is
/// sufficient.
const CODES: &[(&str, Code)] = &[
    // Context window exceeded: OpenAI, Anthropic, llama.cpp, LiteLLM.
    ("context_length_exceeded", TooLong),
    ("context_window_exceeded", TooLong),
    ("exceed_context_size_error", TooLong),
    ("model_context_window_exceeded", TooLong),
    ("request_too_large", TooLong),
    // OpenAI and servers of its formats.
    ("invalid_api_key", Status(401)),
    ("insufficient_quota", Status(402)),
    ("model_not_found", Status(404)),
    ("rate_limit_exceeded", Status(429)),
    ("tokens_exceeded_error", Status(429)),
    ("internal_error", Status(500)),
    ("internal_server_error", Status(500)),
    ("server_error", Status(500)),
    ("engine_overloaded", Status(503)),
    ("overloaded", Status(503)),
    ("server_is_overloaded", Status(503)),
    ("service_unavailable", Status(503)),
    ("service_unavailable_error", Status(503)),
    ("slow_down", Status(503)),
    ("unavailable", Status(503)),
    // Anthropic.
    ("invalid_request_error", Status(400)),
    ("authentication_error", Status(401)),
    ("billing_error", Status(402)),
    ("permission_error", Status(403)),
    ("not_found_error", Status(404)),
    ("rate_limit_error", Status(429)),
    ("api_error", Status(500)),
    ("timeout_error", Status(504)),
    ("overloaded_error", Status(529)),
    // Gemini: google.rpc.Code.
    ("INVALID_ARGUMENT", Status(400)),
    ("FAILED_PRECONDITION", Status(400)),
    ("UNAUTHENTICATED", Status(401)),
    ("PERMISSION_DENIED", Status(403)),
    ("NOT_FOUND", Status(404)),
    ("RESOURCE_EXHAUSTED", Status(429)),
    ("INTERNAL", Status(500)),
    ("UNAVAILABLE", Status(503)),
    ("DEADLINE_EXCEEDED", Status(504)),
    // Amazon Bedrock, behind gateways.
    ("ThrottlingException", Status(429)),
    ("ServiceQuotaExceededException", Status(429)),
    ("ModelNotReadyException", Status(429)),
    ("ServiceUnavailableException", Status(503)),
    ("ModelTimeoutException", Status(504)),
];

/// Texts of rate limits for errors without a code, in lower case.
const THROTTLED: &[&str] = &[
    "per minute",
    "please wait",
    "rate limit",
    "rate-limit",
    "requests per",
    "throttl",
    "tokens per",
    "too many requests",
];

/// Keys of a wait, with the number of seconds of one unit.
const WAITS: &[(&str, f64)] = &[
    ("retryDelay", 1.0),
    ("retry_after", 1.0),
    ("retry_after_seconds", 1.0),
    ("retry_after_ms", 0.001),
    ("Retry-After", 1.0),
];
/// Texts before a wait in a message.
const BEFORE_WAIT: &[&str] = &["try again in ", "retry in ", "retry after ", "retrying in "];
/// Prefixes of the units of a wait in a message, with the number of seconds of one unit.
const UNITS: &[(&str, f64)] = &[("ms", 0.001), ("milli", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
/// Keys that are searched for the details of an error.
const DETAILS: &[&str] = &["details", "error", "headers", "metadata", "response"];

impl Failure {
    /// Returns the failure for a response with this HTTP status and the message `text`.
    pub fn refused(status: u16, text: &str) -> Self {
        refusal(status, &Value::Null, text.to_owned())
    }
}

/// Returns the failure for a response with an error status, whose `body` holds the message `text`.
pub(super) fn refusal(status: u16, body: &Value, text: String) -> Failure {
    match meaning(Some(status), body, &text) {
        Meaning::TooLong => Failure::TooLong(text),
        Meaning::Code(code) => {
            Failure::Status { status, body: text.clone(), passing: passing(code), wait: wait(body, &text) }
        }
    }
}

/// Fails if `value`, a successful body, holds an `error`: gateways report upstream failures this way, and every
/// vendor does in the middle of a stream.
pub(super) fn reported_error(value: &Value) -> Result<(), Failure> {
    let error = match value.get("error") {
        None | Some(Value::Null) => return Ok(()),
        Some(error) => error,
    };
    let message = error.get("message").unwrap_or(error);
    let message = excerpt(&message.as_str().map_or_else(|| message.to_string(), str::to_owned));
    Err(match meaning(None, error, &message) {
        Meaning::TooLong => Failure::TooLong(message),
        Meaning::Code(code) => {
            let wait = wait(error, &message);
            Failure::Reported { code, message, passing: passing(code), wait }
        }
    })
}

enum Meaning {
    TooLong,
    /// The most exact status.
    Code(Option<u16>),
}

/// Reads codes before numbers, and numbers before texts: a text decides only if the code states no more than that
/// the request was rejected.
fn meaning(status: Option<u16>, error: &Value, text: &str) -> Meaning {
    let inner = error.get("error").filter(|inner| inner.is_object());
    let objects = [inner, Some(error)].into_iter().flatten();
    let number = objects.clone().find_map(number);
    let code = match objects.clone().find_map(name) {
        Some(TooLong) => return Meaning::TooLong,
        // The code of a general rejection is less exact than a number.
        Some(Status(400)) => status.or(number).or(Some(400)),
        Some(Status(code)) => Some(code),
        None => number.or(status),
    };
    if !matches!(code, None | Some(400 | 413 | 422 | 500)) {
        return Meaning::Code(code);
    }
    let text = text.to_lowercase();
    if THROTTLED.iter().any(|words| text.contains(words)) {
        return Meaning::Code(Some(429));
    }
    if super::too_long::says_so(&text) { Meaning::TooLong } else { Meaning::Code(code) }
}

fn name(error: &Value) -> Option<Code> {
    let keys = ["code", "type", "status", "error_type", "reason", "__type"].into_iter();
    let mut names = keys.filter_map(|key| error.get(key)?.as_str());
    let known = |name: &str| {
        let name = name.rsplit(['#', '.']).next().unwrap_or(name);
        CODES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code)
    };
    names.find_map(known)
}

fn number(error: &Value) -> Option<u16> {
    let values = ["code", "status"].into_iter().filter_map(|key| error.get(key));
    let numbers = values.filter_map(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
    numbers.filter_map(|number| u16::try_from(number).ok()).find(|number| (400..600).contains(number))
}

/// Returns the way in which an error of this status may end.
fn passing(code: Option<u16>) -> Option<Passing> {
    match code {
        // An error without a status arrives in the middle of an answer: the request was valid.
        None => Some(Passing::Unusable),
        Some(408 | 425 | 429 | 500 | 502..600) => Some(Passing::Unavailable),
        Some(_) => None,
    }
}

/// Returns the wait that an error requests, in its details or in its text.
pub(super) fn wait(error: &Value, text: &str) -> Option<Duration> {
    detail(error, 4).or_else(|| in_words(&text.to_lowercase()))
}

fn detail(error: &Value, depth: u32) -> Option<Duration> {
    let seconds =
        |value: &Value| value.as_f64().or_else(|| value.as_str()?.trim_end_matches('s').parse().ok());
    let read = |(key, unit): &(&str, f64)| {
        let value = error.get(key)?;
        let date = || retry_after(value.as_str()?, SystemTime::now());
        let number = seconds(value).and_then(|number| Duration::try_from_secs_f64(number * unit).ok());
        number.or_else(date)
    };
    let below = || {
        let inside = DETAILS.iter().filter_map(|key| error.get(key));
        let items = error.as_array().into_iter().flatten();
        inside.chain(items).find_map(|value| detail(value, depth - 1))
    };
    WAITS.iter().find_map(read).or_else(|| (depth > 0).then(below).flatten())
}

/// Parses a wait in a text: `Please try again in 1m2.5s.`
fn in_words(text: &str) -> Option<Duration> {
    let (_, mut rest) = BEFORE_WAIT.iter().find_map(|before| text.split_once(before))?;
    let mut total = None;
    loop {
        rest = rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(end)?;
        let Ok(number) = number.parse::<f64>() else { break };
        let after = after.trim_start();
        let Some((_, unit)) = UNITS.iter().find(|(name, _)| after.starts_with(name)) else { break };
        total = Some(total.unwrap_or(0.0) + number * unit);
        rest = after.trim_start_matches(char::is_alphabetic);
    }
    Duration::try_from_secs_f64(total?).ok()
}

#[cfg(test)]
mod tests;
