//! Who calls a server that tells its callers apart: by a token of each, or by JSON Web Tokens that an authorization server
//! issued (RFC 6750, RFC 9068). Says who it is and whether one more call is within its quota; what a caller may do is
//! decided elsewhere.
//!
//! - [`Rule`]: what program.toml says of a caller, its secret read.
//! - [`Callers`]: [`Callers::recall`] answers at once for a token that is known, [`Callers::verify`] for any.
//! - [`Caller`]: who it is, and its quota.

mod caller;
mod callers;
mod denied;
mod jwt;
mod keys;
mod quota;
mod rule;
mod tokens;
mod verified;

pub use self::caller::Caller;
pub use self::callers::{Callers, RuleError};
pub use self::denied::Denied;
pub use self::quota::{CallPermit, Exhausted};
pub use self::rule::{JwtRule, KeySource, Proof, Rule};
