//! Why a caller is denied, in messages that reveal nothing about accepted tokens.

/// Why a caller is denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The request has no token.
    #[error("expected `Authorization: Bearer` and a token of this server")]
    Missing,
    /// No caller has the token.
    #[error("this token is not taken here: {0}")]
    Invalid(&'static str),
    /// The caller lacks a required scope.
    #[error("this token does not have the scope `{}` that calls here take", .0.join(" "))]
    Scope(Vec<String>),
    /// The token cannot be verified now.
    #[error("the keys of the authorization server cannot be had at the moment; try again later")]
    Unavailable,
}
