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

use secrecy::SecretString;

pub use self::caller::{CallPermit, Caller, Denied, Exhausted};
pub use self::callers::{Callers, RuleError};
use haft_manifest::JwtTable;

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
    /// By a JSON Web Token that satisfies this rule, whose key file is an absolute path.
    Jwt(JwtTable),
}
