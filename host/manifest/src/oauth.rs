//! `[mcp_servers.oauth]`: the login at an MCP server over HTTP. Parses settings; sends no request, and program.toml
//! contains no token.

use super::secret::SecretSource;
use super::section::Section;
use super::table::table;
use super::values::URL;

table! {
    /// How `haft mcp login` logs in at a server (OAuth 2.1). Absent: as the server's own documents say.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OAuth = "[mcp_servers.oauth]" => checked {
        /// the id of your registered client; default `client_metadata_url`, else a registration at each login
        #[also("client", "id")]
        pub client_id: Option<String> = None,
        /// the client's secret, if it has one
        #[also("secret")]
        pub client_secret: Option<SecretSource> = None,
        /// the client's private key in PEM, which signs its logins in place of a secret
        #[also("key", "jwt")]
        pub private_key: Option<SecretSource> = None,
        /// log in as the client itself, without a person
        #[also("service", "machine", "grant_type")]
        pub client_credentials: bool = false,
        /// the scopes to request; default those that the server requires
        #[read(Kind::List(&Kind::Word), |entry| entry.list(Entry::word))]
        #[also("scope")]
        pub scopes: Vec<String> = Vec::new(),
        /// `https://` address of a client ID metadata document, the client's id for servers that support such
        /// documents
        #[read(URL, Entry::url)]
        #[also("metadata_url", "cimd")]
        pub client_metadata_url: Option<String> = None,
        // Lower ones belong to services of the system.
        /// local port for the browser's redirect; default any free port
        #[read(count 1024..=65535)]
        #[also("port", "redirect_port")]
        pub callback_port: Option<u32> = None,
    }
}

impl OAuth {
    /// What a person agrees to with it, in words; `place` says where a secret is kept. Empty where the server decides
    /// all of it.
    pub fn terms(&self, place: impl Fn(&SecretSource) -> String) -> String {
        let Self { client_id, client_secret, private_key, scopes, client_metadata_url, .. } = self;
        let parts = [
            client_id.as_ref().map(|id| format!("as {id}")),
            client_secret.as_ref().map(|source| format!("with the secret in {}", place(source))),
            private_key.as_ref().map(|source| format!("with the key in {}", place(source))),
            client_metadata_url.as_ref().map(|url| format!("as {url}")),
            (!scopes.is_empty()).then(|| format!("for {}", scopes.join(" "))),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        if parts.is_empty() { String::new() } else { format!("; logs in {}", parts.join(" ")) }
    }
}

fn checked(own: OAuth, section: &Section<'_>) -> OAuth {
    if own.client_secret.is_some() && own.client_id.is_none() {
        section.reject("client_secret", "needs a `client_id`");
    }
    let has_credentials =
        own.client_id.is_some() && (own.client_secret.is_some() || own.private_key.is_some());
    if own.client_credentials && !has_credentials {
        section.reject("client_credentials", "needs a `client_id`, and `client_secret` or `private_key`");
    }
    if own.private_key.is_some() && !own.client_credentials {
        section.reject("private_key", "needs `client_credentials = true`");
    }
    // As the draft of client ID metadata documents has it, section 3.
    let is_document = |url: &String| {
        url.strip_prefix("https://")
            .and_then(|rest| rest.split_once('/'))
            .is_some_and(|(_, path)| !path.is_empty())
    };
    if own.client_metadata_url.as_ref().is_some_and(|url| !is_document(url)) {
        section.reject("client_metadata_url", "expected an `https://` address with a path");
    }
    own
}
