//! `[serve]` and `[[serve.callers]]`: how many clients `haft serve --http` accepts, at which URL, and who may
//! call which tools.

use std::path::PathBuf;
use std::time::Duration;

use super::catalogue::Table;
use super::entry::{Entry, Located};
use super::name::Name;
use super::plugin::GrantTable;
use super::secret::SecretSource;
use super::section::Section;
use super::table::{FromTable, FromValue, choices, table};
use super::values::{URL, host_of};
use haft_core::net::is_loopback;
use haft_core::pattern::ToolPattern;
use haft_core::words;

table! {
    /// How many clients `haft serve --http` takes, and who they may be.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Serve = "[serve]" {
        // Of clients up to 2025-11-25: an idle one holds 1 to 2 KiB; at most more than a process has memory for.
        /// sessions at once; default 2048
        #[read(count 1..=1_000_000)]
        #[also("sessions")]
        pub max_sessions: u32 = 2048,
        // At least one for a client, and one for a connection that has not shown the token yet; at most more than a
        // process may have open.
        /// connections at once; default 8192
        #[read(count 2..=1_000_000)]
        #[also("connections", "max_clients", "clients")]
        pub max_connections: u32 = 8192,
        /// the public URL, such as `https://tools.example.org/mcp`; default from the `Host` of each request
        #[read(URL, Entry::url)]
        #[also("public_url", "base_url", "resource")]
        pub url: Option<String> = None,
        // Two checks of a balancer that asks every second, and some to spare; at most more than any balancer needs.
        /// how long `haft serve --http` accepts calls after a signal to end, while `/readyz` returns 503;
        /// applies if a balancer checks `/readyz` or calls are running; default `3s`, at most `600s`
        #[read(time Duration::ZERO..=Duration::from_mins(10))]
        #[also("drain_time", "grace", "lame_duck")]
        pub drain: Duration = Duration::from_secs(3),
        /// the callers and the tools of each; without callers, one token gives access to all tools
        #[read(Vec::<CallerTable>::KIND, callers)]
        #[also("caller", "users", "tokens", "auth")]
        pub callers: Vec<CallerTable> = Vec::new(),
    }
}

fn callers(entry: &Entry<'_>) -> Option<Vec<CallerTable>> {
    if entry.raw().as_array().is_some_and(|callers| callers.len() > CallerTable::MAX_CALLERS) {
        entry.reject::<()>(format!("at most {} callers are supported", CallerTable::MAX_CALLERS));
    }
    entry.tables("callers")
}

table! {
    /// A caller of `haft serve --http`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CallerTable = "[[serve.callers]]" {
        /// the caller's name in the journal
        #[also("id", "user")]
        pub name: Located<Name>,
        /// How it shows who it is.
        #[read(flatten)]
        pub proof: CallerProof,
        /// the tools of this caller; `["*"]`: all
        #[also("allowed_tools")]
        pub tools: Located<Vec<ToolPattern>>,
        /// the upper bound of the tools' rights for this caller; default no bound
        #[read(Kind::Table(&CALLER_GRANT), |entry| entry.located(|entry| entry.table::<GrantTable>(&CALLER_GRANT)))]
        #[also("rights", "permissions")]
        pub grant: Option<Located<GrantTable>> = None,
        // More than a server answers in a minute.
        /// default no limit
        #[read(count 1..=10_000_000)]
        #[also("rate", "rate_limit")]
        pub calls_per_minute: Option<u32> = None,
        // More than a server has places for.
        /// calls at once; default any number
        #[read(count 1..=100_000)]
        #[also("max_concurrent", "concurrency")]
        pub calls_at_once: Option<u32> = None,
    }
}

static CALLER_GRANT: Table = Table {
    header: "[serve.callers.grant]",
    doc: "The upper bound of the tools' rights for a caller. It only narrows their rights; a right that is \
        not listed is not allowed.",
    ..GrantTable::TABLE
};

/// The proof of identity of a caller.
#[derive(Clone, Debug, PartialEq)]
pub enum CallerProof {
    /// A token of its own.
    Token(SecretSource),
    /// A JSON Web Token that an authorization server issued for haft.
    Jwt(JwtTable),
}

table! {
    struct ProofKeys = "" {
        /// where its token is stored; this or `jwt`
        #[also("api_key", "secret", "key")]
        token: Option<SecretSource> = None,
        /// the JSON Web Tokens of this caller; this or `token`
        #[also("oauth", "oidc")]
        jwt: Option<JwtTable> = None,
    }
}

impl FromTable for CallerProof {
    const TABLE: Table = ProofKeys::TABLE;

    fn from_table(section: &Section<'_>) -> Option<Self> {
        let ProofKeys { token, jwt } = ProofKeys::from_table(section)?;
        if section.has("token") == section.has("jwt") {
            section.reject_whole("expected either a `token` or a `jwt`");
        }
        token.map(Self::Token).or(jwt.map(Self::Jwt))
    }
}

table! {
    /// Which JSON Web Tokens (access tokens of OAuth) are a caller's.
    #[derive(Clone, Debug, PartialEq)]
    pub struct JwtTable = "[serve.callers.jwt]" {
        /// the authorization server, exactly as in `iss`
        #[also("iss", "authority")]
        pub issuer: String,
        /// the value that `aud` must contain: this server
        #[also("aud")]
        pub audience: String,
        /// Where the public keys of the issuer are.
        #[read(flatten)]
        pub keys: KeysAt,
        // What authorization servers sign with unless they are told otherwise.
        /// the accepted signature algorithms; default `RS256`, `ES256` and `EdDSA`
        #[read(Vec::<JwtAlgorithm>::KIND, algorithms)]
        #[also("alg", "algs")]
        pub algorithms: Vec<JwtAlgorithm> = vec![JwtAlgorithm::RS256, JwtAlgorithm::ES256, JwtAlgorithm::EdDSA],
        /// the accepted values of `sub`; default all
        #[also("sub", "subject")]
        pub subjects: Vec<String> = Vec::new(),
        /// the required scopes; default none
        #[read(Vec::<String>::KIND, |entry| entry.list(scope))]
        #[also("scope", "scp")]
        pub scopes: Vec<String> = Vec::new(),
    }
}

/// The location of public keys (RFC 7517).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeysAt {
    /// A URL.
    Url(String),
    /// The path of a file, unmodified: relative to the program's folder, or below `~/`.
    File(PathBuf),
}

table! {
    struct KeysAtKeys = "" {
        /// the URL of its public keys; this or `jwks_file`
        #[read(URL, keys_url)]
        #[also("jwks", "jwks_uri")]
        jwks_url: Option<String> = None,
        /// the file with its public keys
        #[also("file", "keys")]
        jwks_file: Option<PathBuf> = None,
    }
}

words! {
    /// An algorithm of signatures with a public key (RFC 7518, RFC 8037). There is none with a shared secret.
    #[expect(missing_docs, reason = "the names are the registered ones")]
    pub enum JwtAlgorithm {
        RS256 = "RS256",
        RS384 = "RS384",
        RS512 = "RS512",
        PS256 = "PS256",
        PS384 = "PS384",
        PS512 = "PS512",
        ES256 = "ES256",
        ES384 = "ES384",
        EdDSA = "EdDSA",
    }
}

choices! { JwtAlgorithm }

impl CallerTable {
    /// The maximum number of callers: each request is compared with all of them, and each has its own list of tools.
    pub(super) const MAX_CALLERS: usize = 64;
}

impl FromTable for KeysAt {
    const TABLE: Table = KeysAtKeys::TABLE;

    fn from_table(section: &Section<'_>) -> Option<Self> {
        let KeysAtKeys { jwks_url, jwks_file } = KeysAtKeys::from_table(section)?;
        if section.has("jwks_url") == section.has("jwks_file") {
            section.reject_whole("the issuer's keys are at either a `jwks_url` or a `jwks_file`");
        }
        jwks_url.map(Self::Url).or(jwks_file.map(Self::File))
    }
}

fn algorithms(entry: &Entry<'_>) -> Option<Vec<JwtAlgorithm>> {
    let algorithms: Vec<_> = FromValue::from_value(entry)?;
    if algorithms.is_empty() {
        return entry.reject("expected at least one algorithm");
    }
    Some(algorithms)
}

/// Whether a URL is encrypted or stays on this machine: an attacker who replaces the keys in transit could call as
/// anybody.
fn keys_url(entry: &Entry<'_>) -> Option<String> {
    let url = entry.url()?;
    match url.strip_prefix("http://") {
        Some(rest) if !is_loopback(host_of(rest)) => entry.reject("keys must be fetched over `https://`"),
        _ => Some(url),
    }
}

/// Checks one word of a `scope` (RFC 6749, section 3.3).
fn scope(entry: &Entry<'_>) -> Option<String> {
    let is_fine = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
    let text = entry.text()?;
    if text.chars().all(is_fine) {
        Some(text)
    } else {
        entry.reject("a scope has no white space and no quotes")
    }
}
