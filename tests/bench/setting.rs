//! The settings of a benchmark, read from the environment.

use serde_json::Value;

/// The parameters of a call, from an environment variable.
pub(crate) fn setting(variable: &str) -> Option<Value> {
    std::env::var(variable).ok().map(|call| serde_json::from_str(&call).unwrap())
}
