//! What program.toml says of a caller, with what it names read and resolved.

use std::path::PathBuf;

use haft_manifest::JwtAlgorithm;
use secrecy::SecretString;

/// A caller.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What it is called; unique.
    pub name: String,
    /// How it shows who it is.
    pub proof: Proof,
    /// Calls in a minute; `None`: any number.
    pub calls_per_minute: Option<u32>,
    /// Calls at the same time; `None`: any number.
    pub calls_at_once: Option<u32>,
}

/// How a caller shows who it is.
#[derive(Clone, Debug)]
pub enum Proof {
    /// By this token.
    Token(SecretString),
    /// By a JSON Web Token of this kind.
    Jwt(JwtRule),
}

/// Which JSON Web Tokens are a caller's.
#[derive(Clone, Debug)]
pub struct JwtRule {
    /// What `iss` has to be.
    pub issuer: String,
    /// What has to be in `aud`.
    pub audience: String,
    /// Where the issuer's keys are.
    pub keys: KeySource,
    /// The algorithms that count.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The only values of `sub`; empty: all.
    pub subjects: Vec<String>,
    /// What has to be in `scope`.
    pub scopes: Vec<String>,
}

/// Where public keys are (RFC 7517).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// At this address: `https`, or a port of this machine.
    Url(String),
    /// In this file.
    File(PathBuf),
}
