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
        /// the company's identity provider, whose token logs haft in without a person
        #[also("enterprise", "idp")]
        pub identity_provider: Option<IdentityProvider> = None,
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

table! {
    /// An identity provider that decides which MCP servers a person's programs may use (MCP's extension for
    /// enterprise-managed authorization).
    #[derive(Clone, Debug, PartialEq)]
    pub struct IdentityProvider = "[mcp_servers.oauth.identity_provider]" => one_token {
        /// the provider's issuer, an `https://` address
        #[read(URL, Entry::url)]
        pub issuer: String,
        /// the id of your client that is registered at the provider
        pub client_id: String,
        /// the client's secret at the provider, if it has one
        pub client_secret: Option<SecretSource> = None,
        /// the person's ID token of the provider; read at each login
        pub id_token: Option<SecretSource> = None,
        /// the person's refresh token of the provider, in place of `id_token`
        pub refresh_token: Option<SecretSource> = None,
    }
}

fn one_token(own: IdentityProvider, section: &Section<'_>) -> IdentityProvider {
    if own.id_token.is_some() == own.refresh_token.is_some() {
        section.reject("id_token", "expected `id_token` or `refresh_token`, one of them");
    }
    own
}

impl OAuth {
    /// Its secrets, each with the name of its key.
    pub fn secrets(&self) -> impl Iterator<Item = (&'static str, &SecretSource)> {
        let provider = self.identity_provider.iter().flat_map(|provider| {
            [
                ("identity_provider.client_secret", &provider.client_secret),
                ("id_token", &provider.id_token),
                ("refresh_token", &provider.refresh_token),
            ]
        });
        let own = [("client_secret", &self.client_secret), ("private_key", &self.private_key)];
        own.into_iter().chain(provider).filter_map(|(name, source)| Some((name, source.as_ref()?)))
    }

    /// What a person agrees to with it, in words; `place` says where a secret is kept. Empty where the server decides
    /// all of it.
    pub fn terms(&self, place: impl Fn(&SecretSource) -> String) -> String {
        let Self { client_id, identity_provider, scopes, client_metadata_url, .. } = self;
        let secret = |(name, source)| {
            let kind = match name {
                "private_key" => "key",
                "id_token" | "refresh_token" => "token",
                _ => "secret",
            };
            format!("with the {kind} in {}", place(source))
        };
        let parts = [
            client_id.as_ref().map(|id| format!("as {id}")),
            client_metadata_url.as_ref().map(|url| format!("as {url}")),
            identity_provider.as_ref().map(|provider| format!("by {}", provider.issuer)),
        ];
        let scopes = (!scopes.is_empty()).then(|| format!("for {}", scopes.join(" ")));
        let secrets = self.secrets().map(secret);
        let parts: Vec<_> = parts.into_iter().flatten().chain(secrets).chain(scopes).collect();
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
    if own.identity_provider.is_some() && (own.client_id.is_none() || own.client_credentials) {
        section.reject("identity_provider", "needs a `client_id`, and no `client_credentials`");
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
