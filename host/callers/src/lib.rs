//! The callers of a server: each is identified by a token, or by JSON Web Tokens of an authorization server (RFC
//! 6750, RFC 9068). Identifies a caller and checks its quota; its rights are decided elsewhere.
//!
//! - [`Rule`]: the settings of a caller in program.toml, with its secret read.
//! - [`Callers`]: [`Callers::recall`] answers at once for a known token, [`Callers::verify`] for any token.
//! - [`Caller`]: the identity of a caller, and its quota.

mod caller;
mod callers;
mod jwt;
mod keys;
mod quota;
mod rule;
mod tokens;

pub use self::caller::{Caller, Denied};
pub use self::callers::{Callers, RuleError};
pub use self::quota::{CallPermit, Exhausted};
pub use self::rule::{JwtRule, KeySource, Proof, Rule};
