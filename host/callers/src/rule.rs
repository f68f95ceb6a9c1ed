//! The settings of a caller in program.toml, with secrets read and paths resolved.

use std::path::PathBuf;

use haft_manifest::JwtAlgorithm;
use secrecy::SecretString;

/// A caller.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The unique name.
    pub name: String,
    /// How the caller is identified.
    pub proof: Proof,
    /// The limit of calls a minute; `None`: no limit.
    pub calls_per_minute: Option<u32>,
    /// The limit of concurrent calls; `None`: no limit.
    pub calls_at_once: Option<u32>,
}

/// How a caller is identified.
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
