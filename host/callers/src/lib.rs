//! The callers of a server: each is identified by a token, or by JSON Web Tokens of an authorization server (RFC
//! 6750, RFC 9068). Identifies a caller and checks its quota. Other crates decide its rights.
//!
//! - [`Rule`]: the settings of a caller in program.toml, with its secret read.
//! - [`Callers`]: [`Callers::recall`] answers at once for a known token, [`Callers::verify`] for any token.
//! - [`Caller`]: the identity of a caller, and its quota.

mod caller;
mod callers;
mod jwt;
mod keys;
mod quota;

use std::path::PathBuf;

use secrecy::SecretString;

pub use self::caller::{Caller, Denied};
pub use self::callers::{Callers, RuleError};
pub use self::quota::{CallPermit, Exhausted};
use haft_manifest::JwtAlgorithm;

/// A caller.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The unique name.
    pub name: String,
    /// The identification of the caller.
    pub proof: Proof,
    /// The limit of calls a minute; `None`: no limit.
    pub calls_per_minute: Option<u32>,
    /// The limit of concurrent calls; `None`: no limit.
    pub calls_at_once: Option<u32>,
}

/// The identification of a caller.
#[derive(Clone, Debug)]
pub enum Proof {
    /// By this token.
    Token(SecretString),
    /// By a JSON Web Token that satisfies this rule.
    Jwt(JwtRule),
}

/// The JSON Web Tokens of a caller.
#[derive(Clone, Debug)]
pub struct JwtRule {
    /// The required value of `iss`.
    pub issuer: String,
    /// The required value in `aud`.
    pub audience: String,
    /// The location of the issuer's keys.
    pub keys: KeySource,
    /// The accepted algorithms.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The accepted values of `sub`; empty: all.
    pub subjects: Vec<String>,
    /// The required values in `scope`.
    pub scopes: Vec<String>,
}

/// The location of public keys (RFC 7517).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// A URL: `https`, or a loopback address.
    Url(String),
    /// A file.
    File(PathBuf),
}
