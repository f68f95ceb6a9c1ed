//! Why somebody is not let in, in words that say nothing of what would have been let in.

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nothing was shown that could say who it is.
    #[error("expected `Authorization: Bearer` and a token of this server")]
    Missing,
    /// It is nobody's.
    #[error("this token is not taken here: {0}")]
    Invalid(&'static str),
    /// It is somebody's who may not call here.
    #[error("this token does not have the scope `{}` that calls here take", .0.join(" "))]
    Scope(Vec<String>),
    /// It cannot be told now.
    #[error("the keys of the authorization server cannot be had at the moment; try again later")]
    Unavailable,
}
